"""leak@k up to 10^9: derived from p; for the mean, from the number of questions that leak."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, getcontext
from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Rows,
    bound,
    carried,
    leaking_questions,
    mean_leak_at_k_of_counts,
    worst_question,
)

FAR = [1, 2, 10**3, 10**6, 10**9]
TALLY = partial(bound, Rows.of_hits([0, 1, 4, 40], [100] * 4))


def counts(x: list[float], lower: list[float], upper: list[float], side: str = "both") -> Estimate:
    """Bound the number of four questions that leak more than x."""
    made = leaking_questions(TALLY, 4, x, side=side, each_confidence=0.999)
    return replace(made, lower=np.array(lower), upper=np.array(upper))


@pytest.mark.parametrize("p", [0.0, 1e-300, 3e-17, 1e-9, 0.02, 0.5, 1 - 2**-53, 1.0])
def test_the_closed_form_is_exact(p: float) -> None:
    getcontext().prec = 400
    exact = replace(bound(Rows.of_hits(1, 9)), lower=p, upper=p, value=p, confidence=1.0)
    made = carried(exact, FAR)
    want = [float(1 - (1 - Decimal(p)) ** k) for k in FAR]
    for end in (made.value, made.lower, made.upper):
        assert np.asarray(end).tolist() == pytest.approx(want, rel=1e-12, abs=1e-320)


def test_a_carried_bound_keeps_its_evidence() -> None:
    for leak in (TALLY(side="both"), worst_question(TALLY, 4, side="both", confidence=0.9)):
        made = carried(leak, [1, 8])
        assert replace(made.about, quantity=leak.about.quantity, parameter=None) == leak.about
        assert made.about.parameter == (1.0, 8.0)
        kept = ("confidence", "side", "missing", "method", "stopping")
        assert [getattr(made, name) for name in kept[:2]] == [leak.confidence, leak.side]
        assert np.shape(made.upper) == (*np.shape(leak.upper), 2)
        np.testing.assert_allclose(np.asarray(made.upper)[..., 0], leak.upper, rtol=1e-12)
    alone = carried(bound(Rows.of_hits(2, 100)), 8)
    assert alone.upper == pytest.approx(1 - (1 - bound(Rows.of_hits(2, 100)).upper) ** 8)
    with pytest.raises(InputError, match="one question"):
        carried(bound(Rows.of([0.1, 0.2])), 8)
    of_all = replace(TALLY(), about=replace(TALLY().about, scope="mean"))
    with pytest.raises(InputError, match="mean_leak_at_k_of_counts"):
        carried(of_all, 8)
    beyond = replace(TALLY(), about=replace(TALLY().about, beyond="control"))
    with pytest.raises(InputError, match="one question"):
        carried(beyond, 8)


def test_the_mean_is_the_sum_by_hand() -> None:
    """f = 1 - (1 - x)^k at 0, .1, .5, 1 is 0, .1, .5, 1 for k = 1, and 0, .19, .75, 1 for k = 2."""
    known = counts([0.0, 0.1, 0.5], [3, 1, 0], [4, 3, 1])
    made = mean_leak_at_k_of_counts(known, [1, 2, 10**9])
    assert np.asarray(made.lower).tolist() == pytest.approx([0.025, 0.0475, 0.25], abs=1e-15)
    assert np.asarray(made.upper).tolist() == pytest.approx([0.525, 0.6725, 1.0], abs=1e-15)
    assert np.isnan(made.value).all()
    assert (made.confidence, made.side, made.n) == (known.confidence, "both", known.n)
    assert made.about == replace(
        known.about, quantity="leak@k", scope="mean", parameter=(1.0, 2.0, 1e9), constant=None
    )
    assert made.method == f"{known.method}, summed over x"
    mixed = counts([0.5, 0.0, 0.1], [0, 3, 1], [1, 4, 3])
    again = mean_leak_at_k_of_counts(mixed, 2)
    assert (again.lower, again.upper) == pytest.approx((0.0475, 0.6725), abs=1e-15)
    assert isinstance(again.upper, float)
    got = replace(known, about=replace(known.about, inputs="as found"))
    assert mean_leak_at_k_of_counts(got, 2).about.inputs == "as found"


def test_no_mean_leaves_its_range_by_rounding() -> None:
    x = (np.arange(1, 30) / 30.7).tolist()
    made = mean_leak_at_k_of_counts(counts(x, [0.0] * 29, [4.0] * 29), list(range(1, 200)))
    assert np.max(made.upper) == 1
    assert not np.signbit(made.lower).any()


def test_without_a_count_at_0_any_question_may_leak_up_to_the_first() -> None:
    made = mean_leak_at_k_of_counts(counts([0.1], [1], [3]), 1)
    assert (made.lower, made.upper) == pytest.approx((0.025, (0.1 * 4 + 0.9 * 3) / 4))
    one = replace(counts([0.0], [2], [3]), lower=2.0, upper=3.0)
    of_one = replace(one, about=replace(one.about, parameter=0.0))
    assert mean_leak_at_k_of_counts(of_one, 1).upper == pytest.approx(0.75)
    bare = replace(one, about=replace(one.about, parameter=None))
    assert mean_leak_at_k_of_counts(bare, 1).upper == pytest.approx(0.75)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_a_side_that_the_counts_lack_is_trivial(side: str) -> None:
    known = leaking_questions(TALLY, 4, [0.0, 0.1, 0.3], side=side)
    made = mean_leak_at_k_of_counts(known, FAR)
    assert made.side == side
    if side == "upper":
        assert not np.any(made.lower)
    else:
        np.testing.assert_allclose(made.upper, 1.0)


def test_bounds_are_the_least_and_the_most_that_counts_allow() -> None:
    x, low, high = [0.0, 0.01, 0.1, 0.5], [3, 2, 1, 0], [4, 4, 2, 1]
    made = mean_leak_at_k_of_counts(counts(x, low, high), FAR)
    ends = list(zip(x, low, high, strict=True))
    least = [max((x for x, low, _ in ends if low >= rank), default=0.0) for rank in range(1, 5)]
    most = [min((x for x, _, high in ends if high < rank), default=1.0) for rank in range(1, 5)]
    for end, questions in ((made.lower, least), (made.upper, most)):
        want = [sum(1 - (1 - p) ** k for p in questions) / 4 for k in FAR]
        np.testing.assert_allclose(end, want, rtol=1e-9)
