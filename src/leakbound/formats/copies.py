"""Draws that can only be copies: the same run of them twice, in one file or in two.

Calls seeded with s and s + 1 share all draws but one on servers that seed draw i with s + i, and
a cache keyed without the number of the draw gives the same ones again. Probabilities are not known
here, so the order tells: if two stretches agree draw by draw at every question, the chance of that
is about the product of the texts' shares among the question's draws. Texts that are always the
same tell nothing: a peaked model draws them too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.formats.imported import Draw, ImportedLog

LEVEL = 1e-9
_MISSING = -1


def require_no_copies(logs: Sequence[ImportedLog]) -> None:
    """Raise InputError where draws of one log stand again in it, or in another of the logs."""
    ordered = [log for log in logs if log.ordered]
    for one, other in combinations_with_replacement(ordered, 2):
        found = _shift_that_copies(one, other)
        if found is not None:
            shift, texts = found
            again = "again" if one is other else f"in `{other.path}`"
            raise InputError(
                f"draws are copies of one another, so no bound would hold for them: {texts:,} "
                f"draws of `{one.path}` stand {again}, in the same order, {abs(shift)} places "
                "on. Draw anew without a fixed seed and without a cache."
            )


def repeats_itself(log: ImportedLog) -> bool:
    """True if every question was drawn more than once and gave one text only."""
    if not log.texts:
        return False
    drawn = [[draw.output for draw in one.draws if draw is not None] for one in log.asked]
    return all(len(draws) > 1 and len(set(draws)) == 1 for draws in drawn)


def _shift_that_copies(one: ImportedLog, other: ImportedLog) -> tuple[int, int] | None:
    """The shift at which two logs agree beyond chance, and at how many draws."""
    pairs = list(_coded(one, other))
    longest = max((max(len(a), len(b)) for a, b, _ in pairs), default=0)
    shifts = range(1 if one is other else 1 - longest, longest)
    for shift in sorted(shifts, key=abs):
        logarithm, texts = 0.0, 0
        for a, b, shares in pairs:
            ours, theirs = a[max(shift, 0) :], b[max(-shift, 0) :]
            length = min(len(ours), len(theirs))
            ours, theirs = ours[:length], theirs[:length]
            known = (ours != _MISSING) & (theirs != _MISSING)
            if not np.array_equal(ours[known], theirs[known]):
                break
            logarithm += float(shares[ours[known]].sum())
            texts += int(known.sum())
        else:
            if logarithm < math.log(LEVEL):
                return shift, texts
    return None


Coded = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _coded(one: ImportedLog, other: ImportedLog) -> Iterator[Coded]:
    """The draws of each question both have as numbers, and the logarithms of the texts' shares.

    The most diverse questions come first: they tell soonest that two stretches differ.
    """
    theirs = {asked.id: _outputs(asked.draws) for asked in other.asked}
    found: list[tuple[int, Coded]] = []
    for asked in one.asked:
        ours = _outputs(asked.draws)
        both = [*ours, *(() if one is other else theirs.get(asked.id, ()))]
        counts = Counter(draw for draw in both if draw is not None)
        if asked.id not in theirs or len(counts) < 2:
            continue
        numbers = {draw: i for i, draw in enumerate(counts)}
        shares = np.log(np.array(list(counts.values())) / counts.total())
        coded = (_codes(ours, numbers), _codes(theirs[asked.id], numbers), shares)
        found.append((len(counts), coded))
    yield from (coded for _, coded in sorted(found, key=lambda pair: -pair[0]))


def _outputs(draws: Sequence[Draw | None]) -> list[Draw | None]:
    """The draws without their scores: a copy may have been judged otherwise."""
    return [None if draw is None else draw.output for draw in draws]


def _codes(draws: Sequence[Draw | None], numbers: dict[Draw, int]) -> NDArray[np.int64]:
    return np.array([_MISSING if d is None else numbers[d] for d in draws], dtype=np.int64)
