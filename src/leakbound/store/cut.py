"""How large parts are: so that each takes about a minute, whatever the model costs.

The first part is small. Each one after it is as large as the time that the one before it took
suggests; that is decided once, before it is drawn, and recorded with the arm. So a run that is
gone on with has the parts it was begun with, and speed decides only how many are lost when it is
stopped, never what is drawn: draws are keyed by query and chunk, whatever part they are in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SECONDS = 60.0  # what a part should take
_SHORT, _LONG = 20.0, 90.0  # between them, the next part is as large
_GROWTH = 4  # at most, from one part to the next: questions differ in what they cost
_FIRST, _MOST = 64, 8192  # draws; more advance together, and fewer are lost


@dataclass(frozen=True, slots=True)
class Cut:
    """The sizes of parts by number: `sizes[k]` is that of part k and of those up to the next key.

    Sizes are in draws, or in questions where they are explored; none is above `most`. A part is
    as much work as there is below its size, but at least one chunk of one query. Those up to the
    part `decided` are fixed for good.
    """

    sizes: Mapping[int, int]
    most: int
    decided: int = 0

    @classmethod
    def draws(cls) -> Cut:
        """For draws: parts of 64 at first, at last of 8,192."""
        return cls({0: _FIRST}, _MOST)

    @classmethod
    def questions(cls, most: int) -> Cut:
        """For questions that are explored: one at first."""
        return cls({0: 1}, most)

    @classmethod
    def whole(cls) -> Cut:
        """For draws that cost nothing, since they are there: the largest parts."""
        return cls({0: _MOST}, _MOST)

    def size(self, number: int) -> int:
        """The size of this part, as far as it is known."""
        return self.sizes[max(k for k in self.sizes if k <= number)]

    def after(self, number: int, done: int, seconds: float) -> Cut:
        """Decide the size of the part behind `number`, which was `done` large and took so long."""
        size = now = self.size(number + 1)
        fitting = _power(done * SECONDS / max(seconds, 1e-9))
        if seconds < _SHORT:
            size = max(size, min(fitting, _power(_GROWTH * done), self.most))
        elif seconds > _LONG:
            size = min(size, fitting)
        sizes = self.sizes if size == now else {**self.sizes, number + 1: size}
        return Cut(sizes, self.most, number + 1)


def _power(size: float) -> int:
    """The power of two at or below a size, at least 1: clocks that differ a little agree."""
    return 1 << math.floor(math.log2(max(size, 1.0)))
