"""Charts of leak@k to a thousand million: at least, at most, proved, and what is not known."""

from __future__ import annotations

import math

from leakbound.evaluation.views.by_question import targets_of
from leakbound.evaluation.views.draws import KnownAtK, known_of_mean, known_of_worst
from leakbound.evaluation.views.view import ScorerView, View
from leakbound.reporting.charts import Axes, known_chart, style_of
from leakbound.reporting.figures import Data, Figure, short
from leakbound.stats import percent

_TICKS = (1, 10**3, 10**6, 10**9)


def far_figures(view: View, scorer: ScorerView) -> list[Figure]:
    """Two charts a target: leak@k of its worst question, and on average over the questions.

    None for scores between 0 and 1.
    """
    found = []
    for model in targets_of(view):
        style = style_of(view.models.index(model))
        for known_of, whose in (
            (known_of_worst, "its worst question"),
            (known_of_mean, "the mean over its questions"),
        ):
            if known := known_of(model, scorer):
                caption = f"{model.label}, {whose} ({scorer.name})"
                found.append(_figure(caption, known, view.confidence, style))
    return found


def _figure(caption: str, known: list[KnownAtK], confidence: float, style: str) -> Figure:
    top = known[-1].k

    def place(k: int) -> float:
        return math.log(k) / math.log(top)

    least = [(place(at.k), max(at.lower, at.proved)) for at in known]
    most = [(x, max(at.upper, low)) for (x, low), at in zip(least, known, strict=True)]
    proved = [(place(at.k), at.proved) for at in known]
    sure = percent(confidence)
    axes = Axes(
        title=f"Asked up to 10⁹ times: {caption}",
        description=(
            "The probability of a leak among k answers, k on a logarithmic scale. Solid line: no "
            f"less than this at {sure}. Shaded above it: not known, up to no more than this at "
            f"{sure}. Dashed: no less than this, proved, whatever the draws."
        ),
        x_label="k answers",
        y_label="leak@k",
        x_ticks=[(place(k), short(k)) for k in _TICKS],
    )
    rows = [(at.k, at.proved, at.lower, at.upper) for at in known]
    data = Data(("k", "proved", "at least", "at most"), rows)
    return Figure(caption, known_chart(axes, proved, least, most, style), data, style)
