"""The examples for inspect_ai and lm-evaluation-harness: by hand, and inside them if installed."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from leakbound import stats
from leakbound.formats.inspect_log import read

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """An example, freshly imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Score:
    value: float
    metadata: dict[str, Any] | None = None

    def as_float(self) -> float:
        return self.value


@dataclass
class Made:
    """Whatever was made, with what it was made of."""

    given: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


def _make(*given: Any, **named: Any) -> Made:
    return Made(given, named)


def _marks(*given: Any, **named: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return given[0] if given and not named else lambda function: function


@contextmanager
def stand_in_for_inspect() -> Iterator[None]:
    """The few calls of inspect_ai that the example makes."""
    marks = {"metric": _marks, "scorer": _marks, "score_reducer": _marks}
    types = dict.fromkeys(("Metric", "SampleScore", "Scorer", "ScoreReducer", "Target"), Made)
    modules = {
        "inspect_ai": {"Epochs": _make, "Task": _make, "task": _marks},
        "inspect_ai.dataset": {"MemoryDataset": _make, "Sample": _make},
        "inspect_ai.scorer": {**marks, **types, "Score": Score},
        "inspect_ai.solver": {"TaskState": Made, "generate": _make},
    }
    before = {name: sys.modules.get(name) for name in modules}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                del sys.modules[name]
            else:
                sys.modules[name] = known


def state(text: str) -> Any:
    """As far as a scorer looks at it."""
    return SimpleNamespace(output=SimpleNamespace(completion=text))


def target(text: str) -> Any:
    return SimpleNamespace(text=text)


def sample_score(score: Any) -> Any:
    return SimpleNamespace(score=score)


has_inspect = find_spec("inspect_ai") is not None


@pytest.fixture
def example() -> Iterator[Any]:
    with stand_in_for_inspect():
        yield load("inspect_scorer")


def test_a_completion_is_scored_by_leakbound(example: Any) -> None:
    score = example.leakage("contains")
    found = [asyncio.run(score(state(t), target("Paris"))) for t in ("In Paris.", "In Rome.")]
    assert [one.value for one in found] == [1.0, 0.0]
    undecided = type("S", (), {"score": lambda *_: [None], "name": "s", "binary": False})()
    example.make_scorer = lambda spec: undecided
    assert math.isnan(asyncio.run(example.leakage()(state("x"), target("Paris"))).value)


def test_the_metric_bounds_what_the_reducer_kept(example: Any) -> None:
    reduce = example.every_epoch(4)
    drawn = [[1.0, 0.0, 0.5, 0.0], [0.0, math.nan], [1.0, 1.0, 1.0]]
    reduced = [reduce([example.Score(value) for value in row]) for row in drawn]
    assert reduced[0].value == 0.375
    assert [one.metadata["missing"] for one in reduced] == [0, 3, 1]
    found = example.mean_leakage(0.9)([sample_score(one) for one in reduced])
    wanted = stats.mean_over_questions(
        [[1, 0, 0.5, 0], [0, 0, 0, 0], [1, 1, 1, 0]],
        [[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]],
        missing=[0, 3, 1],
        confidence=0.9,
        side="both",
    )
    assert found == {"value": wanted.value, "lower": wanted.lower, "upper": wanted.upper}


def test_the_task_keeps_every_epoch(example: Any) -> None:
    made = example.capitals().named
    epochs, reducer = made["epochs"].given
    assert epochs == example.EPOCHS
    assert reducer([example.Score(1.0)]).metadata["missing"] == example.EPOCHS - 1


@pytest.mark.skipif(not has_inspect, reason="inspect_ai is not installed")
@pytest.mark.filterwarnings("ignore")
def test_inside_inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, get_model

    monkeypatch.setattr("inspect_ai.model._model.count_text_tokens", lambda text: len(text))
    chance, example = random.Random(0), load("inspect_scorer")
    texts = ["Paris" if chance.random() < 0.3 else "No idea" for _ in range(3 * example.EPOCHS)]
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    (log,) = evaluate(
        example.capitals(),
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(tmp_path),
        temperature=1.0,
        display="none",
    )
    assert log.status == "success"
    found = {name: one.value for name, one in log.results.scores[0].metrics.items()}
    (path,) = tmp_path.glob("*.eval")
    drawn = [
        sum(draw is not None and one.answers[0] in draw.text for draw in one.draws)
        for one in read(path).asked
    ]
    assert found["value"] == pytest.approx(sum(drawn) / len(texts))
    assert found["lower"] < found["value"] < found["upper"] < 1


has_lm_eval = find_spec("lm_eval") is not None


def test_repeats_are_scored_and_bounded() -> None:
    example, doc = load("lm_eval_metric"), {"answer": "Paris"}
    found = example.process_results(doc, [["In Paris.", "No.", "Paris"]])
    assert found == {"mean_leakage": [1.0, 0.0, 1.0], "mean_leakage_upper": [1.0, 0.0, 1.0]}
    items = [[1.0, 0.0, 1.0, 0.0], [0.0, None, 0.0, None]]
    wanted = stats.mean_over_questions(
        [[1, 0, 1, 0], [0, 0, 0, 0]], [[1, 1, 1, 1], [1, 0, 1, 0]], missing=[0, 2]
    )
    assert (example.mean(items), example.upper(items)) == (wanted.value, wanted.upper)
    assert wanted.confidence == example.CONFIDENCE


def test_the_task_hands_over_as_many_repeats_as_it_draws() -> None:
    lines = (EXAMPLES / "lm_eval_task.yaml").read_text().splitlines()
    said = dict(line.strip().removeprefix("- ").split(": ", 1) for line in lines if ": " in line)
    assert said["repeats"] == said["k"]
    assert (said["do_sample"], said["top_k"], said["top_p"]) == ("true", "0", "1.0")
    example = load("lm_eval_metric")
    named = [word.split(".")[1] for word in " ".join(lines).split() if word.startswith("lm_eval_")]
    assert sorted(named) == ["mean", "process_results", "upper"]
    assert all(hasattr(example, name) for name in named)


@pytest.mark.skipif(not has_lm_eval, reason="lm-evaluation-harness is not installed")
@pytest.mark.filterwarnings("ignore")
def test_inside_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval
    from lm_eval.api.model import LM

    class Canned(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            chance = random.Random(0)
            return ["Paris" if chance.random() < 0.3 else "No idea" for _ in requests]

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    task = str(EXAMPLES / "lm_eval_task.yaml")
    found = lm_eval.simple_evaluate(model=Canned(), tasks=[task], bootstrap_iters=0)
    values = found["results"]["capitals_leakage"]
    mean, upper = (values[f"{m},every-repeat"] for m in ("mean_leakage", "mean_leakage_upper"))
    assert 0 < mean < upper < 1
