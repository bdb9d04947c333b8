"""Bounds of outputs shared among queries, where the law of every query is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leakbound import stats
from leakbound.evaluation.drawing.queries import share
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.pooled import Pooled
from leakbound.store import ArmScores, QueryShares
from leakbound.types import Query

TRIALS, QUERIES = 1000, 8


def asked(sizes: list[int]) -> list[Query]:
    return [
        Query(
            id=f"p{i}" if not j else f"p{i}~{j - 1:02d}",
            prompt_id=f"p{i}",
            text="?",
            source="rules" if j else "original",
        )
        for i, size in enumerate(sizes)
        for j in range(size)
    ]


def drawn(
    queries: list[Query], sharing: QueryShares, p: dict[str, float], seed: int = 0
) -> ArmScores:
    """Scores of 0 and 1 that leak with the given chances."""
    rng = np.random.default_rng(seed)
    tallies: dict[str, dict[float | None, int]] = {}
    for query in queries:
        n = sharing.draws_per_query.get(query.id, 0)
        if n:
            hits = int(rng.binomial(n, p[query.id]))
            tallies[query.id] = {k: v for k, v in {0.0: n - hits, 1.0: hits}.items() if v}
    return ArmScores.tallied(tallies, {})


def pooled(design: stats.Design, sizes: list[int], n: int, **more: Any) -> tuple[Pooled, Any]:
    """Pools of heterogeneous queries, and the truth of each question."""
    queries, rng = asked(sizes), np.random.default_rng(1)
    chances = rng.beta(0.1, 0.9, size=len(queries))
    p = dict(zip((q.id for q in queries), chances.tolist(), strict=True))
    sharing = share(queries, design, n, 0)
    known = Pooled.of(drawn(queries, sharing, p), queries, sharing, more.get("binary", True))
    truth = [
        float(np.mean([p[q.id] for q in queries if q.prompt_id == prompt]))
        for prompt in known.members
    ]
    return known, np.array(truth)


@pytest.mark.parametrize("design", ["allocated", "fixed"])
@pytest.mark.thorough
def test_bounds_given_these_queries_hold(design: stats.Design) -> None:
    known, truth = pooled(design, [QUERIES] * TRIALS, 64)
    found = known.leakage(confidence=0.9, side="both")
    assert found.target == "a completion of these queries under this decoding"
    assert found.estimand == "leak probability"
    above, below = (truth > found.upper).mean(), (truth < found.lower).mean()
    assert above < 0.05 + 0.02
    assert below < 0.05 + 0.02
    assert np.mean(found.value) == pytest.approx(truth.mean(), abs=0.01)
    mean = known.mean(confidence=0.9, side="both")
    assert mean.lower <= truth.mean() <= mean.upper
    assert "the mean over these questions" in mean.target
    assert "asked in all their queries" in mean.target


def test_a_pool_of_allocated_outputs_is_one_sample() -> None:
    known, _ = pooled("allocated", [4, 1, 6], 40)
    each = {e.estimand: e for e in known.each(0.99)}
    for i, ids in enumerate(known.members.values()):
        rows = known.asked.of(set(ids))
        full = np.zeros((len(ids), 2)), np.zeros((len(ids), 2), dtype=np.int64)
        for row, query_id in enumerate(rows.query_ids):
            full[0][ids.index(query_id)] = rows.scores[row]
            full[1][ids.index(query_id)] = rows.counts[row]
        pool = stats.Pool.read(*full, design="allocated")
        leak = stats.pool_proportion_bound(pool, confidence=0.99, side="both")
        found = each["leak probability"]
        assert (found.lower[i], found.upper[i]) == (leak.lower, leak.upper)
        hits = int((full[0] * full[1]).sum())
        spread = stats.std_proportion_bound(hits, 40, confidence=0.99, side="both")
        assert each["standard deviation"].upper[i] == spread.upper
    assert known.pools == (4, 1, 6)


def test_a_fixed_pool_has_no_statement_about_deviation_or_tails() -> None:
    known, _ = pooled("fixed", [4, 4], 40)
    *each, worst = known.each(0.99)
    assert [e.estimand for e in each] == ["leak probability", "leak@k"]
    ranged, _ = pooled("fixed", [4, 4], 40, binary=False)
    assert [e.about.quantity for e in ranged.each(0.99)] == ["mean leakage"] * 2
    about = [e.estimand for e in known.together(0.99)]
    assert not any(name.startswith("leak@") for name in about)
    assert {e.target for e in each} == {"a completion of these queries under this decoding"}
    assert worst.about.inputs == "worst query"


@pytest.mark.parametrize("binary", [True, False])
def test_every_question_counts_alike_however_many_queries_it_has(binary: bool) -> None:
    queries = asked([1, 9])
    sharing = share(queries, "fixed", 900, 0)
    p = {q.id: 0.9 if q.prompt_id == "p0" else 0.1 for q in queries}
    known = Pooled.of(drawn(queries, sharing, p), queries, sharing, binary)
    mean = known.mean(confidence=0.99, side="both")
    assert mean.value == pytest.approx(0.5, abs=0.05)
    assert 0.4 < mean.lower < 0.5 < mean.upper < 0.6
    uneven = QueryShares("fixed", {q.id: 900 if q.prompt_id == "p0" else 10 for q in queries})
    again = Pooled.of(drawn(queries, uneven, p), queries, uneven, binary)
    assert again.mean(confidence=0.99, side="both").value == pytest.approx(0.5, abs=0.05)


def test_a_query_without_outputs_is_anything_and_the_worst_may_be_it() -> None:
    queries = asked([3])
    sharing = QueryShares("allocated", {"p0": 50, "p0~00": 0, "p0~01": 50})
    scores = drawn(queries, sharing, {"p0": 0.0, "p0~01": 1.0})
    known = Pooled.of(scores, queries, sharing, True)
    assert known.pools == (3,)
    ids, each = known.each_query(0.99)
    assert ids == ("p0", "p0~00", "p0~01")
    assert (each.lower[1], each.upper[1]) == (0.0, 1.0)
    assert each.n.tolist() == [50, 0, 50]
    assert each.upper[0] < 0.15
    assert each.lower[2] > 0.85
    worst = known.worst_queries(confidence=0.99, side="both")
    assert worst.estimand == "leak probability, worst query"
    assert worst.upper.tolist() == [1.0]
    alone = Fixed(scores.of({"p0~01"}), True).leakage(confidence=0.99, side="both")
    assert 0.8 < worst.lower[0] < alone.lower[0]  # it has paid for the choice
    (of_all,) = [e for e in known.together(0.99) if e.about.inputs == "worst query"]
    assert of_all.upper == 1.0


def test_a_question_with_a_failed_query_is_left_out() -> None:
    queries = asked([2, 2])
    sharing = QueryShares("allocated", dict.fromkeys((q.id for q in queries), 5))
    there = [q for q in queries if q.id != "p0~00"]
    scores = drawn(there, sharing, dict.fromkeys((q.id for q in queries), 0.5))
    known = Pooled.of(scores, queries, sharing, True)
    assert known.scores.query_ids == ("p1",)
    assert known.scores.n.tolist() == [10]


def test_fresh_is_about_the_input_distribution() -> None:
    queries = asked([31, 11])
    sharing = share(queries, "fresh", 30, 0)
    p = dict.fromkeys((q.id for q in queries), 0.3)
    fresh = [q for q in queries if q.id in sharing.draws_per_query]
    known = Pooled.of(drawn(fresh, sharing, p), fresh, sharing, True)
    assert known.scores.n.tolist() == known.leakage(confidence=0.9, side="both").n.tolist()
    assert known.scores.n.tolist() == [30, 10]
    assert {e.target for e in known.each(0.9)} == {
        "a completion over the input distribution under this decoding"
    }
    assert "standard deviation" in {e.estimand for e in known.each(0.9)}
    assert not known.has_queries
    assert all("over the input distribution" in e.target for e in known.together(0.9))


def test_draws_without_a_score_count_in_the_pool() -> None:
    queries = asked([2])
    sharing = QueryShares("allocated", {"p0": 4, "p0~00": 6})
    scores = ArmScores.tallied({"p0": {0.0: 3, None: 1}, "p0~00": {1.0: 4}}, {"p0~00": 2})
    known = Pooled.of(scores, queries, sharing, True)
    assert known.scores.missing.tolist() == [3]
    assert known.scores.n.tolist() == [10]
    found = known.leakage(confidence=0.9, side="both")
    assert found.missing.tolist() == [3]
    assert found.upper[0] >= 0.7
