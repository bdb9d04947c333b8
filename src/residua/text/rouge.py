"""ROUGE-L of many texts against one reference, equal to the last bit to `rouge-score`.

Lin (2004), "ROUGE: a package for automatic evaluation of summaries", section 3, as the package
`rouge-score` 0.1.2 computes it with `use_stemmer=True`. Its own tokeniser and Porter stemmer
read every distinct word once; a text is then spelt with one character a stem, and rapidfuzz
finds the longest common subsequence with bit-parallel arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from residua.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# One character a stem leaves room for 1,112,064 stems: a batch adds to an alphabet that is at
# most a quarter full, so only texts of 800 words, all different and all new, could overflow it.
_BATCH = 1024
_FULL = 2**18


@dataclass(frozen=True, slots=True)
class RougeL:
    """Precision, recall and F1 of each text: float64 arrays of shape (texts,), in [0, 1]."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]


def rouge_l(texts: Sequence[str], reference: str) -> RougeL:
    """ROUGE-L of every text against one reference.

    Equal to `rouge_score.rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)` bit for bit; a
    text without words scores 0. The tokeniser knows ASCII letters and digits only: a reference
    with none of them raises InputError, because its 0 would say nothing about the text.
    """
    import numpy as np

    if not has_rouge_words(reference):
        raise InputError(
            f"ROUGE reads ASCII letters and digits only, got the reference {reference!r} with "
            "none. Use the scorer `contains` or `keyword` for this language."
        )
    batches = [_compare(texts[i : i + _BATCH], reference) for i in range(0, len(texts), _BATCH)]
    common, length, target = np.hstack([np.empty((3, 0)), *batches])
    precision = common / np.maximum(length, 1)
    recall = common / target
    f1 = 2 * precision * recall / np.where(common > 0, precision + recall, 1)
    return RougeL(precision, recall, f1)


def has_rouge_words(text: str) -> bool:
    """True if ROUGE's tokeniser finds a word in the text."""
    return any(character.isascii() and character.isalnum() for character in text.lower())


class _Alphabet(dict[str, str]):
    """Maps what stands between blanks to its stems, one character for each; learns as it reads.

    Splitting at blanks first changes nothing: no word of ROUGE's tokeniser reaches across one.
    """

    def __init__(self) -> None:
        from rouge_score.tokenizers import DefaultTokenizer  # imports NLTK: a second or more

        super().__init__()
        self._stems = DefaultTokenizer(use_stemmer=True).tokenize
        self._characters: dict[str, str] = {}

    def __missing__(self, chunk: str) -> str:
        known = self._characters
        stems = self._stems(chunk)
        self[chunk] = spelling = "".join(known.setdefault(s, _character(len(known))) for s in stems)
        return spelling

    @property
    def size(self) -> int:
        """How many stems it knows."""
        return len(self._characters)

    def spell(self, texts: Sequence[str]) -> list[str]:
        """Each text, one character a stem. Arrow splits the texts and numbers the chunks."""
        import pyarrow as pa
        import pyarrow.compute as pc

        utf8 = pa.array([text.encode("utf-8", "replace") for text in texts], pa.string())
        chunks = pc.ascii_split_whitespace(utf8)
        coded = chunks.flatten().dictionary_encode()
        known = pa.array([self[chunk] for chunk in coded.dictionary.to_pylist()], pa.string())
        stems = pa.ListArray.from_arrays(chunks.offsets, known.take(coded.indices))
        spelt: list[str] = pc.binary_join(stems, "").to_pylist()
        return spelt


def _character(index: int) -> str:
    """The index-th character that UTF-8 can hold: surrogates are passed over."""
    return chr(index if index < 0xD800 else index + 0x800)


@cache
def _alphabet() -> _Alphabet:
    return _Alphabet()


def _compare(texts: Sequence[str], reference: str) -> NDArray[np.float64]:
    """Three rows: the longest common subsequence, the length of each text, the reference's."""
    import numpy as np
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    if _alphabet().size >= _FULL:
        _alphabet.cache_clear()
    target, *spelt = _alphabet().spell([reference, *texts])
    common = cdist([target], spelt, scorer=LCSseq.similarity, dtype=np.int32)[0]
    lengths = [len(spelling) for spelling in spelt]
    return np.array([common, lengths, [len(target)] * len(spelt)], dtype=np.float64)
