"""Prompts of every part with all that a metric can ask for, for models of any skill."""

from __future__ import annotations

import numpy as np

from leakbound.metrics import Item
from leakbound.types import Prompt, Reading
from readings import reading

PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")


def items(skill: float = 1.0, count: int = 4) -> dict[str, list[Item]]:
    """What a model knows of `count` prompts a part; the more skill the less loss
    on right answers, those of the holdout part excepted."""
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
