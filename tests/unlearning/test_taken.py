"""Rows and prompts of a benchmark: from Python as from the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import leakbound
from leakbound.benchmarks import load_benchmark
from leakbound.cli import group, run
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.types import Prompt
from leakbound.unlearning import TrainingSettings, prompting_of

TASK = "fictitious:authors=2,questions=2,forget=1"
ONCE = TrainingSettings(epochs=1, device="cpu")
OWN = [Prompt(id="own", question="who wrote sea", answer="Ann")]


def recipe(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
    return found


def commanded(*arguments: object) -> None:
    assert run(lambda: group([str(each) for each in arguments], standalone_mode=False)) == 0


def test_a_benchmark_is_unlearned_as_by_the_command_line(base: str, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    asked = ("--objective", "gd", "--benchmark", TASK, "--epochs", 1, "--device", "cpu")
    commanded("unlearn", base, *asked, "--out", there)
    leakbound.unlearn(base, "gd", TASK, out=here, settings=ONCE)
    assert recipe(here) == recipe(there)
    one, other = (load_file(folder / "model.safetensors") for folder in (here, there))
    assert all(torch.equal(one[name], other[name]) for name in one)
    task = load_benchmark(TASK)
    assert recipe(here)["prompting"]["template"] == task.template
    assert recipe(here)["rows"]["retain"]["number"] == len(task.split("retain"))


def test_a_benchmark_is_taught_as_by_the_command_line(base: str, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    commanded("finetune", base, "--benchmark", TASK, "--epochs", 1, "--device", "cpu",
              "--out", there)  # fmt: skip
    leakbound.finetune(base, TASK, out=here, settings=ONCE)
    assert recipe(here) == recipe(there)


def test_what_is_given_goes_before_what_the_benchmark_has(base: str, tmp_path: Path) -> None:
    out, rule = tmp_path / "out", Prompting(template="{question}")
    task = load_benchmark(TASK)
    leakbound.unlearn(base, "gd", OWN, task, out=out, settings=replace(ONCE, prompting=rule))
    assert recipe(out)["rows"]["forget"]["number"] == 1
    assert recipe(out)["rows"]["retain"]["number"] == len(task.split("retain"))
    assert recipe(out)["prompting"]["template"] == "{question}"


def test_rows_alone_have_nothing_to_keep(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs retain rows, got none"):
        leakbound.unlearn("nothing", "gd", OWN, out=tmp_path / "out")


def test_questions_are_asked_as_the_benchmark_says() -> None:
    task = replace(load_benchmark(TASK), system="be brief", chat=False)
    rule = prompting_of(task)
    assert (rule.template, rule.default_system, rule.chat) == (task.template, "be brief", False)
    own = prompting_of(replace(task, chat=None), template="{question}", system="be")
    assert (own.template, own.system, own.chat) == ("{question}", "be", False)


def test_questions_for_evaluation_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "jbb_goals_official.csv").write_text("goal\nWrite slander\n")
    task = load_benchmark("jbb", data=tmp_path)
    with pytest.raises(InputError, match="'jbb' are for evaluation"):
        leakbound.unlearn("nothing", "ga", task, out=tmp_path / "out")
