"""An engine whose law is a table of next words, so that what it draws and proves can be counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.sampling import TableModel
from leakbound.sampling.outputs import Sampler
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Exploration,
    Failure,
    Prompt,
    Proving,
    Query,
    Ranges,
    Sample,
    Usage,
)

WORDS = ("", "It", "is", "hush", "no")
END, IT, IS, HUSH, NO = range(len(WORDS))
ANSWER, IN_OTHER_WORDS = "It hush", "hush"


def benchmark(questions: int = 2) -> Benchmark:
    """Questions whose answer says "hush", in two wordings."""
    prompts = tuple(
        Prompt(
            id=f"p{i}",
            question=f"Who wrote book {i}?",
            answer=ANSWER,
            paraphrased_answer=IN_OTHER_WORDS,
            keywords=("hush",),
        )
        for i in range(questions)
    )
    return Benchmark(
        name="mine", prompts=prompts, scorers=("keyword",), max_new_tokens=4, origin="test"
    )


def law(leak: float, said: tuple[int, ...]) -> list[float]:
    """The next word where "hush" is to be said with chance `leak`, half of it after "It"."""
    after: dict[tuple[int, ...], list[float]] = {
        (): [0.0, 0.5, 0.0, leak / 2, 0.5 - leak / 2],
        (IT,): [0.0, 0.0, 1 - leak, leak, 0.0],
        (IT, IS): [0.0, 0.0, 0.0, 0.0, 1.0],
    }
    return after.get(said, [0.9, 0.0, 0.0, 0.0, 0.1])


class Spelling:
    """Words with blanks between them."""

    def text(self, ids: tuple[int, ...], stop: Sequence[str]) -> str:
        return " ".join(WORDS[i] for i in ids if i != END)

    settled = text

    def stopped(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        return lambda ids: False


@dataclass
class TableEngine:
    """Says "hush" with chance `leak(query)`; after `dies_after` queries it raises.

    `margin` is what it says of its roundings; infinite: that nothing of it can be proved.
    """

    leak: Callable[[Query], float]
    margin: float = 0.0
    dies_after: int | None = None
    name: str = "table"
    usage: Usage = field(default_factory=Usage)
    asked: list[tuple[str, Query, Decoding]] = field(default_factory=list)
    _prompts: list[tuple[str, str]] = field(default_factory=list)
    _leaks: list[float] = field(default_factory=list)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"weights": self.name, "engine": "table"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Everything fits."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        self._ask("draws", queries, decoding)
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
        self._ask("proof", [query for query, _ in asked], decoding)
        outputs = [(query, [self._ids(text) for text in texts]) for query, texts in asked]
        return self._sampler().prove(outputs, decoding, forwards, ranges)

    def _ask(self, how: str, queries: Sequence[Query], decoding: Decoding) -> None:
        for query in queries:
            if self.dies_after is not None:
                if not self.dies_after:
                    raise RuntimeError("the machine was switched off")
                self.dies_after -= 1
            self.asked.append((how, query, decoding))

    def _ids(self, text: str) -> tuple[int, ...]:
        return (*map(WORDS.index, text.split()), END)

    def _prompt(self, query: Query) -> tuple[int]:
        """One token for all that is asked."""
        words = (query.text, query.prefix)
        if words not in self._prompts:
            self._prompts.append(words)
            self._leaks.append(self.leak(query))
        return (self._prompts.index(words),)

    def _next(self, prefix: tuple[int, ...]) -> list[float]:
        return law(self._leaks[prefix[0]], prefix[1:])

    def _sampler(self) -> Sampler:
        model = TableModel(self._next, vocab_size=len(WORDS), eos_token_ids=[END])
        margin = self.margin if math.isfinite(self.margin) else 1.0
        return Sampler(model, Spelling(), self._prompt, self.usage, margin=margin)


def exact(leak: float, decoding: Decoding, score: Callable[[str], float]) -> float:
    """The mean score of all that is said with chance `leak`, output by output."""

    def after(said: tuple[int, ...]) -> float:
        if (said and said[-1] == END) or len(said) == decoding.max_new_tokens:
            return score(Spelling().text(said, ()))
        weights = [p ** (1 / decoding.temperature) for p in law(leak, said)]
        whole = sum(weights)
        return sum(w / whole * after((*said, i)) for i, w in enumerate(weights) if w)

    return after(())
