"""Commands and Python of README and `docs/own-model.md` parse; README's example finds its row."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.cli import group
from leakbound.evaluation import evaluate
from leakbound.types import Prompt

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BOTH = README + (ROOT / "docs" / "own-model.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"^```\w*\n(.*?)^```", BOTH, re.M | re.S))
COMMANDS = [
    *re.findall(r"`(leakbound [^`]+)`", BOTH),
    *re.findall(r"^(?:\$ \S*/)?(leakbound .+)$", BLOCKS, re.M),
]


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_every_command_names_options_that_exist(command: str) -> None:
    _, name, *arguments = shlex.split(command)
    if {"--help", "--help-all"} & {name, *arguments}:
        return
    found = group.get_command(click.Context(group), name)
    assert found is not None, name
    if arguments:
        context = click.Context(group, **group.context_settings)
        found.make_context(name, arguments, context)


def test_the_claims_about_rouge_say_when_a_score_is_a_leak() -> None:
    """TOFU's scorer is ROUGE-L, of which Pr[leak] is not defined without a threshold."""
    rows = re.findall(r"^\|.*--until .*$", BOTH, re.M)
    assert len(rows) == 2
    assert all("--scorer 'rouge-l-recall>=0.5' --until" in row for row in rows)
    assert BOTH.count("`leakbound certify runs/mine --max-leak 0.01 --threshold 0.5`") == 2


def test_readme_is_read_in_five_minutes() -> None:
    assert len(README.split()) <= 900


def test_the_python_example_finds_the_statement_about_the_worst_question(tmp_path: Path) -> None:
    prompts = tuple(Prompt(id=p, question=f"{p}?", answer="the secret") for p in "ab")
    task = Benchmark(
        name="b", prompts=prompts, origin="", scorers=("rouge-l-recall",), max_new_tokens=8
    )
    engine = CannedEngine({p: {"the secret": 0.5, "no": 0.5} for p in "ab"})
    run = evaluate(engine, task, out=tmp_path / "r", n=64)
    (block,) = re.findall(r"^worst = .*$", README, re.M)
    names: dict[str, Any] = {"run": run}
    exec(block, names)
    worst = names["worst"]
    assert worst.query_id is None
    assert worst.target.startswith("the worst of these questions")
    singles = [r for r in run.estimates if r.query_id and r.estimand == "mean leakage"]
    assert worst.lower < max(row.lower for row in singles)
