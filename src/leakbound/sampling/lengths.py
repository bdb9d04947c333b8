"""How long draws become, foreseen from those that are still drawn."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_ENDED, _WAY = 0.1, 0.125  # of the draws, of the longest output: after either is something known


class Lengths:
    """By how many tokens they had: draws, those that ended with the next one, and the prefixes
    that the others went on as.
    """

    def __init__(self, longest: int) -> None:
        self._draws, self._ended, self._prefixes = np.zeros((3, longest))

    def add(self, tokens: Ints, draws: Ints, ended: Ints, prefixes: Ints) -> None:
        """Rows of so many tokens: the draws on each, how many ended, as what the others go on."""
        np.add.at(self._draws, tokens, draws)
        np.add.at(self._ended, tokens, ended)
        np.add.at(self._prefixes, tokens, prefixes)

    def forwards(self) -> float:
        """How many prefixes behind the prompt are forwarded for a draw, until it ends.

        The product-limit estimate, which counts draws that go on for as far as they are; further
        on, draws end as often as in the later half of that, and share as few prefixes as now.
        Infinite where little is known yet: few ended, and none has come far.
        """
        seen = np.flatnonzero(self._draws)
        if not len(seen):
            return math.inf
        last, shape = int(seen[-1]), len(self._draws)
        late, going = slice((last + 1) // 2, None), self._draws - self._ended
        ends = np.full(shape, self._ended[late].sum() / self._draws[late].sum())
        np.divide(self._ended, self._draws, out=ends, where=self._draws > 0)
        width = self._prefixes / np.maximum(going, 1)
        width[last + 1 :] = width[last]
        goes_on = np.cumprod(1 - ends)
        if goes_on[last] > 1 - _ENDED and last < _WAY * shape:
            return math.inf
        return float(goes_on[:-1] @ width[:-1])
