"""What every bound promises, whatever it bounds and by whatever method: one row each."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import pytest

from leakbound import stats
from leakbound.errors import InputError
from leakbound.stats import (
    BOUNDS,
    Estimate,
    ListedBound,
    expectation_deviation_bound,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mean_bound,
    proportion_bound,
    std_bound,
)
from leakbound.stats.leakage import Leakage

Bound = Callable[..., Estimate]


def from_scores(bound: Bound) -> Bound:
    """A bound on hits as a bound on scores, of which those of 1/2 and more are hits."""

    def call(scores: Any, counts: Any = None, *, missing: Any = 0, **kwargs: Any) -> Estimate:
        leakage = Leakage.read(scores, counts, missing)
        hits = (leakage.counts * (leakage.values >= 0.5)).sum(axis=1)
        n = leakage.n
        if leakage.single:
            hits, n = hits[0], n[0]
        return bound(hits=hits, n=n, missing=missing, **kwargs)

    return call


CAP = 56  # draws: some inputs below reach it, none goes beyond
FIXED = {"k": 3, "x": 0.3, "cap": CAP, "positives": (190, 200), "negatives": (6, 300)}
"""What a bound may ask to be fixed beforehand."""


def listed(one: ListedBound, method: str | None) -> Bound:
    """A listed bound of one question as one of its scores, with what it asks for fixed."""
    fixed = {name: FIXED[name] for name in inspect.signature(one.bound).parameters & FIXED.keys()}
    given = {**fixed, **({} if method is None else {"method": method})}
    if method == "grid":
        given["side"] = "upper"
    bound = partial(one.bound, **given)
    return from_scores(bound) if one.evidence == "hits" else by_name(bound)


def by_name(bound: Bound) -> Bound:
    """The counts by their name, since what is between them and the scores differs."""
    return lambda scores, counts=None, **kwargs: bound(scores, counts=counts, **kwargs)


OF_ONE = {name: one for name, one in BOUNDS.items() if one.evidence in ("hits", "scores")}
ROWS: dict[str, Bound] = {
    **{
        " ".join(filter(None, (name, method))): listed(one, method)
        for name, one in OF_ONE.items()
        for method in one.methods or (None,)
    },
    "leak@1 betting on blocks": by_name(partial(leak_at_k_bound, k=1, method="block-maxima")),
    "leak@2 betting from n = 8 on": by_name(partial(leak_at_k_bound, k=2)),
}
UPPER_ONLY = {"std grid"}
OF_P = {"std proportion", "mean + sd proportion"}  # both ends from one interval of p
SPREADS = {*OF_P, "std betting", "std paper", "std grid", "mean + sd betting", "mean + sd paper"}

every_bound = pytest.mark.parametrize("name", ROWS)
two_sided = pytest.mark.parametrize("name", [name for name in ROWS if name not in UPPER_ONLY])

SCORES = np.array([0.0, 0.0, 0.05, 0.1, 0.1, 0.1, 0.2, 0.35, 0.4, 0.6] * 5)
LAWS = {
    "spread": SCORES,
    "zeros": np.zeros(30),
    "ones": np.ones(30),
    "coin": np.tile([0.0, 1.0], 20),
    "one draw": np.array([0.4]),
}


def sides(name: str) -> tuple[str, ...]:
    return ("upper",) if name in UPPER_ONLY else ("upper", "lower", "both")


def test_a_row_for_every_method() -> None:
    assert {"mean betting", "mean paper", "std betting", "std paper"} <= ROWS.keys()


@pytest.mark.parametrize("name", OF_ONE)
def test_a_bound_says_what_it_is_about(name: str) -> None:
    made = listed(OF_ONE[name], None)(SCORES).about
    fixed = {"tail": FIXED["x"], "leak@k": FIXED["k"]}.get(made.quantity)
    assert made == dataclasses.replace(OF_ONE[name].about, parameter=fixed)


def test_every_exported_bound_is_listed() -> None:
    """What gives estimates, by itself or inside another value, has a row in `BOUNDS`."""
    known = {one.bound for one in BOUNDS.values()}
    made = {
        function
        for function in vars(stats).values()
        if inspect.isfunction(function) and gives_estimates(function)
    }
    tests = {stats.randomisation_test}  # which bound nothing
    assert made - {stats.joint} - tests == known


def gives_estimates(function: Bound) -> bool:
    given = get_type_hints(function).get("return")
    if given is Estimate:
        return True
    parts = get_type_hints(given).values() if dataclasses.is_dataclass(given) else ()
    return Estimate in parts or tuple[Estimate, ...] in parts


STATED = {"confidence": 0.99, "side": "both", "missing": 0, "seed": None}


@pytest.mark.parametrize("name", [name for name in BOUNDS if name != "effects of two knobs"])
def test_a_bound_has_the_signature_that_the_docs_state(name: str) -> None:
    parameters, evidence = inspect.signature(BOUNDS[name].bound).parameters, BOUNDS[name].evidence
    settings = {p.name: p.default for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    stated = STATED | ({"confidence": 0.95} if evidence == "bound of seeds" else {})
    assert {key: settings.get(key) for key in stated.keys() & parameters} == {
        key: stated[key] for key in stated.keys() & parameters
    }
    if evidence in ("hits", "scores"):
        first = {"hits": ["hits", "n"], "scores": ["scores"]}[evidence]
        assert list(parameters)[: len(first)] == first
        assert {"confidence", "side", "missing"} <= settings.keys()
        ordered = any("betting" in row for row in ROWS if row.startswith(name)) or name == "leak@k"
        assert ("seed" in settings) == ordered


def test_only_public_names_are_listed() -> None:
    source = ast.parse(inspect.getsource(stats)).body
    imported = [
        entry for line in source if isinstance(line, ast.ImportFrom) for entry in line.names
    ]
    public = {entry.asname for entry in imported if entry.asname}
    assert set(dir(stats)) == public | {"BOUNDS", "Evidence", "ListedBound"}


def test_an_estimate_is_one_line() -> None:
    assert str(proportion_bound(1, 1024, side="upper", missing=2)) == (
        "leak probability: value 0.000978474, lower 0, upper 0.00977599, confidence 0.99, "
        "side upper, n 1024, missing 2, method Clopper-Pearson, stopping fixed n"
    )
    several = str(mean_bound([SCORES, 1 - SCORES], seed=7))
    assert several.startswith("mean leakage: value 0.19 to 0.81, lower 0.104021 to 0.707081, upper")
    assert "method finite-horizon betting, seed 7, " in several


@every_bound
@pytest.mark.parametrize("law", LAWS)
def test_ends_enclose_the_value_and_stay_in_range(name: str, law: str) -> None:
    for side in sides(name):
        bound = ROWS[name](LAWS[law], side=side)
        largest = (1 + 5**0.5) / 2 if "sd" in name else 0.5 if "std" in name else 1
        value = bound.lower if np.isnan(bound.value) else bound.value  # leak@3 of one draw
        assert 0 <= bound.lower <= value + 1e-12
        assert value - 1e-12 <= bound.upper <= largest + 1e-12
        if side == "upper":
            assert bound.lower == 0
        if side == "lower":
            assert bound.upper == pytest.approx(largest)
        assert (bound.side, bound.confidence, bound.n) == (side, 0.99, len(LAWS[law]))


@every_bound
def test_more_confidence_is_wider(name: str) -> None:
    bounds = [ROWS[name](SCORES, confidence=c).upper for c in (0.5, 0.9, 0.999)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


@two_sided
def test_both_sides_spend_half_of_alpha_each(name: str) -> None:
    both = ROWS[name](SCORES, confidence=0.9, side="both")
    share = 0.9 if name in OF_P else 0.95
    assert both.upper == pytest.approx(
        ROWS[name](SCORES, confidence=share, side="upper").upper, abs=1e-9
    )
    lower = ROWS[name](SCORES, confidence=0.95, side="lower").lower
    assert both.lower == pytest.approx(lower, abs=1e-9)


@every_bound
def test_input_order_and_counts_are_only_notation(name: str) -> None:
    side = sides(name)[-1]
    plain = ROWS[name](SCORES, side=side)
    shuffled = ROWS[name](np.random.default_rng(1).permutation(SCORES), side=side)
    values, counts = np.unique(SCORES, return_counts=True)
    counted = ROWS[name](values[::-1], counts[::-1], side=side)
    padded = ROWS[name]([*values, 7.0, np.nan], [*counts, 0, 0], side=side)
    for other in (shuffled, counted, padded):
        for end in ("lower", "upper", "value", "n"):
            assert getattr(other, end) == pytest.approx(getattr(plain, end), abs=1e-12)


@every_bound
def test_a_row_of_many_is_what_it_is_alone(name: str) -> None:
    side = sides(name)[-1]
    rng = np.random.default_rng(2)
    scores = np.round(rng.beta(1, 4, (4, 12)), 2)
    scores[2] = 0
    counts = rng.integers(1, 4, scores.shape)
    counts[3] = counts[1]  # two questions share an n, the others have their own
    missing = np.array([0, 3, 0, 3])
    keys = [{"seed": 50 + row} if "betting" in name else {} for row in range(4)]
    every = {"seed": [50, 51, 52, 53]} if "betting" in name else {}
    batch = ROWS[name](scores, counts, missing=missing, side=side, **every)
    for row in range(4):
        alone = ROWS[name](scores[row], counts[row], missing=missing[row], side=side, **keys[row])
        for end in ("lower", "upper", "value", "n", "missing"):
            assert getattr(batch, end)[row] == pytest.approx(getattr(alone, end), abs=1e-12)


@two_sided
def test_missing_draws_count_against_the_claim(name: str) -> None:
    bound = ROWS[name](SCORES, missing=6, side="both")
    assert (bound.n, bound.missing) == (len(SCORES) + 6, 6)
    assert bound.value == pytest.approx(ROWS[name](SCORES).value)  # nothing is imputed
    plain = ROWS[name](SCORES, side="both")
    assert bound.upper > plain.upper
    if "std" in name or "sd" in name:  # of another n, so in another order: alike on average
        orders = [{"seed": seed} if "betting" in name else {} for seed in range(30)]
        ends = [
            [ROWS[name](SCORES, missing=gone, side="both", **how).lower for how in orders]
            for gone in (6, 0)
        ]
        assert np.mean(ends[0]) <= np.mean(ends[1])
    elif "stopped" not in name:  # with the missing draws it is at the cap, and may be tighter
        assert bound.lower <= plain.lower
    if name not in SPREADS:
        worst = ROWS[name](np.append(SCORES, np.ones(6)), side="both")
        assert bound.upper == pytest.approx(worst.upper, abs=1e-12)
        best = ROWS[name](np.append(SCORES, np.zeros(6)), side="both")
        assert bound.lower == pytest.approx(best.lower, abs=1e-12)


@every_bound
def test_only_missing_draws_say_nothing(name: str) -> None:
    bound = ROWS[name]([], missing=20)
    assert np.isnan(bound.value)
    assert bound.upper == pytest.approx(ROWS[name]([0.5], [0], missing=20).upper)
    assert bound.upper >= (0.5 if "std" in name else 1)


@every_bound
def test_the_seed_is_kept_where_the_order_matters(name: str) -> None:
    scores = np.append(SCORES, np.zeros(CAP - len(SCORES)))
    bound = ROWS[name](scores)
    betting = "betting" in name
    assert bound.seed == (0 if betting else None)
    if betting:
        assert ROWS[name](scores, seed=0) == bound
        values = [ROWS[name](scores, seed=seed).upper for seed in range(6)]
        assert len(set(values)) > 1
        alike = ROWS[name](np.tile(scores, (40, 1)))
        assert len(set(np.asarray(alike.upper).tolist())) > 1  # each row in an order of its own


@pytest.mark.true_entropy
@every_bound
def test_without_a_seed_one_is_drawn_and_recorded(name: str) -> None:
    scores = np.append(SCORES, np.zeros(CAP - len(SCORES)))
    side = sides(name)[-1]
    first, second = (ROWS[name](scores, side=side) for _ in range(2))
    if "betting" not in name:
        assert first.seed is second.seed is None
        return
    assert first.seed != second.seed
    again = ROWS[name](scores, side=side, seed=first.seed)
    assert (again.lower, again.upper, again.seed) == (first.lower, first.upper, first.seed)


@every_bound
@pytest.mark.parametrize(
    ("scores", "kwargs", "message"),
    [
        ([0.1, np.nan], {}, "position 1"),
        ([[0.1, 0.2], [0.3, -0.2]], {}, "question 1, position 1"),
        ([0.1, 1.1], {}, "[0, 1]"),
        ([], {}, "n = 0"),
        ([[0.1], [0.2]], {"counts": [[1], [0]]}, "question 1"),
        ([0.1, 0.2], {"counts": [1]}, "shape"),
        ([0.1, 0.2], {"counts": [1, -1]}, "whole"),
        ([0.1, 0.2], {"counts": [1, 1.5]}, "whole"),
        ([0.1, 0.2], {"missing": -1}, "whole"),
        ([[0.1, 0.2]], {"missing": [0, 1]}, "one a question"),
        ([[[0.1]]], {}, "3-D"),
        ([0.1, "a"], {}, "numbers"),
        ([0.1], {"confidence": 1.0}, "strictly"),
        ([0.1], {"confidence": 0.0}, "strictly"),
        ([0.1], {"side": "top"}, "'both'"),
    ],
)
def test_bad_input_is_refused(name: str, scores: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        ROWS[name](scores, **kwargs)
    assert message in str(caught.value)


@every_bound
def test_rounding_beyond_the_range_is_cut_off(name: str) -> None:
    near = ROWS[name]([-1e-10, 0.5, 1 + 1e-10])
    assert near.upper == pytest.approx(ROWS[name]([0.0, 0.5, 1.0]).upper)


@pytest.mark.parametrize("bound", [mean_bound, std_bound, expectation_deviation_bound])
def test_an_unknown_method_is_refused(bound: Bound) -> None:
    with pytest.raises(InputError, match="'betting'"):
        bound(SCORES, method="best")
    with pytest.raises(InputError, match="seed"):
        bound(SCORES, seed=-1)
    with pytest.raises(InputError, match="one a row"):
        bound([SCORES, SCORES], seed=[1, 2, 3])
    with pytest.raises(InputError, match="a key of its own"):
        bound([SCORES, SCORES], seed=[5, 5])


@pytest.mark.parametrize("bound", [proportion_bound, partial(leak_at_k_proportion_bound, k=2)])
def test_an_unknown_method_of_a_tally_is_refused(bound: Bound) -> None:
    with pytest.raises(InputError, match="'clopper-pearson', 'any-time'"):
        bound(1, 2, method="best")


@every_bound
def test_a_bound_says_when_sampling_may_stop(name: str) -> None:
    stopping = "fixed n"
    if "any-time" in name:
        stopping = "any time"
    if "stopped" in name:
        stopping = "stopped at a look, at most 56 draws"
    assert ROWS[name](SCORES).stopping == stopping


def test_metric_4_has_no_lower_side() -> None:
    with pytest.raises(InputError, match="above only"):
        std_bound(SCORES, method="grid", side="lower")
