"""`--engine`: what draws, named or chosen by what it would cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound import evaluate
from leakbound.evaluation import Cost
from leakbound.evaluation.drawing import choice
from leakbound.store import Run

SHORT = ("--max-new-tokens", 4)
TESTS = Path(__file__).parent.parent
FAKE = {
    "__init__.py": "from fake_vllm import LLM, SamplingParams, __version__",
    "lora/__init__.py": "",
    "lora/request.py": "from fake_vllm import LoRARequest",
    "platforms.py": "class current_platform:\n    is_cpu = staticmethod(lambda: True)",
}


def cost(expected: float) -> Cost:
    return Cost(
        questions=2,
        decodings=1,
        seconds=(expected, 2 * expected),
        expected=expected,
        bytes=(1, 2),
        rate=80.0,
        saving=3.25,
    )


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines stand here."""
    monkeypatch.setattr(choice, "find_spec", lambda name: name)


@pytest.mark.parametrize(("of_vllm", "engine"), [(60.0, "vllm"), (1200.0, "transformers")])
def test_the_soonest_is_named_with_the_figures_of_each(
    of_vllm: float, engine: str, model: Path, questions: Path, monkeypatch: pytest.MonkeyPatch,
    both: None,
) -> None:  # fmt: skip
    costs = {str(model): cost(600.0), f"vllm:{model}": cost(of_vllm)}
    monkeypatch.setattr(choice, "_tried", lambda location, asked: costs[location])
    how = ("evaluate", model, "--engine", "auto", "--benchmark", questions, "--dry-run")
    shown = done(*how)
    assert (
        f"engine: {engine}: transformers about 10.0 minutes (80 tokens a second, 3.2" in shown.err
    )
    assert f"vllm about {of_vllm / 60:.1f} minutes" in shown.err
    told = done(*how, "--json").json
    assert (told["engine"], told["expected"]) == (engine, min(600.0, of_vllm))


def test_an_engine_that_cannot_draw_it_is_left_out_and_says_why(
    model: Path, questions: Path, monkeypatch: pytest.MonkeyPatch, both: None
) -> None:
    found = {str(model): cost(600.0), f"vllm:{model}": "vLLM has no adaptive temperature."}
    monkeypatch.setattr(choice, "_tried", lambda location, asked: found[location])
    how = ("evaluate", model, "--engine", "auto", "--benchmark", questions, "--dry-run")
    assert "vllm cannot: vLLM has no adaptive temperature." in done(*how).err
    found[str(model)] = "It is too large."
    refused(leakbound(*how), "no engine that is installed can draw this", "too large", "adaptive")


@pytest.mark.parametrize("more", [("--explore", "auto"), ("--metrics", "forget_probability")])
def test_what_needs_probabilities_is_drawn_by_the_engine_that_knows_them(
    more: tuple[str, str], model: Path, questions: Path, both: None
) -> None:
    how = ("evaluate", model, "--engine", "auto", "--benchmark", questions, "--dry-run", *SHORT)
    assert "engine: transformers: only it knows probabilities" in done(*how, *more).err


@pytest.mark.slow
def test_one_engine_alone_needs_no_trial(
    model: Path, control: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: name == "transformers")
    monkeypatch.setattr(choice, "_tried", None)
    ask = ("evaluate", model, "--engine", "auto", "--benchmark", questions, *SMALL)
    shown = done(*ask, "--control", control, "--out", tmp_path / "run")
    assert "engine: transformers: vllm is not installed" in shown.err
    arms = Run.open(tmp_path / "run").arms.values()
    assert {arm.spec.model for arm in arms} == {str(model), str(control)}
    # And in Python, where a run that has begun keeps its engine.
    run = evaluate(f"auto:{model}", Run.open(tmp_path / "run").study, out=tmp_path / "python", n=8)
    monkeypatch.setattr(choice, "find_spec", lambda name: name == "vllm")
    again = evaluate(f"auto:{model}", run.study, out=tmp_path / "python")
    assert again.estimates == run.estimates


def test_an_engine_is_said_once(model: Path, questions: Path) -> None:
    how = ("--benchmark", questions, "--dry-run", *SMALL)
    both = ("evaluate", f"vllm:{model}", "--engine", "transformers")
    refused(leakbound(*both, *how), f"`vllm:{model}` names its engine", "`--engine transformers`")
    misspelt = leakbound("evaluate", model, "--engine", "vlm", *how)
    refused(misspelt, "'vlm'", "Did you mean 'vllm'?")
    assert "2 questions" in done("evaluate", model, "--engine", "transformers", *how).out


@pytest.mark.slow
def test_engines_are_tried_in_processes_of_their_own(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a package that is called vllm, which forwards every draw by itself."""
    for name, text in FAKE.items():
        file = tmp_path / "lib" / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "lib"), str(TESTS)]))
    monkeypatch.syspath_prepend(tmp_path / "lib")
    how = ("evaluate", model, "--engine", "auto", "--benchmark", questions, "--dry-run", *SMALL)
    told = done(*how, "--json").json
    assert "transformers about" in told["why"]
    assert "vllm about" in told["why"]
    assert "1.0 for each one forwarded" in told["why"]
    assert told["engine"] == told["why"].partition(":")[0]
    assert not [name for name in sys.modules if name.partition(".")[0] == "vllm"]
