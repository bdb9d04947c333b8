from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leakbound.errors import InputError
from leakbound.metrics.utility import (
    RECALL_TERMS,
    UTILITY_TERMS,
    forget_quality,
    model_utility,
    r_avg,
)

TERMS = {name: (place + 1) / 10 for place, name in enumerate(UTILITY_TERMS)}


def test_model_utility_is_the_harmonic_mean_of_nine() -> None:
    assert set(UTILITY_TERMS) == {
        "retain_probability",
        *(f"{part}_normalised_probability" for part in ("real_authors", "world_facts")),
        *(
            f"{part}_{name}"
            for part in ("retain", "real_authors", "world_facts")
            for name in ("rouge_l_recall", "truth_ratio")
        ),
    }
    assert model_utility(TERMS) == pytest.approx(stats.hmean([*TERMS.values()]))


def test_a_term_of_zero_makes_it_zero() -> None:
    assert model_utility({**TERMS, "retain_truth_ratio": 0.0}) == 0.0


def test_r_avg_is_the_mean_of_three_recalls() -> None:
    recalls = dict(zip(RECALL_TERMS, (0.1, 0.2, 0.6), strict=True))
    assert r_avg({**TERMS, **recalls}) == pytest.approx(0.3)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_term_outside_its_range_is_named(value: float) -> None:
    with pytest.raises(InputError, match=r"retain_probability must lie in \[0, 1\]"):
        model_utility({**TERMS, "retain_probability": value})


def test_a_missing_term_is_named() -> None:
    left = {name: value for name, value in TERMS.items() if "world" not in name}
    with pytest.raises(InputError, match=r"lacks world_facts_normalised_probability, world_facts"):
        model_utility(left)
    with pytest.raises(InputError, match="lacks world_facts_rouge_l_recall"):
        r_avg(left)


def test_forget_quality_is_the_p_value_of_two_sided_ks() -> None:
    # Largest gap 3/4 between samples of 4, one below the other. Of the 70 orders of the eight
    # values 16 have a gap of 3/4 or 1 in either direction: 2 * C(8, 1) (reflection principle).
    assert forget_quality([1, 2, 3, 5], [4, 6, 7, 8]) == pytest.approx(16 / 70)
    assert forget_quality([4, 6, 7, 8], [1, 2, 3, 5]) == pytest.approx(16 / 70)
    assert forget_quality([1, 2, 3], [1, 2, 3]) == 1.0


def test_forget_quality_of_many_has_the_exact_p_value() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=400), rng.normal(0.2, size=400)
    exact = stats.ks_2samp(ours, theirs, method="exact").pvalue
    assert forget_quality(ours, theirs) == exact


def test_forget_quality_refuses_nothing_and_nan() -> None:
    with pytest.raises(InputError, match="got 0 and 1"):
        forget_quality([], [1.0])
    with pytest.raises(InputError, match="1 of them not finite"):
        forget_quality([math.nan], [1.0])
