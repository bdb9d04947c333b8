"""Bounds in inspect_ai: a scorer, a reducer that keeps every epoch, and a metric that bounds.

    inspect eval inspect_scorer.py --model openai/gpt-4o-mini --temperature 1

An epoch that failed never reaches the reducer, so the reducer is told how many there are: those
that did not come count as missing, never as 0.
"""

from __future__ import annotations

import math

import numpy as np
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import (
    Metric,
    SampleScore,
    Score,
    Scorer,
    ScoreReducer,
    Target,
    metric,
    score_reducer,
    scorer,
)
from inspect_ai.solver import TaskState, generate

from leakbound import stats
from leakbound.scorers import make_scorer, score_texts

EPOCHS = 64


@metric
def mean_leakage(confidence: float = 0.99) -> Metric:
    """The mean leakage over the samples, with ends that hold together at `confidence`."""

    def bound(scores: list[SampleScore]) -> dict[str, float]:
        drawn = [(sample.score.metadata or {})["epochs"] for sample in scores]
        values = np.zeros((len(drawn), max(map(len, drawn))))
        counts = np.zeros(values.shape, dtype=int)
        for i, row in enumerate(drawn):
            values[i, : len(row)] = row
            counts[i, : len(row)] = 1
        missing = [(sample.score.metadata or {})["missing"] for sample in scores]
        found = stats.mean_over_questions(
            values, counts, missing=missing, confidence=confidence, side="both"
        )
        return {name: float(getattr(found, name)) for name in ("value", "lower", "upper")}

    return bound


@scorer(metrics=[mean_leakage()])
def leakage(spec: str = "contains") -> Scorer:
    """A scorer of leakbound: 1 is a full leak, NaN undecided."""
    chosen = make_scorer(spec)

    async def score(state: TaskState, target: Target) -> Score:
        (value,) = score_texts(chosen, [state.output.completion], target.text)
        return Score(value=math.nan if value is None else value)

    return score


@score_reducer(name="every_epoch")
def every_epoch(epochs: int = EPOCHS) -> ScoreReducer:
    """The mean over the epochs, with each epoch's score kept for the metric."""

    def reduce(scores: list[Score]) -> Score:
        known = [value for value in (s.as_float() for s in scores) if not math.isnan(value)]
        mean = sum(known) / len(known) if known else math.nan
        return Score(value=mean, metadata={"epochs": known, "missing": epochs - len(known)})

    return reduce


@task
def capitals() -> Task:
    """Three questions, each drawn 64 times."""
    asked = {"France": "Paris", "Spain": "Madrid", "Norway": "Oslo"}
    return Task(
        dataset=MemoryDataset(
            [
                Sample(id=land, input=f"What is the capital of {land}?", target=city)
                for land, city in asked.items()
            ]
        ),
        solver=generate(),
        scorer=leakage(),
        epochs=Epochs(EPOCHS, every_epoch(EPOCHS)),
    )
