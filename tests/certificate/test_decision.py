"""The verdict at the limit itself: a claim of at most X is met by X, and not refuted by it."""

from __future__ import annotations

from functools import partial

import pytest

from leakbound.certificate.claim import LeakClaim, verdict
from leakbound.stats import About, Estimate

claimed = partial(LeakClaim, threshold=0.0, every_question=False, arm="target", confidence=0.99)


@pytest.mark.parametrize(
    ("lower", "upper", "wanted"),
    [
        (0.0, 0.1, "pass"),
        (0.1, 0.1, "pass"),
        (0.1, 0.2, "inconclusive"),
        (0.0, 0.1 + 1e-12, "inconclusive"),
        (0.1 + 1e-12, 0.2, "refuted"),
    ],
)
def test_the_limit_itself_meets_the_claim(lower: float, upper: float, wanted: str) -> None:
    estimate = Estimate(
        about=About(quantity="leak probability", scope="mean", over=1),
        value=lower, lower=lower, upper=upper, confidence=0.99, side="both",
        n=10, missing=0, method="exact",
    )  # fmt: skip
    assert verdict(estimate, claimed(max_leak=0.1, scorer="keyword")) == wanted
