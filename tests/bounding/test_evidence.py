"""Results of each kind of evidence: explored questions, and pools; none counts twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from canned import queries_of
from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.pooled import Pooled
from leakbound.drawing.queries import share
from leakbound.stats import Rows, betting, bound, ed
from leakbound.stats.betting import bounds_cached
from leakbound.store import QueryShares
from leakbound.store.scores import tallied_rows
from leakbound.types import Query

Known = tuple[stats.Mass, Mapping[float | None, int]]


def masses(p: Sequence[float], low: Sequence[float], high: Sequence[float], r: float) -> stats.Mass:
    return stats.Mass(np.array(p), np.array(low), np.array(high), r)


def explored(*known: Known, binary: bool = False) -> Drawn:
    """The evidence per question: its masses, and the counts of the scores of its draws."""
    tallies = {f"q{i}": tally for i, (_, tally) in enumerate(known)}
    rows = tallied_rows(tallies, {}, binary=binary)
    return Drawn(stats.Masses.of([one for one, _ in known], rows))


BINARY: list[Known] = [
    (masses([0.5, 0.1], [0, 1], [0, 1], 0.3), {0.0: 40, 1.0: 3, None: 2}),
    (masses([0.9, 0.05], [0, 0], [0, 1], 0.0), {}),  # explored completely, an event undecided
    (masses([0.4, 0.2], [0, 1], [0, 1], 0.2), {}),  # no draws from its remainder
    (masses([], [], [], 1.0), {0.0: 30}),  # not explored
]
RANGED: list[Known] = [
    (masses([0.5, 0.1], [0, 0.6], [0.2, 1], 0.3), {0.0: 40, 0.5: 3, None: 2}),
    (masses([0.9, 0.05], [0.3, 0], [0.3, 1], 0.0), {}),
    (masses([0.4, 0.2], [0, 1], [0, 1], 0.2), {}),
    (masses([], [], [], 1.0), {0.0: 30, 0.7: 1}),
]


def test_every_quantity_is_made_once() -> None:
    binary = [e.about.quantity for e in explored(*BINARY, binary=True).each(0.99)]
    assert binary == ["leak probability", "leak@k", "standard deviation"]
    ranged = [e.about.quantity for e in explored(*RANGED).each(0.99)]
    assert ranged == ["mean leakage", "tail", "leak@k", "standard deviation"]
    together = explored(*BINARY, binary=True).together(0.9)
    assert [(e.confidence, e.side) for e in together] == [(0.9, "both")] * 3


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("known", [BINARY, RANGED])
def test_the_mean_is_its_certain_part_and_a_weighted_mean_of_remainders(
    known: list[Known], side: stats.Side
) -> None:
    how: dict[str, Any] = {"confidence": 0.95, "side": side}
    one = explored(*known, binary=known is BINARY)
    got = one.mean(**how)
    weights = np.array([0.3, 1.0])  # mean over the two questions with draws
    rows = one.draws.only(np.array([True, False, False, True]))
    seed = one.order(["q0", "q3"])
    inside = stats.bound(rows, stats.LEAKAGE.mean(weights), seed=seed, **how)
    low = sum(float(m.p @ m.low) for m, _ in known) / 4
    high = sum(float(m.p @ m.high) for m, _ in known) / 4
    slack = (0.1 + 0.05 + 0.4) / 4  # the third question's remainder is unknown
    share = weights.sum() / 4
    if side != "upper":
        assert got.lower == pytest.approx(low + share * inside.lower, abs=1e-12)
    if side != "lower":
        assert got.upper == pytest.approx(high + slack + share * inside.upper, abs=1e-12)
    assert (got.lower == 0, got.upper == 1) == (side == "upper", side == "lower")
    value = ((low + high) / 2 + share * inside.value) / (1 - slack)
    assert got.value == pytest.approx(value, abs=1e-12)
    assert (got.confidence, got.n, got.missing) == (0.95, rows.n.sum(), 2)
    assert got.method == f"exact mass + {inside.method}"


def drawn(
    queries: list[Query], sharing: QueryShares, p: dict[str, float], *, binary: bool = True
) -> stats.Rows:
    """Return scores of 0 and 1 that leak with the given chances."""
    rng = np.random.default_rng(0)
    tallies: dict[str, dict[float | None, int]] = {}
    for query in queries:
        n = sharing.draws_per_query.get(query.id, 0)
        if n:
            hits = int(rng.binomial(n, p[query.id]))
            tallies[query.id] = {k: v for k, v in {0.0: n - hits, 1.0: hits}.items() if v}
    return tallied_rows(tallies, {}, binary=binary)


def pooled(design: stats.Design, sizes: list[int], n: int, **more: Any) -> tuple[Pooled, Any]:
    """Pools of heterogeneous queries, and the truth of each question."""
    queries, rng = queries_of(*sizes), np.random.default_rng(1)
    chances = rng.beta(0.1, 0.9, size=len(queries))
    p = dict(zip((q.id for q in queries), chances.tolist(), strict=True))
    sharing = share(queries, design, n, 0)
    known = Pooled.of(drawn(queries, sharing, p, **more), queries, sharing)
    truth = [
        float(np.mean([p[q.id] for q in queries if q.prompt_id == prompt]))
        for prompt in known.members
    ]
    return known, np.array(truth)


def test_a_pool_of_allocated_outputs_is_one_sample() -> None:
    known, _ = pooled("allocated", [4, 1, 6], 40)
    each = {(e.about.quantity, e.about.inputs): e for e in known.each(0.99)}
    for i, ids in enumerate(known.members.values()):
        rows = known.pool.rows.among(ids)
        full = np.zeros((len(ids), 2)), np.zeros((len(ids), 2), dtype=np.int64)
        for row, query_id in enumerate(rows.ids):
            full[0][ids.index(query_id)] = rows.values[row]
            full[1][ids.index(query_id)] = rows.counts[row]
        pool = stats.Pool.of(stats.Rows.of(*full, binary=True, empty=True), design="allocated")
        leak = stats.bound(pool, confidence=0.99, side="both")
        got = each["leak probability", "these queries"]
        assert (got.lower[i], got.upper[i]) == (leak.lower, leak.upper)
        hits = int((full[0] * full[1]).sum())
        spread = stats.bound(stats.Rows.of_hits(hits, 40), stats.SD, confidence=0.99, side="both")
        assert each["standard deviation", "these queries"].upper[i] == spread.upper
    assert known.pool.queries == (4, 1, 6)


def test_a_query_without_outputs_may_be_the_worst() -> None:
    queries = queries_of(3)
    sharing = QueryShares("allocated", {"p0": 50, "p0~00": 0, "p0~01": 50})
    scores = drawn(queries, sharing, {"p0": 0.0, "p0~01": 1.0})
    known = Pooled.of(scores, queries, sharing)
    assert known.pool.queries == (3,)
    ids, each = known.each_query(0.99)
    assert ids == ("p0", "p0~00", "p0~01")
    assert (each.lower[1], each.upper[1]) == (0.0, 1.0)
    assert each.n.tolist() == [50, 0, 50]
    assert each.upper[0] < 0.15
    assert each.lower[2] > 0.85
    worst = known.worst_queries(confidence=0.99, side="both")
    assert worst.estimand == "leak probability, worst query"
    assert worst.upper.tolist() == [1.0]
    alone = Drawn(scores.among({"p0~01"})).leakage(confidence=0.99, side="both")
    assert 0.8 < worst.lower[0] < alone.lower[0]  # the interval is corrected for the selection
    (of_all,) = [e for e in known.together(0.99) if e.about.inputs == "worst query"]
    assert of_all.upper == 1.0


def test_draws_without_a_score_count_in_the_pool() -> None:
    queries = queries_of(2)
    sharing = QueryShares("allocated", {"p0": 4, "p0~00": 6})
    tallies: dict[str, dict[float | None, int]] = {"p0": {0.0: 3, None: 1}, "p0~00": {1.0: 4}}
    scores = tallied_rows(tallies, {"p0~00": 2}, binary=True)
    known = Pooled.of(scores, queries, sharing)
    assert known.draws.missing.tolist() == [3]
    assert known.draws.n.tolist() == [10]
    got = known.leakage(confidence=0.9, side="both")
    assert got.missing.tolist() == [3]
    assert got.upper[0] >= 0.7


def test_no_race_runs_twice_or_ends_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).uniform(size=(3, 40))
    how: dict[str, Any] = {"confidence": 0.98, "side": "upper", "seed": [1, 2, 3]}
    races: list[float] = []
    least = betting.least_rejected
    monkeypatch.setattr(
        betting, "least_rejected", lambda *given: races.append(given[3]) or least(*given)
    )
    alone = (
        bound(Rows.of(scores), **how),
        bound(Rows.of(scores), ed(), **how | {"confidence": 0.96}),
    )
    assert len(races) == 3  # the mean and the deviation, each at half of alpha
    with bounds_cached():
        races.clear()
        again = (
            bound(Rows.of(scores), **how),
            bound(Rows.of(scores), ed(), **how | {"confidence": 0.96}),
        )
        assert len(races) == 2
        bound(Rows.of(scores[:, ::-1][:, :39]), **how)
        bound(Rows.of(scores), **how | {"confidence": 0.9})
        assert len(races) == 4
    bound(Rows.of(scores), **how)
    assert len(races) == 5  # the cached races are deleted
    for one, other in zip(alone, again, strict=True):
        np.testing.assert_array_equal(one.upper, other.upper)
