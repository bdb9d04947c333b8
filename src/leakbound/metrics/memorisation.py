"""How much of an answer a model can complete by itself, token for token.

Both count the answer's tokens without the end token, as OpenUnlearning does. Exact memorisation:
Tirumala et al. (2022). Extraction strength: Carlini et al. (2021), in tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from leakbound.errors import InputError
from leakbound.types import Compat, Reading

if TYPE_CHECKING:
    from numpy.typing import NDArray


def exact_memorisation(reading: Reading) -> float:
    """The share of the answer's tokens that are the likeliest after those before: in [0, 1]."""
    return float(_answer(reading).mean())


def extraction_strength(reading: Reading, *, compat: Compat | None = None) -> float:
    """The longest ending that greedy decoding completes, as a share of the answer: in [0, 1].

    1 - k/n, k the first of n tokens from which each is the likeliest; 0 where even the last is
    not. OpenUnlearning gives 1/n there, and `compat="openunlearning"` does.
    """
    top = _answer(reading)
    missed = np.flatnonzero(~top)
    ending = len(top) - (missed[-1] + 1 if len(missed) else 0)
    if compat == "openunlearning":
        ending = max(ending, 1)
    return float(ending / len(top))


def _answer(reading: Reading) -> NDArray[np.bool_]:
    """Of each token of the answer without its end token, whether it is the likeliest."""
    if len(reading.top) < 2:
        raise InputError(
            f"memorisation needs a token before the end token, got {len(reading.top)} in all. "
            "Give an answer with text."
        )
    return reading.top[:-1]
