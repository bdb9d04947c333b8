"""How long scoring and bounding take: done with few questions, whose draws are invented."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from leakbound.evaluation.verbs import evaluate
from leakbound.planning.plan import Prepared
from leakbound.store.clock import TIMES, Clock
from leakbound.study import FixedN, Study
from leakbound.types import Completion, Decoding, Draws, Generate, JsonObject, Query, Sample, Usage

_DRAWS = 64
_FEW, _MORE = 2, 8  # questions
_PHASES = ("score", "bound")


def bounding_seconds(ready: Prepared, engine: Generate, control: bool) -> float | None:
    """About so many seconds; None where it depends on more than questions, draws and scorers.

    Two questions are drawn from, a little. As many draws as the study makes are taken of these, for
    two questions and for eight, twice over where there is a control: what eight take beyond two
    tells what one takes.
    """
    study = ready.study
    special = study.rewritings or study.attack or study.prove or study.stress or ready.crew
    if special or not isinstance(study.sampling, FixedN) or len(study.decodings) != 1:
        return None
    (decoding,), prompts = study.decodings, ready.benchmark.prompts
    draws = Draws(sizes=(min(_DRAWS, ready.drawing.n),), purpose="pilot")
    tried = [Query.original(prompt) for prompt in prompts[:: max(1, len(prompts) // 2)][:2]]
    samples = [draw for draw in engine.generate(tried, decoding, draws) if isinstance(draw, Sample)]
    if decoding.greedy or not samples:
        return None
    few, more = (min(number, len(prompts)) for number in (_FEW, _MORE))
    first = _seconds(ready, samples, few, control)
    if more == few:
        return first
    per_question = (_seconds(ready, samples, more, control) - first) / (more - few)
    return first + max(per_question, 0.0) * (len(prompts) - few)


def _seconds(ready: Prepared, samples: Sequence[Sample], questions: int, control: bool) -> float:
    task = replace(ready.benchmark, prompts=ready.benchmark.prompts[:questions], loaded=None)
    study = Study(
        task,
        sampling=ready.study.sampling,
        decodings=ready.study.decodings,
        scorers=ready.study.scorers,
        allow_unmatched=True,
        confidence=ready.study.confidence,
        settings=ready.study.settings,
        servers=ready.study.trusted,
    )
    beside = _Again(samples, "control") if control else None
    with tempfile.TemporaryDirectory() as folder:
        evaluate(_Again(samples, "target"), study, out=Path(folder) / "run", control=beside)
        spent = Clock(Path(folder) / "run" / TIMES).seconds
    return sum(spent[name] for name in _PHASES)


@dataclass
class _Again:
    """An engine that says again, as often as is asked, what was said to one query or the other."""

    found: Sequence[Sample]
    name: str
    usage: Usage = field(default_factory=Usage)

    @property
    def fingerprint(self) -> JsonObject:
        return {"engine": "rehearsal", "weights": self.name}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Nothing is refused."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample]:
        for i, query in enumerate(queries):
            completions = self.found[i % len(self.found)].completions
            shares = np.array([completion.count for completion in completions], dtype=float)
            generator = np.random.default_rng([i, len(self.name)])
            made: list[Completion] = []
            for chunk, size in enumerate(draws.of(query.id), draws.first_chunk):
                counts = generator.multinomial(size, shares / shares.sum()).tolist()
                made += [
                    replace(completion, count=count, chunk=chunk, token_ids=None, logprob=None)
                    for completion, count in zip(completions, counts, strict=True)
                    if count
                ]
            yield Sample(query=query, decoding=decoding, completions=tuple(made))
