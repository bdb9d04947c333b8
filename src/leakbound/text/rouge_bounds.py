"""What the opening of a text settles of its ROUGE-L against a reference.

Longest common subsequences come from the bit-parallel recurrence of Hyyrö (2004), "Bit-parallel
LCS-length computation revisited": one word costs a few operations on integers with one bit a
reference word, and every opening of the reference has its length in the result.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

from leakbound.text.rouge import stems
from leakbound.text.settled import settled_words

# The score and its bound are each a few roundings of 2^-53 away from the rational number.
_UP = 1 + 2.0**-50


def recall_bounds(prefix: str, reference: str, stemmed: bool = True) -> tuple[float, float]:
    """Lowest and highest ROUGE-L recall of any text that begins with `prefix`.

    Words that follow can only lengthen the common subsequence, and the reference itself may
    follow: the lowest is the recall of the settled words, the highest 1. Condition: the
    reference has a word that ROUGE reads.
    """
    _, common = _matched(settled_words(prefix), reference, stemmed)
    return common[-1] / (len(common) - 1), 1.0


def f1_bounds(prefix: str, reference: str, stemmed: bool = True) -> tuple[float, float]:
    """Lowest and highest ROUGE-L F1 of any text that begins with `prefix`.

    Let c words be settled, r be the reference's words, and lcs_j the longest common subsequence
    of the settled words with the reference's first j. A text of c + m words that has L in common
    with the reference scores 2L/(c + m + r). L splits at some j into at most lcs_j, plus k
    common to the m words and the reference's other r - j, so that k <= m and k <= r - j. Hence
    F1 <= 2(lcs_j + k)/(c + k + r), which grows with k because lcs_j <= c + r: the highest is

        max over j of 2(lcs_j + r - j)/(c + r - j + r),

    which the settled words followed by the reference's last r - j attain. The lowest is 0: a
    text may go on without end, or, with nothing settled, never say a word of the reference.
    Condition as for `recall_bounds`.
    """
    words, common = _matched(settled_words(prefix), reference, stemmed)
    r = len(common) - 1
    highest = max(2 * (lcs + r - j) / (words + r - j + r) for j, lcs in enumerate(common))
    return 0.0, min(highest * _UP, 1.0)


@lru_cache(maxsize=4096)  # siblings in a tree of prefixes share what is settled
def _matched(text: str, reference: str, stemmed: bool) -> tuple[int, tuple[int, ...]]:
    """The text's number of words, and lcs_j with the reference's first j words, j = 0, ..., r."""
    places, length = _places(reference, stemmed)
    every = (1 << length) - 1
    missed = every  # bit j is 0 where lcs_(j+1) = lcs_j + 1
    words = stems(text, stemmed)
    for word in words:
        hit = missed & places.get(word, 0)
        missed = ((missed + hit) | (missed - hit)) & every
    gains = (1 - (missed >> j & 1) for j in range(length))
    return len(words), tuple(accumulate(gains, initial=0))


@lru_cache(maxsize=4096)
def _places(reference: str, stemmed: bool) -> tuple[dict[str, int], int]:
    """For every stem or word of the reference its places, as bits; and how many words it has."""
    places: dict[str, int] = {}
    words = stems(reference, stemmed)
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    return places, len(words)
