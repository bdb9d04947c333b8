"""The tail of an arm: the right counts reach the right bound, and nothing less than a whole arm."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from contents import counts
from explored import explored_run
from leakbound import stats
from leakbound.bounding.claims import tail_of
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
    """How often each question drew this text."""
    tally = counts(run.arms["target"], "query_id", "answer")
    return [tally[q.id, text] for q in run.queries]


@pytest.mark.slow
def test_a_binary_tail_counts_the_leaks_of_every_question(run: Run) -> None:
    tail = tail_of(run, "target", make_scorer("keyword"), 0.0)
    leaks = drawn(run, f"{SECRET} wrote it")
    assert 0 < leaks[1] < leaks[2]
    assert tail.questions == 3
    for side in ("upper", "lower", "both"):
        each, mean = (bound(confidence=0.9, side=side) for bound in (tail.each, tail.mean))
        want = stats.bound(stats.Rows.of_hits(leaks, 256), confidence=0.9, side=side)
        np.testing.assert_array_equal([each.lower, each.upper], [want.lower, want.upper])
        whole = stats.bound(
            stats.Rows.of_hits(leaks, 256), stats.LEAKAGE.mean(), confidence=0.9, side=side
        )
        assert (mean.lower, mean.upper, mean.n) == (whole.lower, whole.upper, 768)
        assert each.estimand == "leak probability"


@pytest.mark.parametrize(("x", "texts"), [(0.0, 2), (0.49, 2), (0.5, 1), (0.99, 1), (1.0, 0)])
def test_a_tail_is_what_scores_more_than_x(run: Run, x: float, texts: int) -> None:
    """ROUGE-L recall is 1 for the answer, 1/2 for "Ossian it was", 0 for the rest."""
    tail = tail_of(run, "target", make_scorer("rouge-l-recall"), x)
    above = [f"{SECRET} wrote it", "Ossian it was"][:texts]
    want = np.sum([drawn(run, text) for text in above], axis=0) if above else np.zeros(3)
    each = tail.each(confidence=0.9, side="upper")
    np.testing.assert_array_equal(np.asarray(each.value) * 256, want)
    assert each.estimand == ("leak probability" if x == 0 else f"Pr[X > {x:g}]")


def test_draws_without_a_score_count_against_the_claim(run: Run) -> None:
    def forget(rows: list[dict[str, Any]]) -> None:
        row = next(row for row in rows if row["query_id"] == "q1" and row["score"] == 0)
        row["score"] = None

    (file,) = (run.path / "arms" / "target" / "scores").glob("keyword*")
    rewrite(file, forget)
    tail = tail_of(run, "target", make_scorer("keyword"), 0.0)
    scores = run.arms["target"].scores(slug(make_scorer("keyword")))
    assert scores.missing[1] > 0
    how = {"confidence": 0.99, "side": "both"}
    each, mean = tail.each(**how), tail.mean(**how)
    want = stats.bound(stats.Rows.of_hits(scores.hits, 256, scores.missing), **how)
    np.testing.assert_array_equal([each.lower, each.upper], [want.lower, want.upper])
    whole = stats.bound(
        stats.Rows.of_hits(scores.hits, 256, scores.missing), stats.LEAKAGE.mean(), **how
    )
    assert (mean.lower, mean.upper, mean.missing) == (whole.lower, whole.upper, whole.missing)


def test_what_has_no_tail(run: Run) -> None:
    keyword = make_scorer("keyword")
    with pytest.raises(InputError, match=r"no arm 'other'.*one of these: target"):
        tail_of(run, "other", keyword, 0.0)
    with pytest.raises(InputError, match=r"arm 'greedy' .* known exactly"):
        tail_of(run, "greedy", keyword, 0.0)
    with pytest.raises(InputError, match=r"no scores of 'contains'.*`leakbound score` first"):
        tail_of(run, "target", make_scorer("contains"), 0.0)


def test_part_of_an_arm_has_no_tail(run: Run, tmp_path: Path) -> None:
    """A part that was changed or is gone, questions without draws, and one that failed."""
    keyword, aside = make_scorer("keyword"), tmp_path / "aside"
    (part,) = (run.path / "arms" / "target" / "completions").iterdir()
    shutil.copy(part, aside)
    pq.write_table(pq.read_table(part).slice(1), part)
    with pytest.raises(DamagedError, match="was changed after it was written"):
        tail_of(run, "target", keyword, 0.0)
    part.unlink()
    with pytest.raises(IncompleteError, match="lacks 1 of 1 parts"):
        tail_of(run, "target", keyword, 0.0)
    shutil.copy(aside, part)
    rewrite(part, lambda rows: rows.__setitem__(slice(None), [rows[0]]))
    score_run(run, scorers_for(["keyword"], run.prompts))
    with pytest.raises(IncompleteError, match="draws of 1 of its 3 questions"):
        tail_of(run, "target", keyword, 0.0)
    with pytest.raises(IncompleteError):
        evaluate(engine(broken=["q1"]), benchmark(), out=tmp_path / "failed", n=16)
    with pytest.raises(IncompleteError, match=r"question 'q1'.*logits are NaN"):
        tail_of(load(tmp_path / "failed"), "target", keyword, 0.0)


@pytest.mark.parametrize("x", [0.0, 0.5])
def test_an_arm_that_stopped_early_has_any_time_bounds(x: float, tmp_path: Path) -> None:
    scorer = "rouge-l-recall" if x else "keyword"
    run = leaky_run(tmp_path / "run", sampling=Until("p<=0.1", N), scorers=["keyword", scorer])
    scores = run.arms["target"].scores(slug(make_scorer("keyword")))
    assert len(set(scores.n)) > 1
    tail = tail_of(run, "target", make_scorer(scorer), x)
    each = tail.each(confidence=0.99, side="both")
    want = stats.bound(stats.Stopped(stats.Rows.of_hits(scores.hits, scores.n), 256), side="both")
    np.testing.assert_array_equal([each.lower, each.upper], [want.lower, want.upper])
    assert each.estimand == (f"Pr[X > {x:g}]" if x else "leak probability")
    (run.path / "arms" / "target" / "looks.json").unlink()
    with pytest.raises(IncompleteError, match="not decided"):
        tail_of(load(run.path), "target", make_scorer(scorer), x)


def test_an_explored_arm_has_its_masses_and_draws(tmp_path: Path) -> None:
    run = explored_run(tmp_path / "run")
    tail = tail_of(run, "target", make_scorer("contains"), 0.0)
    each = tail.each(confidence=0.99, side="both")
    inside = stats.bound(stats.Rows.of_hits(20, 100), side="both")
    assert each.lower[0] == pytest.approx(0.33 + 0.07 * inside.lower)
    assert each.upper[0] == pytest.approx(0.33 + 0.07 * inside.upper + 0.05)
    assert (each.lower[2], each.upper[2]) == (0.0, pytest.approx(0.45))
    (masses,) = (run.path / "arms" / "target" / "masses").iterdir()
    pq.write_table(pq.read_table(masses).slice(1), masses)
    with pytest.raises(DamagedError, match="was changed after it was written"):
        tail_of(run, "target", make_scorer("contains"), 0.0)


class Single:
    """Scores in single precision: .3 and .7, as a model's float32 gives them."""

    name, binary = "single", False

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [np.float32(0.7 if SECRET in text else 0.3) for text in texts]


def test_stored_float32_scores_meet_a_threshold_as_they_are_printed(run: Run) -> None:
    """Above .3, at least .7, and above .6 are the same draws."""
    at_least = Threshold(Single(), 0.7)
    score_run(run, [Single(), at_least])
    leaks = drawn(run, f"{SECRET} wrote it")
    tails = [tail_of(run, "target", Single(), x) for x in (0.3, 0.6)]
    for tail in (*tails, tail_of(run, "target", at_least, 0.0)):
        each = tail.each(confidence=0.9, side="both")
        assert each.value == pytest.approx(np.array(leaks) / 256)
    none = tail_of(run, "target", Single(), 0.7).each(confidence=0.9, side="both")
    assert not np.asarray(none.value).any()
