"""The scorer, reducer and metric for inspect_ai: by hand, and inside inspect_ai where it is."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from stand_ins import load, sample_score, stand_in_for_inspect, state, target

from leakbound import stats
from leakbound.formats.inspect_log import read

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
