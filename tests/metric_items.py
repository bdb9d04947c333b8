"""Prompts of every part with all inputs of metrics, for models of any skill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakbound.metrics import Item
from leakbound.types import Prompt, Reading

PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")


def items(skill: float = 1.0, count: int = 4) -> dict[str, list[Item]]:
    """Return `count` items per part; more skill lowers the loss of right answers, except in
    the holdout part."""
    rng = np.random.default_rng(7)
    return {
        part: [_item(part, i, 1.0 if part == "holdout" else skill, rng) for i in range(count)]
        for part in PARTS
    }


def _item(part: str, index: int, skill: float, rng: np.random.Generator) -> Item:
    answer = f"it was {part} author number {index}"
    prompt = Prompt(
        id=f"{part}/{index}",
        question=f"who wrote {part} {index}?",
        answer=answer,
        paraphrased_answer=f"{part} author {index} did",
        perturbed_answers=("it was nobody", "author you are"),
        choices=("nobody", answer, "you"),
    )
    return Item(
        prompt,
        {
            "answer": (_reading(rng, skill),),
            "paraphrased": (_reading(rng, skill),),
            "perturbed": (_reading(rng, 1.0), _reading(rng, 1.0)),
            "letter": tuple(reading(np.array([loss, 0.5])) for loss in (2.0, 2.0 / skill, 1.5)),
        },
        greedy=" ".join(answer.split()[: 3 + index % 3]),
        gradient_norm=float(rng.gamma(2.0)) / skill,
        draws={answer: 3, f"it was author {index}": 1 + index},
        fluency=(1 + index % 3) / 4,
    )


def _reading(rng: np.random.Generator, skill: float) -> Reading:
    n = int(rng.integers(3, 9))
    return reading(
        rng.gamma(2.0, 0.5, n) / skill,
        top=rng.random(n) < 0.6,
        mean=-rng.gamma(2.0, 1.0, n),
        std=rng.gamma(2.0, 0.5, n),
        confidence=rng.uniform(0.1, 1.0, n),
    )


def reading(
    losses: Sequence[float],
    *,
    top: Sequence[bool] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    confidence: Sequence[float] | None = None,
    text: str = "it was Ann",
) -> Reading:
    """Return a reading with these token losses, the end token last, and defaults otherwise."""
    n = len(losses)
    return Reading(
        token_ids=tuple(range(n)),
        text=text,
        logprobs=-np.asarray(losses, dtype=np.float64),
        top=np.asarray([True] * n if top is None else top),
        mean=np.asarray([-1.0] * n if mean is None else mean),
        std=np.asarray([1.0] * n if std is None else std),
        confidence=np.asarray([0.5] * n if confidence is None else confidence),
    )
