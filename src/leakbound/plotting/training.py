"""The figure of a training, from the folder of the model: over its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.plotting.material import LackingError, Material, PaperFigure, by

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

_PANEL = 1.1  # inches
Curve = Literal["entropy", "probability"]
_LABELS: dict[Curve, str] = {
    "entropy": "entropy of the\nnext token (nats)",
    "probability": "probability of the\ntrue next token",
}
_POINTS = 160  # at most, of a curve: those of more steps are averaged


@dataclass(frozen=True, slots=True)
class LogRow:
    """A quantity logged in training, the mean of a step.

    `quantity`: the entropy of the next-token distributions along the answers of a split in nats, or
    the geometric mean of the probabilities of their tokens, exp(-nll).
    """

    model: str
    split: str
    quantity: Curve
    step: int
    value: float


def log_rows(material: Material) -> Iterator[LogRow]:
    """Rows of trained models whose objective has the entropy, or the likelihood, of a split."""
    if not material.trained:
        raise LackingError("no folder of a trained model was given")
    for label, trained in material.trained.items():
        name = material.names[label]
        for split in dict.fromkeys(term.split for term in trained.terms):
            for step, value in trained.curve("entropy", split):
                yield LogRow(name, split, "entropy", step, value)
            for step, value in trained.curve("nll", split):
                yield LogRow(name, split, "probability", step, math.exp(-value))


def draw_confidence(rows: Sequence[LogRow], canvas: Canvas) -> None:
    """A panel a quantity; forget sets with lines of the model's, others thin."""
    kinds, splits = by(rows, "quantity"), list(by(rows, "split"))
    panels = canvas.panels(len(kinds), height=_PANEL, sharey=False)
    for axes, (kind, own) in zip(panels, kinds.items(), strict=True):
        for (model, split), mine in by(own, "model", "split").items():
            pen = canvas.series[model]
            x, y = _thinned([r.step for r in mine], [r.value for r in mine])
            dash = _dash(splits.index(split))
            axes.plot(x, y, color=pen.colour, linestyle=dash, linewidth=0.9,
                      marker=pen.mark, markersize=2.6, markevery=max(1, len(x) // 6),
                      markeredgewidth=0)  # fmt: skip
        axes.set_ylabel(_LABELS[kind])
        least = min(row.value for row in own)
        axes.set_ylim(bottom=math.floor(10 * least) / 10 if kind == "probability" else 0)
        axes.margins(x=0.02)
    canvas.tell_models(list(by(rows, "model")))
    for i, split in enumerate(splits):
        canvas.tell(f"{split} set", color="black", linestyle=_dash(i), linewidth=0.9)
    panels[-1].locator_params(axis="x", integer=True, min_n_ticks=1)
    panels[-1].set_xlabel("training step")


def _dash(place: int) -> str | tuple[int, tuple[float, ...]]:
    return ("-", (0, (4.0, 1.5)), (0, (1.0, 1.2)))[place % 3]


def _thinned(steps: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Means of so many consecutive steps that the curve can be read."""
    size = max(1, math.ceil(len(steps) / _POINTS))
    starts = range(0, len(steps), size)

    def means(series: Sequence[float]) -> list[float]:
        return [math.fsum(part) / len(part) for i in starts if (part := series[i : i + size])]

    return means(steps), means(values)


KINDS = (
    PaperFigure(
        "confidence",
        "entropy and probability of the answers' tokens by split over training",
        "Scholten et al. Fig. 5b",
        "the folder of a trained model, with its training.jsonl",
        log_rows,
        draw_confidence,
        "no objective has an entropy or a likelihood of one split",
    ),
)
