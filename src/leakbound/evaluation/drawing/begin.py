"""The run of a study, begun or found as an earlier command left it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.evaluation.drawing.queries import QueryPlan
from leakbound.store import Run, RunRecord
from leakbound.types import JsonObject, Query


def begin(
    out: Path,
    benchmark: Benchmark,
    study: JsonObject | None = None,
    asking: QueryPlan | None = None,
    notes: Sequence[str] = (),
) -> Run:
    """The run at `out` for this benchmark; begun, or found as the same command left it.

    Without `asking` its queries are the questions themselves. `study`, what was asked for, and
    `notes` beside the benchmark's are recorded.
    """
    record = RunRecord(
        benchmark=benchmark.fingerprint(),
        inputs=None if asking is None else asking.record,
        scorers=benchmark.scorers,
        notes=(*benchmark.notes, *notes),
        study=study or {},
    )
    if run := Run.found(out, record):
        return run
    if asking is None:
        queries = [Query.original(prompt) for prompt in benchmark.prompts]
    else:
        queries = asking.queries(out, benchmark, record)
    return Run.create(out, benchmark.prompts, queries, record)
