"""An engine whose next words come from a table, so that draws and proofs can be counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.testing.fake_engine import WordEngine
from leakbound.types import Decoding, Draws, Failure, Leads, Prompt, Proving, Query, Ranges, Sample

WORDS = ("", "It", "is", "hush", "no")
END, IT, IS, HUSH, NO = range(len(WORDS))
ANSWER, IN_OTHER_WORDS = "It hush", "hush"


def benchmark(questions: int = 2) -> Benchmark:
    """Return questions with the answer "hush" in two wordings."""
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


def law(leak: float, tokens: tuple[int, ...]) -> list[float]:
    """Return the next word's distribution for a leak probability `leak`, half of it after "It"."""
    after: dict[tuple[int, ...], list[float]] = {
        (): [0.0, 0.5, 0.0, leak / 2, 0.5 - leak / 2],
        (IT,): [0.0, 0.0, 1 - leak, leak, 0.0],
        (IT, IS): [0.0, 0.0, 0.0, 0.0, 1.0],
    }
    return after.get(tokens, [0.9, 0.0, 0.0, 0.0, 0.1])


class ProvingEngine(WordEngine):
    """A `WordEngine` that also proves, with known distributions, output by output."""

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Everything fits."""

    def prove(
        self, queried: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        outputs = [(q, [(*self._encode(text), END) for text in texts]) for q, texts in queried]
        margin = self.margin if math.isfinite(self.margin) else 1.0
        return self._sampler(margin).prove(outputs, decoding, forwards, ranges)


class TableEngine(ProvingEngine):
    """Answers "hush" with probability `leak(query)`; after `dies_after` queries it raises.

    `margin`: its stated rounding error; if infinite, it proves nothing.
    """

    def __init__(
        self,
        leak: Callable[[Query], float],
        margin: float = 0.0,
        dies_after: int | None = None,
        name: str = "table",
    ) -> None:
        super().__init__(WORDS, self._number, self._following, margin)
        self.leak, self.dies_after, self.name = leak, dies_after, name
        self.queried: list[tuple[str, Query, Decoding]] = []
        self._leaks: dict[tuple[str, str], float] = {}

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"weights": self.name, "engine": "table"}

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        self._ask("draws", queries, decoding)
        return super().generate(queries, decoding, draws)

    def prove(
        self, queried: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        self._ask("proof", [query for query, _ in queried], decoding)
        return super().prove(queried, decoding, forwards, ranges)

    def _ask(self, how: str, queries: Sequence[Query], decoding: Decoding) -> None:
        for query in queries:
            if self.dies_after is not None:
                if not self.dies_after:
                    raise RuntimeError("the machine was switched off")
                self.dies_after -= 1
            self.queried.append((how, query, decoding))

    def _number(self, query: Query) -> int:
        """Return one number per input."""
        words = (query.text, query.prefix)
        self._leaks.setdefault(words, self.leak(query))
        return [*self._leaks].index(words)

    def _following(self, prefix: tuple[int, ...]) -> list[float]:
        return law([*self._leaks.values()][prefix[0]], prefix[1:])


def exact(leak: float, decoding: Decoding, score: Callable[[str], float]) -> float:
    """Return the mean score of all outputs with leak probability `leak`, output by output."""

    def after(tokens: tuple[int, ...]) -> float:
        if (tokens and tokens[-1] == END) or len(tokens) == decoding.max_new_tokens:
            return score(" ".join(WORDS[i] for i in tokens if i != END))
        weights = [p ** (1 / decoding.temperature) for p in law(leak, tokens)]
        whole = sum(weights)
        return sum(w / whole * after((*tokens, i)) for i, w in enumerate(weights) if w)

    return after(())
