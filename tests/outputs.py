"""An engine whose outputs are given: answers, thoughts and finishes, each with its count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from canned import CannedEngine, benchmark_of
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.types import Completion, Decoding, Draws, Output, Query

SECRET = "Ossian Quill"
CLEAN = Output(answer="no idea", finish="stop")
Counts = Sequence[tuple[Output, int]]


def benchmark(*ids: str, **changes: Any) -> Benchmark:
    """Return a question for each id, with the secret as answer and keyword."""
    given = {"name": "given", "max_new_tokens": 3, **changes}
    return benchmark_of(ids, question="Who wrote {}?", answer=SECRET, keywords=(SECRET,), **given)


class GivenEngine(CannedEngine):
    """Gives the listed outputs of each query; the first is the greedy answer.

    Requested draws without a listed output are missing.
    """

    def drawn(self, query: Query, decoding: Decoding, draws: Draws) -> Iterator[Completion]:
        left = draws.n
        for output, count in self.texts[query.id]:
            count = min(1 if decoding.greedy else count, left)
            left -= count
            if count:
                yield Completion.of(output, count=count, chunk=draws.first_chunk)


def given_run(out: Path, outputs: Mapping[str, Counts], n: int, **settings: Any) -> Run:
    """Return a finished run of an engine with these outputs, n draws of each question."""
    task = settings.pop("task", None) or benchmark(*outputs)
    return evaluate(GivenEngine(outputs), task, out=out, n=n, **settings)
