"""`--engine`: what draws, by its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound import evaluate
from leakbound.errors import InputError


def test_an_engine_is_said_once(model: Path, questions: Path) -> None:
    how = ("--benchmark", questions, "--dry-run", *SMALL)
    both = ("evaluate", f"vllm:{model}", "--engine", "transformers")
    refused(leakbound(*both, *how), f"`vllm:{model}` names its engine", "`--engine transformers`")
    misspelt = leakbound("evaluate", model, "--engine", "vlm", *how)
    refused(misspelt, "'vlm'", "Did you mean 'vllm'?")
    assert "2 questions" in done("evaluate", model, "--engine", "transformers", *how).out


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
