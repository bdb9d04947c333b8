"""Every bound against 50-digit references, within 1e-12 unless the reference states otherwise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from stretches import EXTRAS, GOLDEN, SCORES, early, label, spread_order

from leakbound.stats import (
    LEAKAGE,
    SD,
    Mass,
    Masses,
    Quantity,
    Rows,
    Stopped,
    bound,
    excess_of,
    expectation_deviation,
    gaps_over_questions,
    leak_at,
    leak_at_k,
    samples_for,
    tail,
)
from leakbound.stats.betting import USUAL, DrawBets, first_accepted, mean_upper
from leakbound.stats.mean_over_questions import POOLED
from leakbound.stats.portfolio import Portfolio
from leakbound.stats.portfolio import mean_upper as portfolio_upper
from leakbound.stats.tail import berk_jones


def exactly(value: str, tol: float = 1e-12) -> Any:
    return pytest.approx(float(value), rel=tol, abs=tol)


def cases(section: dict[str, Any], key: str = "cases") -> Any:
    return pytest.mark.parametrize("case", section[key], ids=label)


def confidence(case: dict[str, Any]) -> float:
    return 1 - float(case["alpha"])


def tally(case: dict[str, Any]) -> Rows:
    return Rows.of_hits(case["s"], case["n"])


def at_k(case: dict[str, Any]) -> Quantity:
    return leak_at(case["k"])


Make = Callable[[dict[str, Any]], Any]
BOTH: dict[str, tuple[list[Any], Make, Make, str, float]] = {
    "proportion": (
        GOLDEN["clopper_pearson"]["cases"], tally, lambda _: LEAKAGE, "lower_one_sided", 1e-11,
    ),
    "leak@k": (GOLDEN["leak_at_k_interval"]["binary"], tally, at_k, "lower_one_sided", 1e-12),
    "leak@k over DKW": (
        GOLDEN["leak_at_k_interval"]["dkw_band"], lambda c: Rows.of(SCORES[c["set"]]), at_k,
        "lower", 1e-12,
    ),
    "stopped leak@k": (
        EXTRAS["stopped_leak_at_k"]["cases"], lambda c: Stopped(tally(c), c["cap"]), at_k,
        "lower", 1e-9,
    ),
}  # fmt: skip
"""Cases, their evidence and quantity, the name of the reference of the lower bound, tolerance."""


@pytest.mark.parametrize("name", BOTH)
def test_one_sided_bounds(name: str) -> None:
    given, evidence, quantity, lower, tolerance = BOTH[name]
    method: Literal["paper"] | None = "paper" if "DKW" in name else None
    for case in given:
        how: dict[str, Any] = {"confidence": confidence(case), "method": method}
        for side, key in (("upper", "upper"), ("lower", lower)):
            made = bound(evidence(case), quantity(case), side=side, **how)
            assert getattr(made, side) == exactly(case[key], tolerance), label(case)


@cases(GOLDEN["dkw_general_leakage"])
def test_tail_over_dkw(case: dict[str, Any]) -> None:
    scores, x = SCORES[case["set"]], [float(v["x"]) for v in case["values"]]
    kwargs = {"confidence": confidence(case), "method": "paper"}
    one, two = (bound(Rows.of(scores), tail(x), side=s, **kwargs) for s in ("upper", "both"))
    for i, value in enumerate(case["values"]):
        assert one.upper[i] == exactly(value["upper"])
        assert [two.lower[i], two.upper[i]] == [exactly(v) for v in value["two_sided"]]
        assert one.value[i] == exactly(str(float(1 - Fraction(value["Fn"]))))


@cases(GOLDEN["dkw_sample_size"])
def test_sample_size(case: dict[str, Any]) -> None:
    epsilon = float(case["eps"])
    assert samples_for(epsilon, confidence(case), "upper") == case["n_one_sided"]
    assert samples_for(epsilon, confidence(case), "both") == case["n_two_sided"]


@cases(GOLDEN["anderson_mean"])
def test_mean_over_dkw(case: dict[str, Any]) -> None:
    scores, kwargs = SCORES[case["set"]], {"confidence": confidence(case), "method": "paper"}
    assert bound(Rows.of(scores), side="upper", **kwargs).upper == exactly(
        case["one_sided"]["upper_opt"]
    )
    lower = bound(Rows.of(scores), side="lower", **kwargs)
    assert lower.lower == exactly(case["one_sided"]["lower_opt"])
    both = bound(Rows.of(scores), side="both", **kwargs)
    assert both.lower == exactly(case["two_sided"]["lower_opt"])
    assert both.upper == exactly(case["two_sided"]["upper_opt"])
    assert both.value == exactly(case["mean"])


@cases(GOLDEN["std_bound"])
def test_deviation_over_dkw(case: dict[str, Any]) -> None:
    scores, kwargs = SCORES[case["set"]], {"confidence": confidence(case), "side": "upper"}
    paper = bound(Rows.of(scores), SD, method="paper", **kwargs)
    assert paper.upper == exactly(case["band_exact_std"], 1e-10)


@cases(GOLDEN["ed_score"])
def test_expectation_deviation(case: dict[str, Any]) -> None:
    scores, rho = SCORES[case["set"]], float(case["rho"])
    assert expectation_deviation(Rows.of(scores), rho) == exactly(case["ed"])
    assert bound(Rows.of(scores), SD, method="paper").value == exactly(case["sd_population"])


@cases(GOLDEN["leak_at_k"])
def test_leak_at_k(case: dict[str, Any]) -> None:
    assert leak_at_k(Rows.of(SCORES[case["set"]]), case["k"]) == exactly(case["value"])


@cases(GOLDEN["leak_at_k"], "binary_large")
def test_binary_leak_at_k(case: dict[str, Any]) -> None:
    assert leak_at_k(Rows.of_hits(case["ones"], case["n"]), case["k"]) == exactly(case["value"])


@cases(EXTRAS["berk_jones_one_sided"])
def test_berk_jones(case: dict[str, Any]) -> None:
    tol = case.get("tol_rel", 1e-12)
    table = berk_jones(case["n"], float(case["alpha"]))
    limits = case["L"] if "L" in case else [case["L_n"]]
    np.testing.assert_allclose(table[-len(limits) :], np.array(limits, float), rtol=tol)
    eta = -np.expm1(case["n"] * np.log1p(-table[1]))  # table[1] = 1 - (1 - eta)^(1/n)
    assert eta == pytest.approx(float(case["eta"]), rel=max(tol, 1e-11))


@cases(EXTRAS["berk_jones_mean"])
def test_mean_and_leak_at_k_over_berk_jones(case: dict[str, Any]) -> None:
    scores, kwargs = SCORES[case["set"]], {"confidence": confidence(case), "side": "upper"}
    mean = bound(Rows.of(scores), leak_at([1]), **kwargs)
    assert mean.upper == exactly(case["mean_upper"], case["tol"])
    for made in (
        bound(Rows.of(scores), leak_at([8]), **kwargs).upper,
        bound(Rows.of(scores), leak_at([2, 8]), **kwargs).upper[1],
    ):
        assert made == exactly(case["leak8_upper"], case["tol"])


@cases(EXTRAS["portfolio_mixture_mean_upper"])
def test_portfolio_mixture(case: dict[str, Any]) -> None:
    section = EXTRAS["portfolio_mixture_mean_upper"]
    portfolio = Portfolio(np.array(section["b"], float), np.array(section["w"], float))
    upper = portfolio_upper(Rows.of(SCORES[case["set"]]), float(case["alpha"]), portfolio)
    assert upper[0] == exactly(case["upper"], section["tol"])


@cases(EXTRAS["jeffreys_truncated_confidence_sequence"])
def test_any_time_proportion(case: dict[str, Any]) -> None:
    s, n, how = case["s"], case["n"], {"confidence": confidence(case)}
    upper = exactly(case["anytime_upper"], 1e-9)
    assert early(Rows.of_hits(s, n), side="upper", **how).upper == upper
    mirror = early(Rows.of_hits(n - s, n), side="lower", **how)
    assert 1 - mirror.lower == upper


@cases(EXTRAS["poisson_binomial_mean_upper"])
def test_proportion_over_questions(case: dict[str, Any]) -> None:
    hits = np.arange(case["n"]) < case["s"]
    n, how = np.ones(case["n"]), {"confidence": confidence(case)}
    made = bound(Rows.of_hits(hits, n), LEAKAGE.mean(), side="upper", **how)
    assert made.upper == exactly(case["upper"])
    mirror = bound(Rows.of_hits(~hits, n), LEAKAGE.mean(), side="lower", **how)
    assert mirror.lower == exactly(str(1 - float(case["upper"])))


@cases(EXTRAS["excess_of_proportions"])
def test_excess_of_two_proportions(case: dict[str, Any]) -> None:
    more = partial(bound, Rows.of_hits(case["s"], case["n"]))
    base = partial(bound, Rows.of_hits(case["control_s"], case["control_n"]))
    for side in ("upper", "lower"):
        made = excess_of(more, base, confidence=confidence(case), side=side)
        assert getattr(made, side) == exactly(case[side], 1e-11)
        assert made.value == exactly(case["value"])
    both = excess_of(more, base, confidence=confidence(case))
    assert [both.lower, both.upper] == [exactly(end, 1e-11) for end in case["both"]]


@cases(EXTRAS["gaps_of_proportions"])
def test_gaps_of_proportions(case: dict[str, Any]) -> None:
    more = partial(bound, Rows.of_hits(case["hits"], case["n"]))
    base = partial(bound, Rows.of_hits(case["own_hits"], case["own_n"]))
    made = gaps_over_questions(more, base, len(case["hits"]), confidence=confidence(case))
    largest, count = made.estimates
    assert largest.lower == exactly(case["largest_lower"], 1e-11)
    assert largest.value == exactly(case["largest_value"])
    assert (count.lower, count.value) == (case["count_lower"], case["count_value"])


@cases(EXTRAS["mass_mean_over_questions"])
def test_mass_mean_over_questions(case: dict[str, Any]) -> None:
    masses = [
        Mass(
            *(np.array(given[part], float) for part in ("p", "low", "high")),
            remainder=float(given["remainder"]),
        )
        for given in case["masses"]
    ]
    widest = max(map(len, case["scores"]))
    counts = [[at < len(row) for at in range(widest)] for row in case["scores"]]
    scores = [[*map(float, row), *[0.0] * (widest - len(row))] for row in case["scores"]]
    sure = confidence(case)
    if case["binary"]:  # the reference is the pooled form, at its part of alpha
        sure = 1 - (1 - sure) / POOLED
    for side in ("upper", "lower"):
        given = scores, counts, case["missing"]
        rows = Rows.of(*given, binary=case["binary"], empty=True)
        made = bound(Masses.of(masses, rows), LEAKAGE.mean(), confidence=sure, side=side)
        assert getattr(made, side) == exactly(case[side], 1e-11)


@cases(EXTRAS["star_mean_upper"])
def test_betting_mean(case: dict[str, Any]) -> None:
    """The reference bets for every candidate of its grid; the bounds must be equal."""
    draws, grid = spread_order(SCORES[case["set"]]), case["grid"]
    alpha, upper = float(case["alpha"]), float(case["upper"])
    rule = DrawBets.of(draws, np.ones_like(draws), USUAL)
    fallen, _ = first_accepted(rule, np.arange(grid - 1, 0, -1) / grid, alpha)
    assert 1 - fallen[0] / grid == pytest.approx(upper, abs=1e-9)
    wide = 0.03 * abs(upper - draws.mean()) + 1 / grid
    assert mean_upper(draws, alpha)[0] == pytest.approx(upper, abs=wide)
