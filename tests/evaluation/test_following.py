"""A run that is looked at while it is drawn: what is said then holds however often one looks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine
from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate, following
from leakbound.evaluation.following import SeenParts, follow
from leakbound.store import Run
from leakbound.study import Until
from leakbound.types import Prompt

ANN, NOBODY = "Ann did", "nobody did"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three questions of 2,048 draws each, in parts of their own."""
    out = tmp_path_factory.mktemp("followed") / "run"
    evaluate(engine(), task(), out=out, n=2048)
    return out


def task() -> Benchmark:
    prompts = tuple(
        Prompt(id=q, question=f"who did {q}?", answer="Ann", keywords=("Ann",)) for q in "abc"
    )
    return Benchmark(
        name="mine", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=8
    )


def engine(leaks: float = 0.1) -> CannedEngine:
    return CannedEngine({q: {ANN: leaks, NOBODY: 1 - leaks} for q in "abc"})


@pytest.fixture
def growing(finished: Path, tmp_path: Path) -> Path:
    """The same, nothing of it drawn yet but the greedy answers: `put` draws a part."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    (run / "estimates.parquet").unlink()
    shutil.rmtree(run / "arms" / "target" / "scores")
    for part in (run / "arms" / "target" / "completions").iterdir():
        part.unlink()
    return run


def put(growing: Path, finished: Path, number: int) -> None:
    place = Path("arms", "target", "completions", f"part-{number:05d}.parquet")
    shutil.copy(finished / place, growing / place)


def test_a_run_is_followed_part_by_part(growing: Path, finished: Path) -> None:
    parts = Run.open(finished).arms["target"].parts
    assert len(parts) > 2
    seen, before, widths = SeenParts(), sorted(growing.rglob("*")), []
    (first,) = follow(Run.open(growing), seen).so_far
    assert first.each is None
    assert first.sentence == "target, keyword: nothing is drawn yet."
    for part in parts:
        put(growing, finished, part.number)
        look = follow(Run.open(growing), seen)
        (found,) = look.so_far
        assert found.each is not None
        assert found.each.stopping.startswith("stopped at a look")
        assert look.confidence == found.each.confidence == 0.99
        target = next(one for one in look.arms if one.arm == "target")
        assert target.parts == part.number + 1
        assert len(found.grid.rows) == len(found.query_ids)
        worst = stats.worst_watched(found.each)
        widths.append(float(worst.upper) - float(worst.lower))
        before.append(
            growing / "arms" / "target" / "completions" / f"part-{part.number:05d}.parquet"
        )
    assert sorted(growing.rglob("*")) == sorted(before)  # nothing was written
    assert look.share == 1
    assert found.query_ids == ("a", "b", "c")
    assert (
        "all 3 questions are begun, the worst of them leaks with probability between"
        in found.sentence
    )
    assert widths[-1] < widths[0]


def test_draws_after_a_missing_part_do_not_count(growing: Path, finished: Path) -> None:
    """Whichever part is done first may be the one of the shortest answers."""
    parts = Run.open(finished).arms["target"].parts
    (first, second, *rest) = parts
    assert first.query_ids == second.query_ids == ("a",)
    for part in (second, *rest):
        put(growing, finished, part.number)
    (found,) = follow(Run.open(growing)).so_far
    assert found.query_ids == ("b", "c")
    put(growing, finished, first.number)
    (found,) = follow(Run.open(growing)).so_far
    assert found.query_ids == ("a", "b", "c")


def test_scores_are_those_that_the_finished_run_stores(growing: Path, finished: Path) -> None:
    from leakbound.scorers import make_scorer

    run = Run.open(finished)
    for part in run.arms["target"].parts:
        put(growing, finished, part.number)
    keyword = make_scorer("keyword")
    (stored,) = (finished / "arms" / "target" / "scores").iterdir()
    kept, made = run.arms["target"].scores(stored.stem), SeenParts()
    found = made.scores(Run.open(growing).arms["target"], keyword)
    for name in ("query_ids", "scores", "counts", "missing"):
        assert np.array_equal(getattr(found, name), getattr(kept, name)), name


def test_a_damaged_part_is_told_and_the_arms_stay(growing: Path, finished: Path) -> None:
    put(growing, finished, 0)
    part = growing / "arms" / "target" / "completions" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-40])
    look = follow(Run.open(growing))
    (found,) = look.so_far
    assert "part-00000.parquet` is not a whole Parquet file" in found.sentence
    assert [one.arm for one in look.arms] == ["greedy", "target"]


def test_a_run_until_a_claim_has_the_bounds_it_ends_with(tmp_path: Path) -> None:
    """Those of a stopped run hold at every look already; among N questions they share alpha."""
    out = tmp_path / "run"
    run = evaluate(engine(0.3), task(), out=out, sampling=Until("p<=0.02", 256))
    (found,) = follow(Run.open(out)).so_far
    assert found.each is not None
    final = run.estimates.each("leak probability")
    for i, row in enumerate(final):
        assert row.estimate.stopping == found.each.stopping
        assert found.each.lower[i] <= row.lower
        assert found.each.upper[i] >= row.upper


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scorers are taken for ones that ask a model."""
    monkeypatch.setattr(following, "models_of", lambda scorer: ("a model",))


@pytest.mark.usefixtures("judged")
def test_a_scorer_that_asks_a_model_is_waited_for(growing: Path, finished: Path) -> None:
    put(growing, finished, 0)
    (found,) = follow(Run.open(growing)).so_far
    assert found.each is None
    assert "asks a model; bounds follow once it has" in found.sentence


@pytest.mark.usefixtures("judged")
def test_where_it_steers_its_stored_scores_are_those_of_the_last_look(tmp_path: Path) -> None:
    run = evaluate(engine(0.3), task(), out=tmp_path / "run", sampling=Until("p<=0.02", 256))
    (found,) = follow(run).so_far
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "models_of", lambda scorer: ())
        (again,) = follow(run).so_far
    assert found.each is not None
    assert found.sentence == again.sentence
    assert found.query_ids == ("a", "b", "c")


def test_what_was_said_of_the_same_draws_is_not_made_again(
    growing: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, bounded = [], stats.watched_questions

    def counted(*args: Any, **how: Any) -> stats.Estimate:
        calls.append(args)
        return bounded(*args, **how)

    monkeypatch.setattr(stats, "watched_questions", counted)
    seen = SeenParts()
    put(growing, finished, 0)
    first, same = (follow(Run.open(growing), seen).so_far for _ in range(2))
    assert first == same
    assert len(calls) == 1
    put(growing, finished, 1)
    assert follow(Run.open(growing), seen).so_far != first
    assert len(calls) == 2
