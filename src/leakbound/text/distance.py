"""The distance of a text from an answer, up to the answer's length, and bounds from its opening.

Texts are sequences of units, here characters. Let `a` be the answer, of m
units, t a text and u the first m units of t, or all of them where it has fewer.
Its edit distance is the Levenshtein distance of a and u: insertions, deletions
and substitutions. Its Hamming distance is the number of places, of m, where t
does not have a's unit. Units of t after the m-th do not count in either.

Let s, of j <= m units, be the settled part of u: u = s y, with y of at most r =
m - j units. D is the Levenshtein distance, and an alignment of a with s y
splits a into a part aligned with s and a part aligned with y (Hirschberg, 1975,
"A linear space algorithm for computing maximal common subsequences"):

    D(a, s y) = min over i of D(a[:i], s) + D(a[i:], y).                                       (1)

*Nearest.* D(a[i:], y) >= m - i - r = j - i, as no edit changes the length by more than one, and it
is >= 0. Where i >= j, y = a[i:] attains 0; where i < j, y = a[m - r:] attains j - i. So

    min over y of D(a, s y) = min over i of D(a[:i], s) + max(j - i, 0).

*Farthest.* D(x, y) <= max(|x|, |y|), so D(a, s y) <= min over i of D(a[:i], s) + max(m - i, r), as
max(m - i, |y|) <= max(m - i, r). Where y is r units that a has not, no unit of it is kept, each
D(a[i:], y) = max(m - i, r), and by (1) the bound is attained.

In both minima a term is at most k only if D(a[:i], s) is, hence |i - j| <= k. If e of the first j
places differ, Hamming distances are between e and e + r, both attained.
"""

from __future__ import annotations

from functools import lru_cache
from operator import eq


def edit_distance_within(text: str, answer: str, most: int) -> bool:
    """Return whether the edit distance of a whole text is at most `most`."""
    from rapidfuzz.distance import Levenshtein

    distance: int = Levenshtein.distance(answer, text[: len(answer)], score_cutoff=most)
    return distance <= most


@lru_cache(maxsize=4096)  # siblings in a tree of prefixes share what is settled
def edit_distance_settled(opening: str, answer: str, most: int) -> tuple[bool, bool]:
    """Return whether all, and whether any, texts with this beginning are within `most` edits.

    Exact if any units may follow; see above.
    """
    from rapidfuzz.distance import Levenshtein

    m, s = len(answer), opening[: len(answer)]
    j = len(s)
    nearest = farthest = most + 1
    for i in range(max(j - most, 0), min(j + most, m) + 1):
        distance: int = Levenshtein.distance(answer[:i], s, score_cutoff=most)
        nearest = min(nearest, distance + max(j - i, 0))
        farthest = min(farthest, distance + max(m - i, m - j))
    return farthest <= most, nearest <= most


def hamming_distance_within(text: str, answer: str, most: int) -> bool:
    """Return whether the Hamming distance of a whole text is at most `most`."""
    same = int(sum(map(eq, answer, text)))
    return len(answer) - same <= most


def hamming_distance_settled(opening: str, answer: str, most: int) -> tuple[bool, bool]:
    """Return whether all, and whether any, texts with this beginning differ at <= `most` places."""
    read = min(len(opening), len(answer))
    same = int(sum(map(eq, answer, opening)))
    return len(answer) - same <= most, read - same <= most
