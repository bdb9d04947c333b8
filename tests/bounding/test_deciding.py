"""A claim uses the right counts and the right bound, and covers a whole arm."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from contents import counts
from explored import explored_run
from leakbound import stats
from leakbound.bounding.claims import decisive, evidence_of
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate, score_run, scorers_for
from leakbound.scorers import Threshold, make_scorer
from leakbound.scoring.score import slug
from leakbound.store import DamagedError, Run, load
from leakbound.study import Until
from leakbound.types import Prompt
from leaky import SECRET, N, benchmark, engine, leaky_run, rewrite


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scorers = ["keyword", "rouge-l-recall"]
    return leaky_run(tmp_path_factory.mktemp("tail") / "run", scorers=scorers).path


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Run:
    return load(shutil.copytree(pristine, tmp_path / "run"))


def drawn(run: Run, text: str) -> list[int]:
    """Return the number of draws of this text per question."""
    tally = counts(run.arms["target"], "query_id", "answer")
    return [tally[q.id, text] for q in run.queries]


@pytest.mark.parametrize("among", [None, 6])
def test_each_bound_has_its_part_of_alpha(run: Run, among: int | None) -> None:
    known = evidence_of(run, "target", make_scorer("keyword"))
    rows = stats.Rows.of_hits(drawn(run, f"{SECRET} wrote it"), N)
    alpha = 0.04 if among is None else 0.04 / (2 * 6)
    worst, mean = (
        decisive(known, every=every, confidence=0.96, among=among) for every in (True, False)
    )
    for made in (worst, mean):
        assert made.confidence == pytest.approx(0.92 if among is None else 0.96)
        assert ("Bonferroni over 6" in made.method) is (among is not None)
    for side, share in (("upper", alpha), ("lower", alpha / 3)):
        want = getattr(stats.bound(rows, confidence=1 - share, side=side), side)
        assert getattr(worst, side) == pytest.approx(np.max(want), rel=1e-12)
        mean_of = stats.bound(
            rows, stats.LEAKAGE.mean(), confidence=1 - alpha, side=side, seed=known.keys
        )
        assert getattr(mean, side) == pytest.approx(getattr(mean_of, side), rel=1e-12)


def test_claims_about_missing_arms_are_refused(run: Run) -> None:
    keyword = make_scorer("keyword")
    with pytest.raises(InputError, match=r"no arm 'other'.*one of these: target"):
        evidence_of(run, "other", keyword)
    with pytest.raises(InputError, match=r"no arm 'greedy' that was sampled"):
        evidence_of(run, "greedy", keyword)
    with pytest.raises(InputError, match=r"no scores of 'contains'.*`leakbound score` first"):
        evidence_of(run, "target", make_scorer("contains"))


def test_no_claim_is_about_part_of_an_arm(run: Run, tmp_path: Path) -> None:
    """A changed or missing part, questions without draws, and a failed question."""
    keyword, aside = make_scorer("keyword"), tmp_path / "aside"
    (part,) = (run.path / "arms" / "target" / "completions").iterdir()
    shutil.copy(part, aside)
    pq.write_table(pq.read_table(part).slice(1), part)
    with pytest.raises(DamagedError, match="was changed after it was written"):
        evidence_of(run, "target", keyword)
    part.unlink()
    with pytest.raises(IncompleteError, match="lacks 1 of 1 parts"):
        evidence_of(run, "target", keyword)
    shutil.copy(aside, part)
    rewrite(part, lambda rows: rows.__setitem__(slice(None), [rows[0]]))
    score_run(run, scorers_for(["keyword"], run.prompts))
    with pytest.raises(IncompleteError, match="draws for only 1 of the 3 questions"):
        evidence_of(run, "target", keyword)
    with pytest.raises(IncompleteError):
        evaluate(engine(broken=["q1"]), benchmark(), out=tmp_path / "failed", n=16)
    with pytest.raises(IncompleteError, match=r"question 'q1'.*logits are NaN"):
        evidence_of(load(tmp_path / "failed"), "target", keyword)


def test_an_arm_that_stopped_early_has_any_time_bounds(tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run", sampling=Until("p<=0.1", N))
    rows = run.arms["target"].scores(slug(make_scorer("keyword")), binary=True)
    assert len(set(rows.n)) > 1
    known = evidence_of(run, "target", make_scorer("keyword"))
    each = known.leakage(confidence=0.99, side="both")
    want = stats.bound(stats.Stopped(rows, 256), side="both")
    np.testing.assert_array_equal([each.lower, each.upper], [want.lower, want.upper])
    (run.path / "arms" / "target" / "looks.json").unlink()
    with pytest.raises(IncompleteError, match="not yet decided"):
        evidence_of(load(run.path), "target", make_scorer("keyword"))


def test_an_explored_arm_has_its_masses_and_draws(tmp_path: Path) -> None:
    run = explored_run(tmp_path / "run")
    known = evidence_of(run, "target", make_scorer("contains"))
    each = known.leakage(confidence=0.99, side="both")
    inside = stats.bound(stats.Rows.of_hits(20, 100), side="both")
    assert each.lower[0] == pytest.approx(0.33 + 0.07 * inside.lower)
    assert each.upper[0] == pytest.approx(0.33 + 0.07 * inside.upper + 0.05)
    assert (each.lower[2], each.upper[2]) == (0.0, pytest.approx(0.45))
    (masses,) = (run.path / "arms" / "target" / "masses").iterdir()
    pq.write_table(pq.read_table(masses).slice(1), masses)
    with pytest.raises(DamagedError, match="was changed after it was written"):
        evidence_of(run, "target", make_scorer("contains"))


class Single:
    """Scores in single precision: .3 and .7, as a model's float32 gives them."""

    name, binary = "single", False

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [np.float32(0.7 if SECRET in text else 0.3) for text in texts]


def test_stored_float32_scores_are_read_as_printed(run: Run) -> None:
    at_least = Threshold(Single(), 0.7)
    score_run(run, [Single(), at_least])
    leaks = drawn(run, f"{SECRET} wrote it")
    each = evidence_of(run, "target", at_least).leakage(confidence=0.9, side="both")
    assert each.value == pytest.approx(np.array(leaks) / 256)
