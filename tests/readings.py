"""Readings made by hand: what a model would make of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakbound.types import Reading


def reading(
    losses: Sequence[float],
    *,
    top: Sequence[bool] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    confidence: Sequence[float] | None = None,
    text: str = "it was Ann",
) -> Reading:
    """A reading with these token losses, the end token's last; the rest is dull by default."""
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
