"""A run in progress: its state, and bounds that are valid at every look."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from canned import CannedEngine
from leakbound import stats
from leakbound.evaluation import evaluate, following
from leakbound.evaluation.following import first_scores, follow
from leakbound.scorers import make_scorer
from leakbound.store import Run
from leakbound.study import Until
from report_runs import saying, unfinish, who

PARTS = Path("arms", "target", "completions")


@pytest.fixture(scope="module", autouse=True)
def parts_of_one_chunk() -> Iterator[None]:
    with patch("leakbound.store.plan.PART", 1024):
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("followed") / "run"
    evaluate(engine(), who(*"abc"), out=out, n=2048)
    return out


def engine(leaks: float = 0.1) -> CannedEngine:
    return saying(dict.fromkeys("abc", leaks))


@pytest.fixture
def growing(finished: Path, tmp_path: Path) -> Path:
    """A fresh copy with greedy answers only; `put` draws a part."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    unfinish(run, tmp_path / "aside")
    return run


def put(growing: Path, finished: Path, number: int) -> None:
    place = PARTS / f"part-{number:05d}.parquet"
    shutil.copy(finished / place, growing / place)


def test_a_run_is_followed_part_by_part(growing: Path, finished: Path) -> None:
    parts = Run.open(finished).arms["target"].parts
    assert len(parts) > 2
    before, widths = sorted(growing.rglob("*")), []
    (first,) = follow(Run.open(growing)).so_far
    assert first.bounds is None
    assert first.to_dict()["questions"] == []
    assert first.sentence == "target, keyword: nothing is drawn yet."
    for part in parts:
        put(growing, finished, part.number)
        look = follow(Run.open(growing))
        (got,) = look.so_far
        assert got.bounds is not None
        assert got.bounds.stopping.startswith("stopped at a look")
        assert look.confidence == got.bounds.confidence == 0.99
        target = next(one for one in look.arms if one.arm == "target")
        assert target.parts == part.number + 1
        plain: Any = got.to_dict()
        assert plain["questions"] == [*got.query_ids]
        assert plain["estimate"]["upper"] == np.atleast_1d(got.bounds.upper).tolist()
        assert f"in progress: {part.number + 2} of {len(parts) + 1} parts, " in look.state
        worst = stats.worst_watched(got.bounds)
        widths.append(float(worst.upper) - float(worst.lower))
        before.append(growing / PARTS / f"part-{part.number:05d}.parquet")
    assert sorted(growing.rglob("*")) == sorted(before)  # nothing was written
    assert look.share == 1
    assert got.query_ids == ("a", "b", "c")
    begun = "all 3 questions have draws. The worst question leaks with probability between"
    assert begun in got.sentence
    assert widths[-1] < widths[0]
    (file,) = (finished / "arms" / "target" / "scores").iterdir()
    stored = Run.open(finished).arms["target"].scores(file.stem, binary=True)
    scores = first_scores(Run.open(growing).arms["target"], make_scorer("keyword"))
    assert scores.ids == stored.ids
    for name in ("values", "counts", "missing"):
        assert np.array_equal(getattr(scores, name), getattr(stored, name)), name


def test_draws_after_a_missing_part_do_not_count(growing: Path, finished: Path) -> None:
    """The first finished part may be the one with the shortest answers."""
    parts = Run.open(finished).arms["target"].parts
    (first, second, *rest) = parts
    assert first.query_ids == second.query_ids == ("a",)
    for part in (second, *rest):
        put(growing, finished, part.number)
    (got,) = follow(Run.open(growing)).so_far
    assert got.query_ids == ("b", "c")
    put(growing, finished, first.number)
    (got,) = follow(Run.open(growing)).so_far
    assert got.query_ids == ("a", "b", "c")


def test_a_damaged_part_is_named_and_the_arms_stay(growing: Path, finished: Path) -> None:
    put(growing, finished, 0)
    part = growing / PARTS / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-40])
    look = follow(Run.open(growing))
    (got,) = look.so_far
    assert "part-00000.parquet` is not a complete Parquet file" in got.sentence
    assert [one.arm for one in look.arms] == ["greedy", "target"]


def test_a_run_until_a_claim_shows_its_final_bounds(tmp_path: Path) -> None:
    """Bounds of a stopped run are valid at every look; N questions share alpha."""
    out = tmp_path / "run"
    run = evaluate(engine(0.3), who(*"abc"), out=out, sampling=Until("p<=0.02", 256))
    (got,) = follow(Run.open(out)).so_far
    assert got.bounds is not None
    final = run.estimates.each("leak probability")
    for i, row in enumerate(final):
        assert row.estimate.stopping == got.bounds.stopping
        assert got.bounds.lower[i] <= row.lower
        assert got.bounds.upper[i] >= row.upper


def test_scorers_with_models(
    growing: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the results of its last look are reported."""
    steered = Until("p<=0.02", 256)
    run = evaluate(engine(0.3), who(*"abc"), out=tmp_path / "until", sampling=steered)
    (seen,) = follow(run).so_far
    monkeypatch.setattr(following, "models_of", lambda scorer: ("a model",))
    (again,) = follow(run).so_far
    assert again.bounds is not None
    assert again.sentence == seen.sentence
    assert again.query_ids == ("a", "b", "c")
    put(growing, finished, 0)
    (got,) = follow(Run.open(growing)).so_far
    assert got.bounds is None
    assert "bounds are computed after the scorer's model has run" in got.sentence
