"""Find draws that can only be copies of other draws, within one file or between two files.

Copies have two common causes. Some servers seed draw i with s + i, so calls with the seeds s and s
+ 1 have all draws except one in common. A cache repeats outputs if its key does not contain the
number of the draw. Imported files do not have the probabilities of texts, so copies are found by
the order of the draws. Two sequences of independent draws may agree, draw by draw, at every
question. The probability of this is about the product of the frequencies of the outputs among the
draws of each question. A question whose outputs are all equal is no evidence, because a model with
one likely output also draws equal outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError

LEVEL = 1e-9
MISSING = -1

Outputs: TypeAlias = Mapping[str, NDArray[np.int64]]
"""A hash of the texts of each draw, by question; MISSING for a draw that failed.

Scores are not part of the hash, because a judge may score a copy differently. Two texts with equal
hashes are treated as equal. This leads to a wrong finding of copies only if all other draws are
also equal.
"""


def require_no_copies(files: Sequence[tuple[Path, Outputs]]) -> None:
    """Raise InputError if draws of a file are repeated in it or in another file."""
    for (path, outputs), (other_path, other) in combinations_with_replacement(files, 2):
        copy = _shift_that_copies(outputs, other)
        if copy is not None:
            shift, texts = copy
            again = "again" if outputs is other else f"in `{other_path}`"
            raise InputError(
                f"draws are copies of other draws, so no bound would be valid: {texts:,} draws "
                f"of `{path}` occur {again}, in the same order, {abs(shift)} places later. Sample "
                "without a fixed seed and without a cache."
            )


def _shift_that_copies(outputs: Outputs, other: Outputs) -> tuple[int, int] | None:
    """Return the shift at which two files agree more than by chance, and the number of equal draws.

    Return None if there is no such shift.
    """
    pairs = [
        (ours, other[id], shares)
        for id, ours in outputs.items()
        if id in other and len(shares := _log_frequencies(ours, other[id]))
    ]
    pairs.sort(
        key=lambda pair: len(np.unique(pair[2])), reverse=True
    )  # the first pairs differ soonest
    longest = max((max(len(a), len(b)) for a, b, _ in pairs), default=0)
    shifts = range(1 if outputs is other else 1 - longest, longest)
    for shift in sorted(shifts, key=abs):
        logarithm, texts = 0.0, 0
        for a, b, shares in pairs:
            ours, theirs = a[max(shift, 0) :], b[max(-shift, 0) :]
            length = min(len(ours), len(theirs))
            ours, theirs = ours[:length], theirs[:length]
            there = (ours != MISSING) & (theirs != MISSING)
            if (ours != theirs)[there].any():
                break
            logarithm += float(shares[max(shift, 0) :][:length][there].sum())
            texts += int(there.sum())
        else:
            if logarithm < math.log(LEVEL):
                return shift, texts
    return None


def _log_frequencies(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log frequency, in both files, of each output in `ours`; empty if all are equal."""
    both = ours if ours is theirs else np.concatenate([ours, theirs])
    kinds, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    counts = np.where(kinds == MISSING, 0, counts)
    if (counts > 0).sum() < 2:
        return np.empty(0)
    shares = np.maximum(counts, 1) / counts.sum()  # the frequency of a failed draw is not used
    logarithms: NDArray[np.float64] = np.log(shares)[inverse][: len(ours)]
    return logarithms
