"""ROUGE-1 and ROUGE-L of many texts against one reference, bit-equal to the package `rouge-score`.

Lin (2004), "ROUGE: a package for automatic evaluation of summaries", sections 2 and 3, defines
ROUGE. The values equal the values of `rouge-score` 0.1.2, with or without its stemmer. For speed,
NumPy finds the ends of words in all texts in one batch, and Arrow numbers the distinct words. Only
distinct words are stemmed, and the stemmer gives the same stems as the stemmer of `rouge-score`.
Each text is then encoded with one character per word. rapidfuzz finds the longest common
subsequences of the encoded texts with bit-parallel arithmetic.

This module also computes bounds on the ROUGE-L of a text from the text's beginning. For these
bounds, the lengths of longest common subsequences are computed by the bit-parallel recurrence of
Hyyrö (2004), "Bit-parallel LCS-length computation revisited". Each word of the text needs a few
operations on integers with one bit per reference word. The result contains the length for every
beginning of the reference.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from leakbound.errors import InputError
from leakbound.text.characters import UNSPACED
from leakbound.text.keywords import answer_keywords
from leakbound.text.porter import stem

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


_WORD = re.compile("[a-z0-9]+")
_GROWING = re.compile(r"[a-z0-9]*\Z")
# a word in a script without blanks ends where that script ends
_ANY_WORD = re.compile(rf"[{UNSPACED}]+|(?:(?![{UNSPACED}])[^\W_])+")
_BLANK = ord(" ")
_LETTERS = (string.ascii_letters + string.digits).encode()
_PLAIN = bytes(byte if byte in _LETTERS else _BLANK for byte in range(256))
_FULL = 2**20  # words kept in memory: about 200 MB


@dataclass(frozen=True, slots=True)
class Rouge:
    """Precision, recall and F1 of each text: float64 arrays [texts], in [0, 1]."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]


def rouge_l(texts: Sequence[str], reference: str, *, stemmed: bool = True) -> Rouge:
    """Return the ROUGE-L of every text against one reference, by stems or by unchanged words.

    The result equals `rouge_score.rouge_scorer.RougeScorer(["rougeL"], use_stemmer=stemmed)` bit
    for bit. A text without words scores 0. The tokeniser keeps only ASCII letters and digits. A
    reference without such characters raises InputError, because a score of 0 would have no meaning.
    """
    import numpy as np
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    spelt, lengths = _spelt(texts, reference, stemmed)
    common = cdist(spelt[:1], spelt[1:], scorer=LCSseq.similarity, dtype=np.int32)[0]
    return _shares(common, lengths)


def rouge_1(texts: Sequence[str], reference: str) -> Rouge:
    """Return the ROUGE-1 of every text, which ignores the order of words; see `rouge_l`."""
    import numpy as np

    spelt, lengths = _spelt(texts, reference, stemmed=True)
    sought = Counter(spelt[0])
    common = np.array([(sought & Counter(text)).total() for text in spelt[1:]], np.int32)
    return _shares(common, lengths)


def _spelt(
    texts: Sequence[str], reference: str, stemmed: bool
) -> tuple[list[str], NDArray[np.int64]]:
    """Return `_spell` of the reference and the texts; raise InputError without reference words."""
    if not has_rouge_words(reference):
        raise InputError(
            f"ROUGE uses only ASCII letters and digits, but the reference {reference!r} has none. "
            "Use the scorer `contains` or `keyword` for this language."
        )
    return _spell([reference, *texts], stemmed)


def _shares(common: NDArray[np.int32], lengths: NDArray[np.int64]) -> Rouge:
    """Return common words as fractions of each text's words, and of the reference's words."""
    import numpy as np

    precision = common / np.maximum(lengths[1:], 1)
    recall = common / lengths[0]
    f1 = 2 * precision * recall / np.where(common > 0, precision + recall, 1)
    return Rouge(precision, recall, f1)


def has_rouge_words(text: str) -> bool:
    """Return whether ROUGE's tokeniser finds a word in the text."""
    return any(character.isascii() and character.isalnum() for character in text.lower())


