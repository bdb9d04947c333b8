"""Figures of trainings: how sure a model becomes, from the log beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.plotting.figure import PaperFigure
from leakbound.plotting.material import LackingError, Material

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

What = Literal["entropy", "probability"]
_LABELS: dict[What, str] = {
    "entropy": "entropy of the\nnext token (nats)",
    "probability": "probability of the\ntrue next token",
}
_PANEL = 1.1  # inches
_POINTS = 160  # at most, of a curve: those of more steps are averaged


@dataclass(frozen=True, slots=True)
class LogRow:
    """What was logged in training, the mean of a step.

    `quantity`: the entropy of the next-token distributions along the answers of a split in nats, or
    the geometric mean of the probabilities of their tokens, exp(-nll).
    """

    model: str
    split: str
    quantity: What
    step: int
    value: float


def log_rows(material: Material) -> list[LogRow]:
    """Of every trained model whose objective has the entropy, or the likelihood, of a split."""
    if not material.trained:
        raise LackingError("no folder of a trained model was given")
    rows = []
    for label, trained in material.trained.items():
        name = material.names[label]
        for split in dict.fromkeys(term.split for term in trained.terms):
            for step, value in trained.curve("entropy", split):
                rows.append(LogRow(name, split, "entropy", step, value))
            for step, value in trained.curve("nll", split):
                rows.append(LogRow(name, split, "probability", step, math.exp(-value)))
    if not rows:
        raise LackingError("no objective has an entropy or a likelihood of one split")
    return rows


def draw_confidence(rows: Sequence[LogRow], canvas: Canvas) -> None:
    """A panel a quantity; forget sets with lines of the model's, others thin."""
    kinds: list[What] = list(dict.fromkeys(row.quantity for row in rows))
    panels = canvas.panels(len(kinds), height=_PANEL, sharey=False)
    splits = list(dict.fromkeys(row.split for row in rows))
    for axes, kind in zip(panels, kinds, strict=True):
        for model in dict.fromkeys(row.model for row in rows):
            for split in splits:
                mine = [r for r in rows if (r.model, r.quantity, r.split) == (model, kind, split)]
                if mine:
                    of = canvas.series[model]
                    x, y = _thinned([r.step for r in mine], [r.value for r in mine])
                    dash = _dash(splits.index(split))
                    axes.plot(x, y, color=of.colour, linestyle=dash, linewidth=0.9,
                              marker=of.mark, markersize=2.6, markevery=max(1, len(x) // 6),
                              markeredgewidth=0)  # fmt: skip
        axes.set_ylabel(_LABELS[kind])
        least = min(row.value for row in rows if row.quantity == kind)
        axes.set_ylim(bottom=math.floor(10 * least) / 10 if kind == "probability" else 0)
        axes.margins(x=0.02)
    canvas.tell_models(list(dict.fromkeys(row.model for row in rows)))
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

    def means(of: Sequence[float]) -> list[float]:
        return [math.fsum(part) / len(part) for i in starts if (part := of[i : i + size])]

    return means(steps), means(values)


KINDS = (
    PaperFigure(
        "confidence",
        "entropy and probability of the answers' tokens by split over training",
        "Scholten et al. Fig. 5b",
        "the folder of a trained model, with its training.jsonl",
        log_rows,
        draw_confidence,
    ),
)
