"""Runs that most tests of views and of the page read, made once per session, and small runs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from canned import CannedEngine, benchmark_of
from canned_runs import (
    ProvingEngine,
    benchmark,
    hostile_runs,
    laws,
    make_run,
    rewritten_benchmark,
    rewritten_engine,
)
from explored import HALF, explored_run
from explored import benchmark as explored_benchmark
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import bound_run, evaluate, scorers_for
from leakbound.store import EstimateRow, Run
from leakbound.study import Attack, Rewritings, Until
from leakbound.types import Decoding
from shared import keep

Runs = dict[str, Run]
_MADE: dict[str, Runs] = {}
GRID = tuple(Decoding(temperature=t, top_p=p) for t in (0.5, 1.0) for p in (0.9, 1.0))
CLAIM = "p<=0.1"


def _once(make: Callable[[pytest.TempPathFactory], Runs]) -> Any:
    """A fixture that is made once per session, although several folders import it."""

    def made(tmp_path_factory: pytest.TempPathFactory) -> Runs:
        if make.__name__ not in _MADE:
            _MADE[make.__name__] = make(tmp_path_factory)
        return _MADE[make.__name__]

    return pytest.fixture(scope="session", name=make.__name__)(made)


@_once
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A full and an unlearned model with one control."""
    folder, task = tmp_path_factory.mktemp("runs"), benchmark()
    control = folder / "control"
    make_run(control, task, "control", 0.02)
    made = {
        "full": make_run(folder / "full", task, "full", 0.95, control=control),
        "NPO": make_run(folder / "npo", task, "npo", 0.2, control=control),
    }
    keep(folder)
    return made


@_once
def proved(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Many questions, drawn as often as users draw: the widest tables, proofs among them."""
    return _with_proofs(tmp_path_factory.mktemp("proved"), questions=24, n=1024)


@_once
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The same models on few questions, with few draws."""
    return _with_proofs(tmp_path_factory.mktemp("proofs"), questions=8, n=128)


def _with_proofs(folder: Path, questions: int, n: int) -> Runs:
    task, how = benchmark(questions), {"n": n, "scorers": ["keyword"]}
    control = ProvingEngine("control", laws(task, 0.02))
    evaluate(control, task, out=folder / "control", **how)
    made = {}
    for name, leak in (("full", 0.95), ("NPO", 0.2)):
        engine = ProvingEngine(name, laws(task, leak))
        made[name] = evaluate(engine, task, out=folder / name, control=folder / "control", **how)
    keep(folder)
    return made


@_once
def decodings(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A model under a grid of four decodings, and an arm drawn until a claim was decided."""
    folder, task = tmp_path_factory.mktemp("decodings"), benchmark()
    made = {
        "grid": make_run(folder / "grid", task, "grid", 0.3, n=128, decodings=GRID),
        "until": make_run(folder / "until", task, "until", 0.6, sampling=Until(CLAIM, 256)),
    }
    keep(folder)
    return made


@_once
def explored(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A model whose distributions were explored, under two decodings."""
    out = tmp_path_factory.mktemp("explored") / "run"
    run = explored_run(out, (HALF, Decoding(max_new_tokens=8)))
    bound_run(run, scorers_for(["contains"], explored_benchmark().prompts))
    return {"explored": run}


@_once
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A model and a control with rewritings and an attack."""
    run = evaluate(
        rewritten_engine("forgot", 0.1),
        rewritten_benchmark(),
        out=tmp_path_factory.mktemp("asked") / "run",
        n=256,
        control=rewritten_engine("control", 0.01),
        rewritings=Rewritings("benchmark", queries=4),
        attack=Attack(64),
    )
    return {"forgot": run}


@_once
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run in which every text is hostile, also its name."""
    return hostile_runs(tmp_path_factory.mktemp("hostile"))


def bound(run: Run, query_id: str | None, **wanted: Any) -> EstimateRow:
    """Return a row about the rewritten questions of the target, by keyword."""
    usual = {"arm": "target inputs", "scorer": "keyword", "quantity": "leak probability"}
    got = run.estimates.first(**usual | {"query_id": query_id} | wanted)
    assert got is not None
    return got


LEAKED, UNSAID = "it is the secret", "nobody knows"


def who(*ids: str, name: str = "mine", scorers: Sequence[str] = ("keyword",)) -> Benchmark:
    """Questions with these ids, all of which one answer leaks."""
    how: Any = {"answer": LEAKED, "keywords": ("secret",), "name": name, "scorers": tuple(scorers)}
    return benchmark_of(ids, question="who is {}?", **how)


def saying(leaks: Mapping[str, float], **settings: Any) -> CannedEngine:
    """Return an engine that gives this answer with a probability per question."""
    return CannedEngine({i: {LEAKED: p, UNSAID: 1 - p} for i, p in leaks.items()}, **settings)


def browser_lacks() -> str | None:
    """Return the missing requirement of tests in a real browser, with the remedy."""
    for program, package in (("chromium", "chromium"), ("node", "nodejs")):
        if shutil.which(program) is None:
            return f"{program} (Debian package {package})"
    for package in ("playwright-core", "axe-core"):
        rewritten = ["node", "-e", f"require.resolve('{package}')"]
        if subprocess.run(rewritten, capture_output=True, check=False).returncode:
            return f"{package} (npm install {package}; set NODE_PATH to its node_modules)"
    return None


def unfinish(run: Path, aside: Path | None = None) -> list[Path]:
    """Move the parts of the target aside, so that the run has none, and return them."""
    (run / "estimates.parquet").unlink()
    shutil.rmtree(run / "arms" / "target" / "scores")
    aside = aside or run.parent.parent / f"{run.name}-aside"
    aside.mkdir(exist_ok=True)
    taken = sorted((run / "arms" / "target" / "completions").iterdir())
    return [Path(shutil.move(part, aside / part.name)) for part in taken]
