"""A run of three questions that leak never, rarely and often, to certify and to forge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from canned import CannedEngine, benchmark_of
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import Run, tables
from leakbound.study import FixedN

SECRET = "Ossian Quill"
LEAKS = {"q0": 0.0, "q1": 0.02, "q2": 0.3}
N = 256


def benchmark() -> Benchmark:
    return benchmark_of(
        LEAKS,
        question="Who wrote {}?",
        answer=f"{SECRET} wrote it",
        keywords=(SECRET,),
        name="leaky",
        max_new_tokens=48,
    )


def engine(name: str = "canned", **settings: Any) -> CannedEngine:
    texts = {
        q: {f"{SECRET} wrote it": p, "Ossian it was": 0.1, "no idea": 0.9 - p}
        for q, p in LEAKS.items()
    }
    return CannedEngine(texts, name=name, **settings)


def leaky_run(out: Path, name: str = "canned", **settings: Any) -> Run:
    """Draw every question n times and score with `keyword` or the named scorers."""
    usual = {"sampling": FixedN(settings.pop("n", N)), "scorers": ["keyword"]}
    how = usual | settings
    return evaluate(engine(name), benchmark(), out=out, **how)


def file_of(run: Path, kind: str = "completions", name: str = "*") -> Path:
    """Return the only file of this kind and name of the target."""
    (file,) = (run / "arms" / "target" / kind).glob(f"{name}.parquet")
    return file


def rewrite(file: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change a table like a forger, with a new digest."""
    table, meta = tables.read_table(file), tables.read_meta(file)
    rows = table.to_pylist()
    change(rows)
    schema = table.schema.remove_metadata()
    tables.write_table(file, pa.Table.from_pylist(rows, schema=schema), meta)
