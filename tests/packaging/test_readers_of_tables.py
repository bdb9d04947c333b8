"""What others read tables with reads a run's files, unchanged: pandas, polars, DuckDB, datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.formats.exporting import export
from leakbound.store import Run
from leakbound.testing import FakeEngine
from leakbound.types import Prompt

LAW = {"the secret": 0.25, "no": 0.75}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small finished run of two questions."""
    task = Benchmark(
        name="b",
        prompts=tuple(Prompt(id=p, question=f"{p}?", answer="the secret") for p in "ab"),
        origin="",
        scorers=("rouge-l-recall>=0.5",),
        max_new_tokens=8,
    )
    out = tmp_path_factory.mktemp("tables") / "run"
    return evaluate(FakeEngine({"a": LAW, "b": LAW}), task, out=out, n=64)


def parts(run: Run) -> list[Path]:
    """The stored completions of the target."""
    return sorted((run.path / "arms" / "target" / "completions").glob("*.parquet"))


def test_pandas(made: Run) -> None:
    pandas = pytest.importorskip("pandas")
    read = pandas.read_parquet(made.path / "estimates.parquet")
    assert len(read) == len(made.estimates)
    assert pandas.read_parquet(parts(made)[0].parent)["count"].sum() == 128
    assert len(made.estimates.to_pandas()) == len(read)


def test_polars(made: Run) -> None:
    polars = pytest.importorskip("polars")
    read = polars.read_parquet(made.path / "estimates.parquet")
    assert read.height == len(made.estimates)
    assert polars.read_parquet(parts(made))["count"].sum() == 128
    assert polars.from_arrow(made.completions.to_arrow()).height >= 4


def test_duckdb(made: Run) -> None:
    duckdb = pytest.importorskip("duckdb")
    files = [str(part) for part in parts(made)]
    asked = "select sum(count) from read_parquet($files)"
    assert duckdb.execute(asked, {"files": files}).fetchone()[0] == 128
    estimates = str(made.path / "estimates.parquet")
    counted = duckdb.execute("select count(*) from read_parquet($f)", {"f": estimates})
    assert counted.fetchone()[0] == len(made.estimates)


def test_datasets(made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    files = [str(part) for part in parts(made)]
    read = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))["train"]
    assert sum(read["count"]) == 128
    assert set(read["text"]) == set(LAW)


def test_lines_of_an_export_are_rows_anywhere(made: Run, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    export([made], tmp_path / "draws.jsonl", form="jsonl")
    rows = [json.loads(line) for line in (tmp_path / "draws.jsonl").read_text().splitlines()]
    assert polars.read_ndjson(tmp_path / "draws.jsonl").height == len(rows)
    assert sum(row["count"] for row in rows) == 128
