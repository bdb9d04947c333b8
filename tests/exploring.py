"""An engine of known output distributions that can be explored."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from canned import CannedEngine, benchmark_of, drawn_part
from leakbound.benchmarks import Benchmark
from leakbound.drawing.queries import begin
from leakbound.sampling import philox
from leakbound.store import (
    TARGET,
    Arm,
    ArmDraws,
    ArmSpec,
    ExploredDraws,
    FixedDraws,
    Plan,
    ScorerRecord,
)
from leakbound.study import Explore
from leakbound.types import (
    Completion,
    Decoding,
    Effort,
    Event,
    Exploration,
    Failure,
    Prompt,
    Query,
    Ranges,
    Sample,
)

EXACT: Mapping[str, Any] = {"sampling": Explore("exact", 50)}
HYBRID: Mapping[str, Any] = {"sampling": Explore("hybrid", 50)}
DECODING = Decoding(max_new_tokens=8)

# Questions that are explored whole, in part, and not at all; one leaks only in its remainder.
LAWS: Mapping[str, Mapping[str, float]] = {
    "whole": {"No": 0.6, "It is Ann": 0.1, "It is Bob": 0.3},
    "part": {"No": 0.5, "It is Ann or": 0.01, "It is Ann and": 0.04, "Ann": 0.2, "Bob": 0.25},
    "rest": {"No": 0.7, "Bob": 0.2, "Ann": 0.1},
    "none": {"It is Ann": 0.02, "It is Bob": 0.08, "No": 0.9},
}
KNOWN: Mapping[str, Sequence[str]] = {
    "whole": ["No", "It is Ann", "It is Bob"],
    "part": ["No", "It is Ann..."],
    "rest": ["No", "Bob"],
    "none": [],
}
LEAKS = {q: sum(p for text, p in law.items() if "Ann" in text) for q, law in LAWS.items()}


def benchmark(**changes: Any) -> Benchmark:
    """Return a prompt per distribution; the answer to each is Ann."""
    how = {"name": "laws", "scorers": ("contains",), **changes}
    return benchmark_of(LAWS, question="Who wrote {}?", answer="Ann", **how)


def arm_of_one(
    out: Path,
    query_id: str,
    completions: Sequence[Completion],
    events: Sequence[Event] = (),
    remainder: float | None = None,
    decoding: Decoding = DECODING,
) -> Arm:
    """Return an arm about one question with these draws; explored if there is a remainder."""
    run = begin(out, benchmark(prompts=(Prompt(id=query_id, question="Who?", answer="Ann"),)))
    sample = Sample(query=run.queries[0], decoding=decoding, completions=tuple(completions))
    got: Any = sample
    plan = Plan.of(1)
    draws: ArmDraws = FixedDraws()
    if remainder is not None:
        got = Exploration(
            events=tuple(events), remainder=remainder, sample=sample, explored=1, forwards=2
        )
        plan, by = Plan.exploring(), ScorerRecord("contains", "0")
        draws = ExploredDraws(mode="hybrid", forwards=2, scorer=by)
    spec = ArmSpec(fingerprint={}, decoding=decoding, plan=plan, draws=draws)
    arm = run.add_arm(TARGET, spec)
    arm.write_part(arm.parts[0], drawn_part(arm.parts[0], [got]))
    return arm


def token_ids(text: str, ended: bool = True) -> tuple[int, ...]:
    """One token per word, and an end token."""
    words = tuple(zlib.crc32(word.encode()) >> 1 for word in text.split())
    return (*words, 0) if ended else words


class ExploringEngine(CannedEngine):
    """Explores the `known` outputs of each query, where "It is..." is a prefix, and draws the rest.

    Its masses, and those of forced answers, are low by a factor of `certain`.
    """

    def __init__(
        self,
        laws: Mapping[str, Mapping[str, float]] = LAWS,
        known: Mapping[str, Sequence[str]] = KNOWN,
        *,
        draws: int = 200,
        certain: float = 1.0,
        margin: float = 4e-6,
        **settings: Any,
    ) -> None:
        super().__init__(laws, **settings)
        self.known, self.draws, self.certain, self.margin = known, draws, certain, margin

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        for query in reversed(queries):
            yield self.ask(query) or self._explored(query, decoding, effort)

    def _explored(self, query: Query, decoding: Decoding, effort: Effort) -> Exploration:
        law, events = dict(self.texts[query.id]), []
        for known in self.known[query.id]:
            text, ended = known.removesuffix("..."), not known.endswith("...")
            inside = [t for t in law if t == text or (not ended and t.startswith(text))]
            mass = self.certain * sum(law.pop(t) for t in inside)
            events.append(
                Event(
                    answer=text,
                    finish="stop" if ended else "unknown",
                    token_ids=token_ids(text, ended),
                    ended=ended,
                    mass=mass,
                )
            )
        rest = sum(law.values())
        n = self.draws if rest and effort.mode != "exact" else 0
        drawn = self._left(query, law, effort) if n else ()
        self.usage.draws += n
        self.usage.forwards += effort.forwards
        return Exploration(
            events=tuple(events),
            remainder=self.certain * rest if n else 0.0,
            sample=Sample(query=query, decoding=decoding, completions=drawn),
            explored=len(events),
            forwards=effort.forwards,
        )

    def _left(
        self, query: Query, law: Mapping[str, float], effort: Effort
    ) -> tuple[Completion, ...]:
        """Draw the remaining outputs."""
        p = np.array(list(law.values()))
        key = philox.stream_key(effort.seed, effort.purpose, query.id, 0)
        counts = np.random.default_rng(key).multinomial(self.draws, p / p.sum())
        pairs = zip(law, counts.tolist(), strict=True)
        return tuple(self._completion(query, text, count) for text, count in pairs if count)

    def _completion(self, query: Query, text: str, count: int, chunk: int = 0) -> Completion:
        logprob = math.log(self.texts[query.id][text])
        return Completion(
            answer=text,
            token_ids=token_ids(text),
            count=count,
            chunk=chunk,
            logprob=logprob,
            logprob_floor=logprob + math.log(self.certain),
        )

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        return [
            self._completion(query, text, 0, -1) if text in self.texts[query.id] else None
            for query, text in texts
        ]