def dropped_words(answer: str, question: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that distinguish an answer: words that ROUGE drops, and all others.

    Args:
        answer: the answer.
        question: the question of the answer; its words do not distinguish the answer.

    Returns:
        Two lists of the answer's content words that are not in the question. In each word of the
            first list, fewer than half of the letters and digits are ASCII in lower case. The
            second list contains all other words. ROUGE's tokeniser keeps at least a part of each of
            them ("jos" of "josé"), both in answers and in completions.
    """
    words = [w for w in _ANY_WORD.findall(answer.lower()) if answer_keywords(question, w)]
    dropped = [w for w in words if 2 * sum(map(str.isascii, w)) < len(w)]
    return tuple(dropped), tuple(w for w in words if w not in dropped)


def stems(text: str, stemmed: bool = True) -> list[str]:
    """Return ROUGE's words: in lower case, and stemmed if they have more than three letters."""
    words: list[str] = _WORD.findall(text.lower())
    return [stem(word) if len(word) > 3 else word for word in words] if stemmed else words


class _Stems(dict[str, int]):
    """A mapping from words, with or without blanks before them, to the numbers of their stems."""

    def __init__(self, stemmed: bool) -> None:
        super().__init__()
        self._stemmed = stemmed
        self._numbers: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        if (bare := word.lstrip()) != word:
            self[word] = self[bare]
        else:
            (root,) = stems(word, self._stemmed)
            self[word] = self._numbers.setdefault(root, len(self._numbers))
        return self[word]


_stems = cache(_Stems)


def _spell(texts: Sequence[str], stemmed: bool) -> tuple[list[str], NDArray[np.int64]]:
    """Return each text with one character per word, and the number of words of each text.

    The character represents the stem of the word. It is NUL if the first text does not contain this
    stem.
    """
    import numpy as np

    if len(_stems(stemmed)) >= _FULL:
        _stems.cache_clear()
    words, bounds = _words(texts)
    distinct = words.dictionary.to_numpy(zero_copy_only=False)
    stems = np.fromiter(map(_stems(stemmed).__getitem__, distinct), np.int32, len(distinct))
    stem_at = stems.take(words.indices)
    sought = np.unique(stem_at[: bounds[1]])
    # rapidfuzz is fastest with one byte per character.
    characters = np.zeros(stems.max() + 1, "<u4")
    characters[sought] = np.arange(1, len(sought) + 1)
    spelt = characters.take(stem_at).tobytes().decode("utf-32-le", "surrogatepass")
    return [spelt[start:end] for start, end in pairwise(bounds.tolist())], np.diff(bounds)


def _words(texts: Sequence[str]) -> tuple[pa.DictionaryArray, NDArray[np.int64]]:
    """Return the words of all texts in one array; text i has the words bounds[i] to bounds[i + 1].

    ROUGE's words are runs of ASCII letters and digits of the text in lower case. A word in this
    array is a slice of the joined texts, with its capitals and the blanks before it.
    """
    import numpy as np
    import pyarrow as pa

    # The lower case of two characters, \u0130 and \u212a, begins with an ASCII letter. After this
    # line, a character is one byte.
    plain = [
        text if text.isascii() else text.lower().encode("ascii", "replace").decode()
        for text in texts
    ]
    joined = " ".join(["", *plain, ""]).encode().translate(_PLAIN)
    blank = np.frombuffer(joined, np.uint8) == _BLANK
    ends = np.append(0, np.flatnonzero(blank[1:] > blank[:-1]) + 1)
    slices = [None, pa.py_buffer(ends), pa.py_buffer(joined)]
    words = pa.Array.from_buffers(pa.large_string(), len(ends) - 1, slices).dictionary_encode()
    text_ends = np.cumsum([0, *map(len, plain)]) + np.arange(len(plain) + 1)
    return words, np.searchsorted(ends[1:], text_ends, side="right")


# The score and its bound are each a few roundings of 2^-53 away from the rational number.
_UP = 1 + 2.0**-50


def recall_bounds(prefix: str, reference: str, stemmed: bool = True) -> tuple[float, float]:
    """Return the lowest and highest ROUGE-L recall of any text that begins with `prefix`.

    Later words can only lengthen the common subsequence. So the lowest recall is the recall of the
    settled words, which are the complete words of the prefix. The highest recall is 1, because the
    complete reference may follow. The reference must have a word that ROUGE's tokeniser keeps.
    """
    _, common = _matched(_settled_words(prefix), reference, stemmed)
    return common[-1] / (len(common) - 1), 1.0


def f1_bounds(prefix: str, reference: str, stemmed: bool = True) -> tuple[float, float]:
    """Return the lowest and highest ROUGE-L F1 of any text that begins with `prefix`.

    Let c be the number of settled words, and r the number of the reference's words. Let lcs_j be
    the length of the longest common subsequence of the settled words with the first j words of the
    reference. Consider a text of c + m words whose longest common subsequence with the reference
    has length L. Its F1 is 2L/(c + m + r). For some j, L is at most lcs_j + k, where k is the
    length of a common subsequence of the m later words with the last r - j words of the reference.
    So k <= m and k <= r - j. Hence F1 <= 2(lcs_j + k)/(c + k + r), which grows with k because lcs_j
    <= c + r. So the highest F1 is

        max over j of 2(lcs_j + r - j)/(c + r - j + r),

    which the settled words followed by the reference's last r - j words attain. The lowest F1 is 0,
    because a text may continue without end. If no word is settled, the text may also contain no
    word of the reference. The reference must satisfy the condition of `recall_bounds`.
    """
    words, common = _matched(_settled_words(prefix), reference, stemmed)
    r = len(common) - 1
    highest = max(2 * (lcs + r - j) / (words + r - j + r) for j, lcs in enumerate(common))
    return 0.0, min(highest * _UP, 1.0)


def _settled_words(prefix: str) -> str:
    """Return a prefix in lower case, without its last word unless this word has ended.

    Any character other than an ASCII letter or digit ends a word. Only the lower case of a sigma
    depends on neighbouring characters, and ROUGE's tokeniser drops a sigma.
    """
    return _GROWING.sub("", prefix.lower())


@lru_cache(maxsize=4096)  # siblings in a tree of prefixes share these words
def _matched(text: str, reference: str, stemmed: bool) -> tuple[int, tuple[int, ...]]:
    """Return the number of the text's words, and lcs_j for all j <= r (see `f1_bounds`)."""
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
    """Return the places of each stem or word in the reference, as bits, and its number of words."""
    places: dict[str, int] = {}
    words = stems(reference, stemmed)
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    return places, len(words)
