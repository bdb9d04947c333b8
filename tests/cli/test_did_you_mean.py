"""A misspelt name or file: what is near it is named, beside what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound import evaluate
from leakbound.cli.options import REMOVED
from leakbound.errors import InputError


def test_a_command() -> None:
    result = leakbound("evalute", "model")
    assert result.status == 2
    assert "No such command 'evalute'. Did you mean 'evaluate'? There is: " in result.err


def test_an_option(model: Path) -> None:
    result = leakbound("evaluate", model, "--benchmrak", "fictitious")
    assert result.status == 2
    assert "'--benchmark'" in result.err


@pytest.mark.parametrize(
    ("option", "said", "meant"),
    [
        ("--benchmark", "fictitous", "fictitious"),
        ("--benchmark", "tofu:forget1", "forget10"),
        ("--scorer", "contans", "contains"),
        ("--profile", "sholten", "scholten"),
        ("--engine", "vlm", "vllm"),
        ("--inputs", "rule", "rules"),
        ("--metrics", "forget_fluancy", "forget_fluency"),
    ],
)
def test_a_name(option: str, said: str, meant: str, model: Path, tmp_path: Path) -> None:
    asked = {"--benchmark": "fictitious", option: said}
    words = [word for pair in asked.items() for word in pair]
    result = leakbound("evaluate", model, *words, "--out", tmp_path / "run")
    refused(result, f"Did you mean {meant!r}?")
    assert "loading" not in result.err
    assert not (tmp_path / "run" / "run.json").exists()


def test_an_objective(model: Path, tmp_path: Path) -> None:
    asked = ("--benchmark", "fictitious", "--objective", "nppo", "--out", tmp_path / "out")
    refused(leakbound("unlearn", model, *asked), "Did you mean 'npo'?")


def test_of_very_many_names_the_near_ones_alone(model: Path, tmp_path: Path) -> None:
    asked = ("--benchmark", "fictitious", "--out", tmp_path / "run")
    result = leakbound("evaluate", model, *asked, "--metrics", "forget_fluancy")
    assert "among them: forget_fluency" in result.err
    assert len(result.err) < 300


def test_a_run(run: Path) -> None:
    meant = f"Did you mean `{run}`?"
    refused(leakbound("report", run.with_name("rnu")), meant, "is no run directory")
    refused(leakbound("bound", run.with_name("runn")), meant)


def test_a_run_from_where_one_is(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    refused(leakbound("report", "rnu"), "Did you mean `run`?")


def test_a_folder_on_the_way(run: Path, tmp_path: Path) -> None:
    wrong = tmp_path.with_name(f"{tmp_path.name}x") / "run"
    assert f"Did you mean `{tmp_path}`?" in leakbound("report", wrong).err


def test_a_model(model: Path, tmp_path: Path) -> None:
    wrong = model.with_name("modle")
    asked = ("--benchmark", "fictitious", "--limit", 1, "--out", tmp_path / "run")
    result = leakbound("evaluate", wrong, *asked)
    assert result.status == 2
    assert f"Did you mean `{model}`?" in result.err


@pytest.mark.parametrize("option", ["--benchmark", "--study", "--calibration"])
def test_a_file(option: str, model: Path, questions: Path, tmp_path: Path) -> None:
    asked = {"--benchmark": str(questions), option: str(questions.with_name("mien.csv"))}
    words = [word for pair in asked.items() for word in pair]
    result = leakbound("evaluate", model, *words, "--out", tmp_path / "run")
    refused(result, f"Did you mean `{questions}`?")


def test_a_file_named_without_its_ending(
    model: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(questions.parent)
    asked = ("--benchmark", questions.stem, "--out", "run")
    refused(leakbound("evaluate", model, *asked), f"Did you mean the file '{questions.name}'?")


def test_nothing_is_said_where_nothing_is_near(tmp_path: Path) -> None:
    result = leakbound("report", tmp_path / "quite-another-name")
    refused(result, "is no run directory")
    assert "Did you mean" not in result.err


def test_an_engine_is_said_once(model: Path, questions: Path) -> None:
    how = ("--benchmark", questions, "--dry-run", *SMALL)
    both = ("evaluate", f"vllm:{model}", "--engine", "transformers")
    refused(leakbound(*both, *how), f"`vllm:{model}` names its engine", "`--engine transformers`")
    misspelt = leakbound("evaluate", model, "--engine", "vlm", *how)
    refused(misspelt, "'vlm'", "Did you mean 'vllm'?")
    assert "2 questions" in done("evaluate", model, "--engine", "transformers", *how).out


@pytest.mark.parametrize("said", REMOVED)
def test_what_was_taken_out_says_what_serves_instead(said: str, tmp_path: Path) -> None:
    verb, *option = said.split()
    told = leakbound(verb, *option, "x", tmp_path)
    name = f"`{option[0]}` x: " if option else f"`leakbound {verb}` "
    refused(told, f"leakbound: {name}{REMOVED[said]}")
    if option:
        assert option[0] not in done(verb, "--help").out
        return
    refused(leakbound(verb, "--help"), REMOVED[said])
    assert f"  {verb}" not in done("--help").out


@pytest.mark.parametrize("command", ["evaluate", "sample"])
@pytest.mark.parametrize(
    "how", [("M", "--engine", "auto", "--dry-run"), ("auto:M",), ("M", "--control", "auto:M")]
)
def test_an_engine_that_is_left_open_is_refused_and_told_what_became_of_it(
    command: str, how: tuple[str, ...], model: Path, questions: Path, tmp_path: Path
) -> None:
    named = [word.replace("M", str(model)) for word in how]
    done = leakbound(command, *named, "--benchmark", questions, *SMALL, "--out", tmp_path / "run")
    refused(done, f"`auto:{model}`", "`--engine auto`", "taken out", "--engine vllm", "engines.md")


def test_in_python_too(model: Path, questions: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`--engine auto`, which tried"):
        evaluate(f"auto:{model}", str(questions), out=tmp_path / "run", scorers=["keyword"])
