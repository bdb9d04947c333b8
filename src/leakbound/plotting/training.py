"""Figures of trainings, from the folders of the models: over a setting, and over the steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.views.view import Model
from leakbound.plotting.material import DEVIATION, LackingError, Material, PaperFigure, by
from leakbound.plotting.style import styles
from leakbound.store.trained import TrainedFolder

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

Knob = Literal["weight on forget", "weight on retain", "centres"]
_PANEL = 1.1  # inches
_ENTROPY = "entropy"
_AXES: Mapping[Knob, str] = {
    "weight on forget": "weight $\\lambda_f$ of the\nentropy on forget",
    "weight on retain": "weight $\\lambda_r$ of the\nentropy on retain",
    "centres": "contrast centres of a question",
}
SELF_BLEU = ("retain_self_bleu", "forget_self_bleu")
"""Metrics of how alike a question's answers are; the first that all models have is drawn."""
UTILITY = ("model_utility", "r_avg", "retain_rouge_l_recall")


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One model at its setting of a knob: a mean over the questions, or a metric.

    An end is there where it is a bound.
    """

    knob: Knob
    at: float
    model: str
    quantity: str
    confidence: float
    value: float
    lower: float | None
    upper: float | None


def weight_rows(material: Material) -> list[SweepRow]:
    """Rows of models whose objectives differ in one weight of the entropy alone."""
    models = _models(material)
    rows: list[SweepRow] = []
    knobs: Sequence[tuple[Knob, str]] = (
        ("weight on forget", "forget"), ("weight on retain", "retain")
    )  # fmt: skip
    for knob, split in knobs:
        lines: dict[object, dict[float, Model]] = {}
        for model, trained in models:
            rest = tuple(
                (term.loss, term.split, term.weight, tuple(sorted(map(str, term.settings.items()))))
                for term in trained.terms
                if (term.loss, term.split) != (_ENTROPY, split) and term.weight
            )
            weights = [t.weight for t in trained.terms if (t.loss, t.split) == (_ENTROPY, split)]
            lines.setdefault(rest, {})[sum(weights)] = model
        longest = max(lines.values(), key=len, default={})
        if len(longest) > 1:
            rows += _rows(material, knob, longest)
    return rows


def centre_rows(material: Material) -> Iterable[SweepRow]:
    """Rows of models trained by contrast centres, by how many a question has on average."""
    models = {
        trained.centres: model
        for model, trained in _models(material)
        if trained.centres is not None
    }
    return _rows(material, "centres", models) if len(models) > 1 else ()


def _models(material: Material) -> list[tuple[Model, TrainedFolder]]:
    """The sampled models whose folders were given too."""
    labels = {material.names[name]: trained for name, trained in material.trained.items()}
    return [
        (model, labels[model.label])
        for model in (material.view.models if material.runs else ())
        if model.label in labels
    ]


def _rows(material: Material, knob: Knob, line: Mapping[float, Model]) -> Iterator[SweepRow]:
    """Mean, deviation, and the metrics that all have."""
    measured = [material.metrics(model) for model in line.values()]
    shown = [
        next((m for m in group if all(m in metrics for metrics in measured)), None)
        for group in (SELF_BLEU, UTILITY)
    ]
    for at, model in sorted(line.items()):
        mean = model.rows.leakage(material.scorer.name, scope="mean")
        if mean is not None and mean.value is not None:
            ends = (mean.confidence, mean.value, mean.lower, mean.upper)
            yield SweepRow(knob, at, model.label, material.quantity, *ends)
        if spread := material.deviation(model):
            yield SweepRow(knob, at, model.label, DEVIATION, *spread)
        for metric in filter(None, shown):
            value = material.metrics(model)[metric]
            words = metric.replace("_", " ")
            yield SweepRow(knob, at, model.label, words, 1.0, value, None, None)


def draw_sweep(rows: Sequence[SweepRow], canvas: Canvas) -> None:
    """A panel a quantity, a column a knob."""
    knobs, quantities = list(by(rows, "knob")), list(by(rows, "quantity"))
    canvas.series = styles([(knob, False) for knob in knobs])
    panels = canvas.panels(len(quantities), len(knobs), height=_PANEL, sharex=False, sharey=False)
    for place, axes in enumerate(panels):
        quantity, knob = quantities[place // len(knobs)], knobs[place % len(knobs)]
        mine = by(rows, "knob", "quantity").get((knob, quantity))
        if not mine:
            axes.set_visible(False)
            continue
        x = [row.at for row in mine]
        pen = canvas.series[knob]
        axes.plot(x, [row.value for row in mine], color=pen.colour, marker=pen.mark, zorder=3,
                  markeredgewidth=0)  # fmt: skip
        canvas.whiskers(axes, knob, x, mine)
        axes.set_xticks(x, [f"{at:.3g}" for at in x])
        axes.set_ylabel(canvas.folded(quantity, _PANEL))
        axes.margins(x=0.06)
        canvas.rise(axes)
        if place // len(knobs) == len(quantities) - 1:
            axes.set_xlabel(_AXES[knob], parse_math=True)
    canvas.tell_whiskers(rows)


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
    PaperFigure(
        "entropy-weight",
        "mean and deviation, and self-BLEU where measured, against a weight of the entropy",
        "Scholten et al. Fig. 4a, 5a",
        "runs and folders of models that differ in one weight of entropy",
        weight_rows,
        draw_sweep,
        "no two models were given that differ in one weight of entropy alone",
    ),
    PaperFigure(
        "centres",
        "mean and deviation, and utility where measured, against the number of contrast centres",
        "Cheng et al. Fig. 4",
        "runs and folders of models with different numbers of contrast centres",
        centre_rows,
        draw_sweep,
        "no two models were given with different numbers of contrast centres",
    ),
)
