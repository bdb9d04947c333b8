"""A model beside the baseline in one sentence: its words, and numbers that agree with them."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.evaluation.statements.comparisons import ArmDifference
from leakbound.evaluation.views.compared import (
    Comparison,
    ScorerComparison,
    difference_verdict,
    moved,
)
from leakbound.stats import About, Estimate

Ends = tuple[float, float]
FELL, ROSE, STILL = (-0.5, -0.3), (0.3, 0.5), (-0.1, 0.1)


def estimate(lower: float | np.ndarray, upper: float | np.ndarray) -> Estimate:
    value = (lower + upper) / 2
    about = About(quantity="leak probability", beyond="baseline")
    how = {"confidence": 0.99, "side": "both", "n": 64, "missing": 0, "method": "by hand"}
    return Estimate(about=about, value=value, lower=lower, upper=upper, **how)  # type: ignore[arg-type]


def difference(mean: Ends | None, *each: Ends) -> ArmDifference:
    lower, upper = np.transpose(each)
    return ArmDifference(
        query_ids=tuple(f"q{i}" for i in range(len(each))),
        mean=None if mean is None else estimate(*mean),
        each=estimate(lower, upper),
        apart=True,
    )


def said(found: ArmDifference, *, binary: bool = True) -> tuple[str, str]:
    one = difference_verdict("after", found, "keyword", binary, "before", 0.99)
    assert (one.model, one.scorer, one.baseline) == ("after", "keyword", "before")
    assert one.sentence.endswith(" (99 %, all at once).")
    return one.kind, one.sentence.removesuffix(" (99 %, all at once).")


BY = "by at least 0.300 on average"
OPEN = "on average no difference is shown, −0.100 to 0.100"
LESS, MORE = "after leaks LESS than before", "after leaks MORE than before"
MIXED, NONE = "after beside before is MIXED", "NO DIFFERENCE is shown between after and before"
UNKNOWN = "on average not known, as questions lack completions"
NO_RISE, NO_FALL = "none is shown to rise", "none is shown to fall"


@pytest.mark.parametrize(
    ("mean", "each", "kind", "sentence"),
    [
        (FELL, [FELL] * 24, "less", f"{LESS}: {BY}; all 24 questions fell"),
        (ROSE, [ROSE] * 3, "more", f"{MORE}: {BY}; all 3 questions rose"),
        (FELL, [FELL], "less", f"{LESS}: {BY}; the one question fell"),
        (FELL, [FELL, STILL], "less", f"{LESS}: {BY}; of 2 questions 1 fell, {NO_RISE}"),
        (
            FELL,
            [STILL] * 4,
            "less",
            f"{LESS}: {BY}; none of 4 questions is shown to rise or fall",
        ),
        (
            STILL,
            [ROSE, ROSE, STILL],
            "more",
            f"{MORE}: {OPEN}; of 3 questions 2 rose, {NO_FALL}",
        ),
        (
            STILL,
            [STILL] * 2,
            "not shown",
            f"{NONE}: on average −0.100 to 0.100; none of 2 questions is shown to rise or fall",
        ),
        (
            STILL,
            [STILL],
            "not shown",
            f"{NONE}: on average −0.100 to 0.100; the one question is not shown to rise or fall",
        ),
        (
            FELL,
            [*[ROSE] * 3, *[FELL] * 10],
            "mixed",
            f"{MIXED}: less {BY}; of 13 questions 3 rose, 10 fell",
        ),
        (STILL, [ROSE, FELL], "mixed", f"{MIXED}: {OPEN}; of 2 questions 1 rose, 1 fell"),
        (FELL, [ROSE, STILL], "mixed", f"{MIXED}: less {BY}; of 2 questions 1 rose, {NO_FALL}"),
        (
            None,
            [FELL, STILL],
            "less",
            f"{LESS}: {UNKNOWN}; of 2 questions 1 fell, {NO_RISE}",
        ),
        (
            (-0.5, -0.00012),
            [FELL] * 2,
            "less",
            f"{LESS}: by at least 1.2e−4 on average; both questions fell",
        ),
    ],
)
def test_a_verdict_says_what_is_shown_and_no_more(
    mean: Ends | None, each: list[Ends], kind: str, sentence: str
) -> None:
    assert said(difference(mean, *each)) == (kind, sentence)


def test_a_graded_score_is_no_leak() -> None:
    assert said(difference(FELL, FELL), binary=False)[1].startswith("after scores LOWER than")
    assert said(difference(ROSE, ROSE), binary=False)[1].startswith("after scores HIGHER than")
    mixed = said(difference(ROSE, ROSE, FELL), binary=False)[1]
    assert "MIXED: higher by at least 0.300" in mixed
    assert "leak" not in mixed


def test_an_end_at_0_shows_nothing() -> None:
    assert moved(difference(None, (-0.2, 0.0), (0.0, 0.2), FELL, ROSE).each) == (
        "not shown", "not shown", "fell", "rose",
    )  # fmt: skip


def test_a_comparison_shows_its_verdicts_and_no_more() -> None:
    """In a shell and in a notebook, however many models it holds."""
    models = {f"m{i}": difference(FELL, FELL) for i in range(20)}
    under = ScorerComparison(scorer="keyword", binary=True, differences=models, standings=())
    comparison = Comparison(
        baseline="old", labels=("old", *models), confidence=0.99, made={}, scorers=(under,)
    )
    lines = repr(comparison).splitlines()
    assert lines[0].endswith(", m19 beside old")
    assert lines[1].startswith("m0 leaks LESS than old: ")
    assert lines[-1] == "and 12 more, see verdicts"
    assert len(lines) == 10
    assert comparison._repr_html_().count("<tr>") == 9
