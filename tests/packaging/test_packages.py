"""The packages are complete and installable; common tools read a run's tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import leakbound
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.testing import FakeEngine
from leakbound.types import Prompt
from tiny import tiny_model_folder

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "leakbound"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")  # the index's rule
NORMAL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # as an index compares names


def run(*command: object, **env: str) -> str:
    """Run a command that must succeed, and return its output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | env)
    assert done.returncode == 0, f"{words}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done.stdout


def test_names_and_summary_are_what_an_index_takes() -> None:
    assert NAME.fullmatch(PROJECT["name"])
    assert NORMAL.fullmatch(PROJECT["name"])
    assert PROJECT["name"] not in sys.stdlib_module_names
    for extra in PROJECT["optional-dependencies"]:
        assert NORMAL.fullmatch(extra), extra
    assert "\n" not in PROJECT["description"]
    assert len(PROJECT["description"]) <= 512
    assert re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", PROJECT["version"])


def test_the_citation_names_this_version_and_licence() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    needed = {"cff-version", "message", "title", "authors"}
    assert needed <= set(cited)
    assert cited["version"] == PROJECT["version"] == leakbound.__version__
    assert cited["license"] == PROJECT["license"]
    for entry in [cited, *cited["references"]]:
        assert entry["title"]
        assert all({"name", "family-names"} & set(author) for author in entry["authors"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source archive, and the wheel made from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.mark.slow
def test_the_packages_contain_every_file_of_the_source(built: Path) -> None:
    wanted = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {Path(name).suffix for name in wanted} > {".py", ".html", ".css", ".js", ".yaml"}
    (wheel,) = built.glob("*.whl")
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        kept = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"src/{name}" for name in wanted} | {"LICENSE", "README.md"} <= kept


@pytest.mark.slow
def test_the_index_would_take_them(built: Path) -> None:
    shown = run(sys.executable, "-m", "twine", "check", *built.iterdir(), NO_COLOR="1")
    assert shown.count("PASSED") == 2


@pytest.mark.slow
def test_the_wheel_runs_in_a_separate_environment(built: Path, tmp_path: Path) -> None:
    """leakbound comes from the wheel, its dependencies from this environment."""
    env = tmp_path / "env"
    run(sys.executable, "-m", "venv", env)
    python = env / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    inside = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (inside / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-P", "-c", "import leakbound; print(leakbound.__file__)").strip()
    assert Path(where).is_relative_to(env)
    command = env / "bin" / "leakbound"
    assert leakbound.__version__ in run(command, "--version")
    model, out = tiny_model_folder(tmp_path / "model", seed=0), tmp_path / "run"
    wanted = ("evaluate", model, "--benchmark", "fictitious", "--limit", 1, "-n", 8)
    run(command, *wanted, "--max-new-tokens", 4, "--out", out)
    assert (out / "report.html").stat().st_size > 10_000


LAW = {"the secret": 0.25, "no": 0.75}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
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
    return sorted((run.path / "arms" / "target" / "completions").glob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_read_a_run(made: Run, library: str) -> None:
    reader = pytest.importorskip(library)
    estimates = reader.read_parquet(made.path / "estimates.parquet")
    assert len(estimates) == len(made.estimates)
    assert sum(reader.read_parquet(part)["count"].sum() for part in parts(made)) == 128
    if library == "pandas":
        assert len(made.estimates.to_pandas()) == len(estimates)
    else:
        assert reader.from_arrow(made.completions.to_arrow()).height >= 4


@pytest.mark.slow
def test_duckdb_reads_a_run(made: Run) -> None:
    duckdb = pytest.importorskip("duckdb")
    counted = "select sum(count) from read_parquet($files)"
    files = {"files": [str(part) for part in parts(made)]}
    assert duckdb.execute(counted, files).fetchone()[0] == 128
    estimates = {"f": str(made.path / "estimates.parquet")}
    rows = duckdb.execute("select count(*) from read_parquet($f)", estimates).fetchone()[0]
    assert rows == len(made.estimates)
