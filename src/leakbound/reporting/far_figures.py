"""Charts of leak@k to a thousand million: proved, bounded, unknown."""

from __future__ import annotations

import math

from leakbound.evaluation.views.by_question import targets_of
from leakbound.evaluation.views.far import KnownAtK, known_of_mean, known_of_worst
from leakbound.evaluation.views.view import ScorerView, View
from leakbound.reporting.charts import Axes, Zone, style_of, zones_chart
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
                caption = f"Asked up to 10⁹ times: {model.label}, {whose} ({scorer.name})"
                found.append(_figure(caption, known, view.confidence, style))
    return found


def _figure(caption: str, known: list[KnownAtK], confidence: float, style: str) -> Figure:
    top = known[-1].k

    def place(k: int) -> float:
        return math.log(k) / math.log(top)

    least = [(place(at.k), max(at.lower, at.proved)) for at in known]
    most = [(x, max(at.upper, low)) for (x, low), at in zip(least, known, strict=True)]
    proved = [(place(at.k), at.proved) for at in known]
    zones = [
        Zone("not known", "band", least, most),
        Zone(f"at least, {percent(confidence)}", "at-least", proved, least),
        Zone("proved, given the measured margin", "proved", [(x, 0.0) for x, _ in proved], proved),
    ]
    axes = Axes(
        title=caption,
        description=(
            "The probability of a leak among k answers, k on a logarithmic scale. Dark: proved, "
            f"whatever the draws. Tinted: no less than this at {percent(confidence)}. Pale: not "
            "known. Blank above: no more than this."
        ),
        x_label="k answers",
        y_label="leak@k",
        x_ticks=[(place(k), short(k)) for k in _TICKS],
    )
    rows = [(at.k, at.proved, at.lower, at.upper) for at in known]
    data = Data(("k", "proved", "at least", "at most"), rows)
    return Figure(caption, zones_chart(axes, zones, style), data, style)
