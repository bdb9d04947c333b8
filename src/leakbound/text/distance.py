"""The distance between a text's beginning and an answer, or its range for a partly known text.

Texts are sequences of units, here characters. Let a be the answer, with m units. Let t be a text,
and u the first m units of t (all units of t if there are fewer). The edit distance of t is the
Levenshtein distance of a and u, which counts insertions, deletions and substitutions. The Hamming
distance of t is the number of the m places where t and a have different units, or t has no unit.
Neither distance depends on units of t after the m-th.

Suppose that only the first units of t are known. Let s be the known part of u, with j <= m units.
Then u = s y, where y is unknown and has at most r = m - j units. Let D be the Levenshtein distance.
An alignment of a with s y splits a into a part aligned with s and a part aligned with y
(Hirschberg, 1975, "A linear space algorithm for computing maximal common subsequences"):

    D(a, s y) = min over i of D(a[:i], s) + D(a[i:], y).                                       (1)

*Nearest.* D(a[i:], y) >= m - i - r = j - i, because no edit changes the length
by more than one, and D(a[i:], y) >= 0. If i >= j, then y = a[i:] attains 0. If i < j, then y = a[m
- r:] attains j - i. So

    min over y of D(a, s y) = min over i of D(a[:i], s) + max(j - i, 0).

*Farthest.* D(x, y) <= max(|x|, |y|), so D(a, s y) <= min over i of D(a[:i], s)
+ max(m - i, r), because max(m - i, |y|) <= max(m - i, r). If y is r units that
do not occur in a, no unit of y matches, so every D(a[i:], y) = max(m - i, r),
and by (1) the bound is attained.

In both minima a term is at most k only if D(a[:i], s) <= k, which implies |i -
j| <= k. If e of the first j places differ, the Hamming distance is between e and e + r, and both
bounds are attained.
"""

from __future__ import annotations

from functools import lru_cache
from operator import eq


def edit_distance_within(text: str, answer: str, most: int) -> bool:
    """Return whether the edit distance of a complete text is at most `most`."""
    from rapidfuzz.distance import Levenshtein

    distance: int = Levenshtein.distance(answer, text[: len(answer)], score_cutoff=most)
    return distance <= most


@lru_cache(maxsize=4096)  # siblings in a tree of prefixes have the same settled beginning
def edit_distance_settled(opening: str, answer: str, most: int) -> tuple[bool, bool]:
    """Return whether all texts with this beginning are within `most` edits, and whether any is.

    Both results are exact if any units may follow; see the module docstring.
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
    """Return whether the Hamming distance of a complete text is at most `most`."""
    same = int(sum(map(eq, answer, text)))
    return len(answer) - same <= most


def hamming_distance_settled(opening: str, answer: str, most: int) -> tuple[bool, bool]:
    """Return whether all texts with this beginning differ at <= `most` places, and if any does."""
    read = min(len(opening), len(answer))
    same = int(sum(map(eq, answer, opening)))
    return len(answer) - same <= most, read - same <= most
