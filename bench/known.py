"""An engine whose law is known output by output, however it is asked and decoded.

An answer is up to four filler words and then "red fox", "red cat" or "cow". The next word follows
from a table, so the package draws, explores, proves and attacks as with a model; what is true of
all of it is added up here, output by output, by code that shares nothing with the package's.
"""

from __future__ import annotations

import pathlib
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from leakbound.types import Decoding, Query

sys.path.append(str(pathlib.Path(__file__).parents[1] / "tests"))
from tabled import ProvingEngine

Chances = tuple[float, float, float]
"""Of "red fox", "red cat" and "cow" at T = 1."""
Path = tuple[int, ...]
Law = tuple[tuple[str, float], ...]
"""Every answer and its probability."""

FILLERS = {"very": 0.3, "quite": 0.2, "rather": 0.1}  # how likely each comes next
MOST_FILLERS = 4
WORDS = ("", "red", "fox", "cat", "cow", *FILLERS)
END, RED, FOX, CAT, COW = range(5)
MOST_WORDS = MOST_FILLERS + 3  # with the end, so that no answer is cut short
OTHERWISE = 0.3  # how much of what is said at most becomes "red fox" in other words


def chances_of(own: Chances, query: Query, question: str) -> Chances:
    """Those of a question asked as it is, or of one that leaks more in these other words."""
    asked = repr((query.text, query.prefix, query.examples))
    if asked == repr((question, "", ())):
        return own
    more = OTHERWISE * zlib.crc32(asked.encode()) / 2**32
    fox, cat, cow = ((1 - more) * chance for chance in own)
    return fox + more, cat, cow


def next_word(chances: Chances, said: Path, wordy: bool) -> list[float]:
    """The probability of each word after these, at T = 1."""
    fox, cat, cow = chances
    if said and said[-1] == RED:
        return [0, 0, fox / (fox + cat), cat / (fox + cat), *4 * [0]]
    if said and said[-1] <= COW:
        return [1, *7 * [0]]
    fillers = list(FILLERS.values()) if wordy and len(said) < MOST_FILLERS else 3 * [0]
    noun = 1 - sum(fillers)
    return [0, noun * (fox + cat), 0, 0, noun * cow, *fillers]


def text_of(said: Path) -> str:
    return " ".join(WORDS[i] for i in said if i != END)


@cache
def outputs(chances: Chances, wordy: bool, decoding: Decoding) -> Law:
    """The law of the answer under a decoding of temperature and top-p."""
    found: list[tuple[str, float]] = []

    def after(said: Path, chance: float) -> None:
        if said and said[-1] == END:
            found.append((text_of(said), chance))
            return
        for word, p in enumerate(decoded(next_word(chances, said, wordy), decoding)):
            if p:
                after((*said, word), chance * p)

    after((), 1.0)
    return tuple(found)


def decoded(p: Sequence[float], decoding: Decoding) -> list[float]:
    """The next word's law as the decoding changes it: ties go to the word that comes first."""
    order = sorted(range(len(p)), key=lambda i: -p[i])
    if decoding.greedy:
        return [float(i == order[0]) for i in range(len(p))]
    hot = [chance ** (1 / decoding.temperature) for chance in p]
    kept: list[int] = []
    while sum(hot[i] for i in kept) < decoding.top_p * sum(hot) - 1e-12:
        kept.append(order[len(kept)])
    whole = sum(hot[i] for i in kept)
    return [hot[i] / whole if i in kept else 0.0 for i in range(len(p))]


class Known(ProvingEngine):
    """The engine: `name` is its weights; `laws` has the chances and the words of each question.

    `wordy`: whether fillers come before the answer.
    """

    def __init__(self, name: str, laws: Mapping[str, tuple[Chances, str]], wordy: bool) -> None:
        super().__init__(WORDS, self._number, self._following)
        self.name, self.laws, self.wordy = name, laws, wordy
        self._laws: list[Chances] = []

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"engine": "known", "weights": self.name}

    def law(self, query: Query, decoding: Decoding) -> Law:
        """The law of the answer to this query."""
        return outputs(self._chances(query), self.wordy, decoding)

    def _chances(self, query: Query) -> Chances:
        own, question = self.laws[query.prompt_id]
        return chances_of(own, query, question)

    def _number(self, query: Query) -> int:
        """One for all that is asked of one law."""
        chances = self._chances(query)
        if chances not in self._laws:
            self._laws.append(chances)
        return self._laws.index(chances)

    def _following(self, prefix: Path) -> list[float]:
        return next_word(self._laws[prefix[0]], prefix[1:], self.wordy)
