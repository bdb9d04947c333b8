"""The chart of a training, from the folder of the model: over its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from leakbound.plotting.material import Chart, LackingError, Material, Row, by
from leakbound.plotting.style import BLACK, DASHES

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

_PANEL = 1.1  # inches
_LABELS = {
    "entropy": "entropy of the\nnext token (nats)",
    "probability": "probability of the\ntrue next token",
}
_POINTS = 160  # of a curve at most: more steps are averaged


def log_rows(material: Material) -> Iterator[Row]:
    """Yield entropy and probability of models whose objective has them for one split.

    Entropy is that of the next-token distributions along the answers of a split in nats;
    probability is the geometric mean of the probabilities of their tokens, exp(-nll).
    """
    if not material.trained:
        raise LackingError("no folder of a trained model was given")
    for label, trained in material.trained.items():
        name = material.names[label]
        for split in dict.fromkeys(term.split for term in trained.terms):
            for step, value in trained.curve("entropy", split):
                yield Row(name, "entropy", value, group=split, x=step)
            for step, value in trained.curve("nll", split):
                yield Row(name, "probability", math.exp(-value), group=split, x=step)


def draw_confidence(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel per quantity; the splits differ in dash."""
    kinds, splits = by(rows, "quantity"), list(by(rows, "group"))
    panels = canvas.panels(len(kinds), height=_PANEL, sharey=False)
    for axes, (kind, own) in zip(panels, kinds.items(), strict=True):
        for (model, split), mine in by(own, "model", "group").items():
            pen = canvas.series[model]
            x = _thinned([row.x or 0.0 for row in mine])
            y = _thinned([row.value or 0.0 for row in mine])
            axes.plot(x, y, color=pen.colour, linestyle=_dash(splits.index(split)), linewidth=0.9,
                      marker=pen.mark, markersize=2.6, markevery=max(1, len(x) // 6))  # fmt: skip
        axes.set_ylabel(_LABELS[kind])
        least = min(row.value or 0.0 for row in own)
        axes.set_ylim(bottom=math.floor(10 * least) / 10 if kind == "probability" else 0)
        axes.margins(x=0.02)
    canvas.tell_models(list(by(rows, "model")))
    for i, split in enumerate(splits):
        canvas.tell(f"{split} set", color=BLACK, linestyle=_dash(i), linewidth=0.9)
    panels[-1].locator_params(axis="x", integer=True, min_n_ticks=1)
    panels[-1].set_xlabel("training step")


def _dash(place: int) -> object:
    return DASHES[place % 3]


def _thinned(values: Sequence[float]) -> list[float]:
    """Return means of consecutive steps, few enough that the curve can be read."""
    size = max(1, math.ceil(len(values) / _POINTS))
    starts = range(0, len(values), size)
    return [math.fsum(part) / len(part) for i in starts if (part := values[i : i + size])]


KINDS = (
    Chart(
        "confidence",
        "entropy and probability of the answers' tokens by split over training",
        "Scholten et al. Fig. 5b",
        "the folder of a trained model, with its training.jsonl",
        "model split=group quantity step=x value",
        log_rows,
        draw_confidence,
        "no objective has an entropy or a likelihood of one split",
    ),
)
