"""A run that is looked at while it is drawn: what is said then holds however often one looks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canned import CannedEngine
from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate, following
from leakbound.evaluation.following import SeenParts, follow, watched, worst_of
from leakbound.evaluation.statements.fixed import Stopped
from leakbound.store import ArmScores, Run
from leakbound.study import Until
from leakbound.types import Prompt

ALPHA, SIMULATED, QUESTIONS = 0.1, 250, 2
PART, PARTS = 8, 32  # draws of a question in a part, and parts of it
CAP = PART * PARTS
ANN, NOBODY = "Ann did", "nobody did"


def looks(values: NDArray[np.float64], law: list[float], seed: int) -> list[ArmScores]:
    """What lies there after every part, of as many questions as are simulated, at once."""
    rows = SIMULATED * QUESTIONS
    drawn = np.random.default_rng(seed).multinomial(PART, law, size=(PARTS, rows)).cumsum(axis=0)
    ids = tuple(map(str, range(rows)))
    each, none = np.tile(values, (rows, 1)), np.zeros(rows, np.int64)
    return [ArmScores(ids, each, counts, none) for counts in drawn]


def errors(each: list[stats.Estimate], truth: float) -> float:
    """In which share of the simulations any interval failed at any look."""
    wrong = [(np.asarray(e.lower) > truth) | (np.asarray(e.upper) < truth) for e in each]
    return float(np.any(wrong, axis=0).reshape(SIMULATED, QUESTIONS).any(axis=1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("p", [pytest.param(0.02, marks=pytest.mark.thorough), 0.3])
def test_whoever_looks_after_every_part_is_wrong_no_oftener_than_is_said(p: float) -> None:
    """And would be with bounds for a fixed n, each of them right by itself."""
    seen = looks(np.array([0.0, 1.0]), [1 - p, p], seed=7)
    how = {"questions": QUESTIONS, "confidence": 1 - ALPHA}
    assert errors([watched(Stopped(s, True, CAP), **how) for s in seen], p) <= ALPHA
    each = 1 - ALPHA / QUESTIONS
    peeked = [stats.proportion_bound(s.hits, s.n, confidence=each, side="both") for s in seen]
    assert errors(peeked, p) > 1.5 * ALPHA
    assert errors(peeked[-1:], p) <= 1.2 * ALPHA  # of 250 simulations


def test_so_it_is_for_means() -> None:
    values, law = np.array([0.0, 0.3, 1.0]), [0.6, 0.3, 0.1]
    seen = looks(values, law, seed=11)
    how = {"questions": QUESTIONS, "confidence": 1 - ALPHA}
    early = [s for i, s in enumerate(seen) if i % 4 == 3 and i < PARTS - 1]
    found = [watched(Stopped(s, False, CAP), **how) for s in early]
    assert errors(found, float(values @ law)) <= ALPHA


def test_every_side_of_every_question_has_its_share_of_alpha() -> None:
    """To the last digit those of the any-time bound at half of alpha/(2N), N all that are asked."""
    hits, n = np.array([0, 3, 40]), np.array([64, 64, 64])
    scores = ArmScores(
        ("a", "b", "c"), np.tile([0.0, 1.0], (3, 1)), np.stack([n - hits, hits], 1), 0 * n
    )
    found = watched(Stopped(scores, True, cap=128), 10, confidence=0.9)
    by_hand = stats.proportion_bound(
        hits, n, confidence=1 - 0.1 / 10 / 2, side="both", method="any-time"
    )
    assert np.allclose(found.lower, by_hand.lower, rtol=0, atol=1e-12)
    assert np.allclose(found.upper, by_hand.upper, rtol=0, atol=1e-12)
    assert (found.confidence, found.about.jointly) == (0.9, True)
    worst = worst_of(found)
    assert (worst.value, worst.n) == (40 / 64, 192)
    assert (worst.lower, worst.upper) == (by_hand.lower[2], by_hand.upper[2])
    assert worst.about.estimand == "leak probability, largest of 3"


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
        worst = worst_of(found.each)
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
    calls, bounded = [], following.watched

    def counted(*args: Any, **how: Any) -> stats.Estimate:
        calls.append(args)
        return bounded(*args, **how)

    monkeypatch.setattr(following, "watched", counted)
    seen = SeenParts()
    put(growing, finished, 0)
    first, same = (follow(Run.open(growing), seen).so_far for _ in range(2))
    assert first == same
    assert len(calls) == 1
    put(growing, finished, 1)
    assert follow(Run.open(growing), seen).so_far != first
    assert len(calls) == 2
