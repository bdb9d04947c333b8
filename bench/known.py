"""An engine whose law is known output by output, however it is asked and decoded.

An answer is up to four filler words and then "red fox", "red cat" or "cow". The next word follows
from a table, so the package draws, explores, proves and attacks as with a model; what is true of
all of it is added up here, output by output, by code that shares nothing with the package's.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from leakbound.sampling import TableModel
from leakbound.sampling.outputs import Sampler
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Exploration,
    Failure,
    Proving,
    Query,
    Ranges,
    Sample,
    Usage,
)

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


class Spelling:
    """Words with blanks between them; a word is whole."""

    def text(self, ids: Path, stop: Sequence[str]) -> str:
        return text_of(ids)

    settled = text

    def stopped(self, stop: Sequence[str]) -> Callable[[Path], bool]:
        return lambda ids: False


@dataclass
class Known:
    """The engine: `name` is its weights; `laws` has the chances and the words of each question.

    `wordy`: whether fillers come before the answer.
    """

    name: str
    laws: Mapping[str, tuple[Chances, str]]
    wordy: bool
    margin: float = 0.0
    usage: Usage = field(default_factory=Usage)
    _laws: list[Chances] = field(default_factory=list)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"engine": "known", "weights": self.name}

    def law(self, query: Query, decoding: Decoding) -> Law:
        """The law of the answer to this query."""
        return outputs(self._chances(query), self.wordy, decoding)

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Every question can be asked."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        return self._sampler().generate(queries, decoding, draws)

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        return self._sampler().explore(queries, decoding, effort, ranges)

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        return self._sampler().force([(q, self._ids(text)) for q, text in texts], decoding)

    def prove(
        self,
        asked: Sequence[tuple[Query, Sequence[str]]],
        decoding: Decoding,
        forwards: int,
        ranges: Ranges,
    ) -> Iterator[Proving | Failure]:
        said = [(query, [self._ids(text) for text in texts]) for query, texts in asked]
        return self._sampler().prove(said, decoding, forwards, ranges)

    def _ids(self, text: str) -> Path:
        return (*map(WORDS.index, text.split()), END)

    def _chances(self, query: Query) -> Chances:
        own, question = self.laws[query.prompt_id]
        return chances_of(own, query, question)

    def _prompt(self, query: Query) -> tuple[int]:
        """One token for all that is asked: the number of its law."""
        chances = self._chances(query)
        if chances not in self._laws:
            self._laws.append(chances)
        return (self._laws.index(chances),)

    def _next(self, prefix: Path) -> list[float]:
        return next_word(self._laws[prefix[0]], prefix[1:], self.wordy)

    def _sampler(self) -> Sampler:
        model = TableModel(self._next, vocab_size=len(WORDS), eos_token_ids=[END])
        return Sampler(model, Spelling(), self._prompt, self.usage, margin=self.margin)
