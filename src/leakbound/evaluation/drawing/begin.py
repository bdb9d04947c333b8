"""The run of a study, begun or found as an earlier command left it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.evaluation.drawing.queries import QueryPlan
from leakbound.evaluation.study.names import NO_INPUTS
from leakbound.store import Run
from leakbound.types import (
    Query,
)


def begin(
    out: Path,
    benchmark: Benchmark,
    study: Mapping[str, Any] | None = None,
    asking: QueryPlan | None = None,
    notes: Sequence[str] = (),
) -> Run:
    """The run at `out` for this benchmark; begun, or found as the same command left it.

    Without `asking` its queries are the questions themselves. `study`, what was asked for, and
    `notes` beside the benchmark's are recorded.
    """
    record = {
        "benchmark": benchmark.fingerprint(),
        "inputs": NO_INPUTS if asking is None else asking.to_dict(),
        "scorers": list(benchmark.scorers),
        "notes": [*benchmark.notes, *notes],
        "study": dict(study or {}),
    }
    if run := Run.found(out, record):
        return run
    if asking is None:
        queries = [Query.original(prompt) for prompt in benchmark.prompts]
    else:
        queries = asking.queries(out, benchmark, record)
    return Run.create(out, benchmark.prompts, queries, record)
