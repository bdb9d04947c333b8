"""What every bound about a pool of queries promises: one row each, under all six pools."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from leakbound import stats
from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Pool,
    pool_expectation_deviation_bound,
    pool_leak_at_k_bound,
    pool_mean_bound,
    pool_proportion_bound,
    pool_std_bound,
    pool_survival_bound,
)
from leakbound.stats.pool import LAWS

PoolBound = Callable[..., Estimate]
BINARY: dict[str, PoolBound] = {
    "proportion": pool_proportion_bound,
    "leak@3, binary": partial(pool_leak_at_k_bound, k=3, binary=True),
}
GRADED: dict[str, PoolBound] = {
    "mean": pool_mean_bound,
    "tail": partial(pool_survival_bound, x=0.3),
    "tail, paper": partial(pool_survival_bound, x=0.3, method="paper"),
    "leak@3": partial(pool_leak_at_k_bound, k=3),
    "standard deviation": pool_std_bound,
    "mean + sd": partial(pool_expectation_deviation_bound, rho=1.0),
}
BOUNDS = BINARY | GRADED
HOLDS_FOR = {  # the laws of draws that a bound holds for, where not for all
    "tail": {"iid", "clusters"},
    "tail, paper": {"iid", "clusters"},
    "leak@3": {"iid", "clusters"},
    "standard deviation": {"iid"},
    "mean + sd": {"iid"},
}
QUERIES = 24
ROWS = [
    (name, design, target)
    for name in BOUNDS
    for (target, design), law in LAWS.items()
    if law in HOLDS_FOR.get(name, set(LAWS.values()))
]
every_bound = pytest.mark.parametrize(("name", "design", "target"), ROWS)


def drawn(name: str, design: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    scores = rng.beta(1, 3, (QUERIES, 1 if design == "fresh" else 6)).round(2)
    return (scores > 0.4) * 1.0 if name in BINARY else scores


def pool(name: str, design: Any, target: Any, missing: Any = 0) -> Pool:
    return Pool.read(drawn(name, design), missing=missing, design=design, target=target)


@every_bound
def test_ends_enclose_the_value_and_the_other_end_is_trivial(
    name: str, design: str, target: str
) -> None:
    made = {s: BOUNDS[name](pool(name, design, target), side=s) for s in ("upper", "lower", "both")}
    largest = {"standard deviation": 0.5, "mean + sd": (1 + 2**0.5) / 2}.get(name, 1.0)
    assert made["upper"].lower == 0
    assert made["lower"].upper == pytest.approx(largest)
    for side, each in made.items():
        assert 0 <= each.lower <= each.value <= each.upper <= largest + 1e-12
        assert (each.side, each.confidence) == (side, 0.99)
        assert each.n == drawn(name, design).size


@every_bound
def test_more_confidence_is_wider(name: str, design: str, target: str) -> None:
    made = [BOUNDS[name](pool(name, design, target), confidence=c).upper for c in (0.5, 0.9, 0.999)]
    assert made == sorted(made)
    assert made[0] < made[-1]


@every_bound
def test_both_ends_split_alpha(name: str, design: str, target: str) -> None:
    given = pool(name, design, target)
    both = BOUNDS[name](given, confidence=0.9, side="both")
    upper = BOUNDS[name](given, confidence=0.95, side="upper").upper
    assert both.upper == pytest.approx(upper, abs=1e-9)
    lower = BOUNDS[name](given, confidence=0.95, side="lower").lower
    assert both.lower == pytest.approx(lower, abs=1e-9)


@every_bound
def test_counts_and_order_are_only_notation(name: str, design: Any, target: Any) -> None:
    scores, rng = drawn(name, design), np.random.default_rng(1)
    plain = BOUNDS[name](pool(name, design, target), side="both")
    turned = rng.permuted(scores[rng.permutation(QUERIES)], axis=1)
    values = np.unique(scores)
    counts = (scores[:, :, None] == values).sum(axis=1)
    padded = np.append(np.tile(values, (QUERIES, 1)), np.full((QUERIES, 1), np.nan), axis=1)
    for other in (
        Pool.read(turned, design=design, target=target),
        Pool.read(padded, np.pad(counts, ((0, 0), (0, 1))), design=design, target=target),
    ):
        made = BOUNDS[name](other, side="both")
        for end in ("value", "lower", "upper"):
            assert getattr(made, end) == pytest.approx(getattr(plain, end), abs=1e-12)


@every_bound
def test_missing_draws_count_against_the_claim(name: str, design: str, target: str) -> None:
    gone: Any = 4
    scores, plain = drawn(name, design), BOUNDS[name](pool(name, design, target), side="both")
    counts = np.ones(scores.shape, int)
    if design == "fresh":  # an output has a score or is missing
        counts[:2], gone = 0, np.arange(QUERIES) < 2
    given: Any = {"design": design, "target": target}
    made = BOUNDS[name](Pool.read(scores, counts, gone, **given), side="both")
    total = int(np.sum(np.broadcast_to(gone, QUERIES)))
    assert (made.missing, made.n) == (total, counts.sum() + total)
    if name in ("standard deviation", "mean + sd"):
        assert made.upper > plain.upper
        return
    for end, score in (("upper", 1.0), ("lower", 0.0)):
        filled = np.where(counts > 0, scores, score)
        extra = np.full((QUERIES, 0 if design == "fresh" else 4), score)
        full = BOUNDS[name](Pool.read(np.append(filled, extra, axis=1), **given), side="both")
        assert getattr(made, end) == pytest.approx(getattr(full, end), abs=1e-12)


@every_bound
def test_a_bound_says_what_it_is_about_and_goes_into_json(
    name: str, design: str, target: str
) -> None:
    made = BOUNDS[name](pool(name, design, target))
    about = "of these 24 queries" if target == "queries" else "over the input distribution"
    assert made.target == f"a completion {about} under this decoding"
    assert json.loads(json.dumps(made.to_dict()))["target"] == made.target


@every_bound
@pytest.mark.parametrize(
    ("how", "message"), [({"confidence": 1.0}, "strictly"), ({"side": "top"}, "'both'")]
)
def test_bad_input_is_refused(
    name: str, design: str, target: str, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        BOUNDS[name](pool(name, design, target), **how)


def test_a_row_for_every_pool_and_every_listed_bound() -> None:
    used = {getattr(bound, "func", bound) for bound in BOUNDS.values()}
    assert used == {one.bound for one in stats.BOUNDS.values() if one.evidence == "pool"}
    assert {(design, target) for _, design, target in ROWS} == {(d, t) for t, d in LAWS}
    assert len(LAWS) == 6
