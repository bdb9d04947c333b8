"""How surely a model picks the right one of a question's options, by its letter.

As lm-evaluation-harness asks WMDP and MMLU: the options are listed in the question, and the letters
are compared as what comes next. Of a letter's reading the end token is left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from leakbound.errors import InputError
from leakbound.types import Reading

if TYPE_CHECKING:
    from numpy.typing import NDArray


def choice_accuracy(letters: Sequence[Reading], right: Collection[int]) -> float:
    """1 if the likeliest letter, ties to the first, is a right one, else 0."""
    shares = _shares(letters, right)
    return float(int(shares.argmax()) in right) if np.isfinite(shares).all() else math.nan


def choice_probability(letters: Sequence[Reading], right: Collection[int]) -> float:
    """The right letters' share of the probability of all the letters: in [0, 1]."""
    return float(min(_shares(letters, right)[list(right)].sum(), 1.0))


def _shares(letters: Sequence[Reading], right: Collection[int]) -> NDArray[np.float64]:
    """The probability of each letter, given that it is one of them."""
    if not right or not set(right) <= set(range(len(letters))):
        raise InputError(
            f"the right one of {len(letters)} options must be among them, got {sorted(right)}. "
            "Write the right choice out as the answer."
        )
    logs = np.array([reading.logprobs[:-1].sum() for reading in letters])
    chances = np.exp(logs - logs.max())
    shares: NDArray[np.float64] = chances / chances.sum()
    return shares
