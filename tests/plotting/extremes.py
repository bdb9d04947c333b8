"""Rows of every figure for the fewest and the most models and questions that it is made for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.plotting.decodings import CellRow, KnobRow
from leakbound.plotting.inputs import PROTOCOLS, CorrelationRow, ProtocolRow, QueryRow
from leakbound.plotting.models import MomentRow, SpreadRow, UtilityRow, fronted
from leakbound.plotting.questions import BINS, AnswerRow, BinRow, QuestionBar, TailRow
from leakbound.plotting.repeated import DrawsRow, LeakAtKRow, NaiveRow
from leakbound.plotting.training import LogRow, SweepRow

SURE = 0.99
LEAK, DEVIATION = "leak probability", "standard deviation"


@dataclass(frozen=True)
class Size:
    """models: by name, the last a control if there are several. low: what the first leaks."""

    models: tuple[str, ...]
    questions: tuple[str, ...]
    settings: int
    low: float

    @property
    def labels(self) -> list[tuple[str, bool]]:
        return [(name, 0 < i == len(self.models) - 1) for i, name in enumerate(self.models)]


FEWEST = Size(("npo",), ("q0",), 2, 0.01)
MOST = Size(
    (
        *(f"llama-3.2-1b-instruct_npo-entropy-lambda-{i / 10} seed {i}" for i in range(14)),
        24 * "W",
        "the control that never saw $any$ of the forget set",
    ),
    tuple(f"q{i}" for i in range(400)),
    8,
    0.97,
)


def share(size: Size, model: int, question: int = 0) -> tuple[float, float, float]:
    """Value, lower, upper: later models leak far less, questions more and more."""
    value = size.low * 0.6**model * (1 + question) / len(size.questions)
    wide = 0.3 * value * (1 - value) + 0.002
    return value, max(0.0, value - wide), min(1.0, value + wide)


def _each(size: Size) -> list[tuple[int, str, int, str]]:
    return [
        (i, model, j, question)
        for i, model in enumerate(size.models)
        for j, question in enumerate(size.questions)
    ]


def _questions(size: Size) -> list[QuestionBar]:
    aside = share(size, len(size.models))[1:] if len(size.models) > 1 else (None, None)
    return [
        QuestionBar(model, question, LEAK, SURE, *share(size, i, j), float(i == 0), *aside)
        for i, model, j, question in _each(size)
    ]


def _answers(size: Size) -> list[AnswerRow]:
    rows = []
    for i, model, j, question in _each(size):
        value, lower, upper = share(size, i, j)
        rows.append(
            AnswerRow(model, question, 64, 0.0, lower, value, upper, upper, value, float(i == 0))
        )
    return rows


def _bins(size: Size) -> list[BinRow]:
    rows = []
    for i, model in enumerate(size.models):
        law = [math.exp(-k * (i + 0.2)) for k in range(BINS)]
        for k in range(BINS):
            told = (law[k] / sum(law), share(size, i)[0], 0.0)
            rows.append(BinRow(model, "q0", 64, k / BINS, (k + 1) / BINS, *told))
    return rows


def _tails(size: Size) -> list[TailRow]:
    return [
        TailRow(model, "q0", SURE, x / 10, *(end * (1 - x / 10) for end in share(size, i)))
        for i, model in enumerate(size.models)
        for x in range(10)
    ]


def _moments(size: Size) -> list[MomentRow]:
    rows = []
    for i, model in enumerate(size.models):
        value, lower, upper = share(size, i)
        for over in ("mean over the questions", "worst question"):
            rows += [
                MomentRow(model, over, "greedy", 1.0, float(i == 0), None, None),
                MomentRow(model, over, LEAK, SURE, value, lower, upper),
                MomentRow(model, over, "ED", SURE, 1.5 * value, None, 1.6 * upper),
            ]
    return rows


def _spread(size: Size) -> list[SpreadRow]:
    return [
        SpreadRow(model, question, SURE, *(end / 2 for end in share(size, i, j)))
        for i, model, j, question in _each(size)
    ]


def _utility(size: Size) -> list[UtilityRow]:
    models = size.models if len(size.models) > 1 else ("npo", "ours")
    rows = [
        UtilityRow(model, False, "r_avg", 0.58 + i / 500, LEAK, SURE, *share(size, i), False)
        for i, model in enumerate(models)
    ]
    return [fronted(row, rows) for row in rows]


def _draws(size: Size) -> list[DrawsRow]:
    rows = []
    for i, model in enumerate(size.models):
        value, lower, upper = share(size, i)
        for power in range(3, 4 + 2 * size.settings - 2):
            ends = (value, max(0, lower - 1 / power), min(1.0, upper + 1 / power))
            row = (model, "q0", "mean", LEAK, SURE, 1 << power, *ends)
            rows.append(DrawsRow(*row))
            half = (end / 2 for end in ends)
            rows.append(DrawsRow(model, "q0", DEVIATION, DEVIATION, SURE, 1 << power, *half))
    return rows


def _at_k(size: Size) -> list[LeakAtKRow]:
    return [
        LeakAtKRow(model, SURE, 1 << i, *(1 - (1 - end) ** (1 << i) for end in share(size, m)), 0.1)
        for m, model in enumerate(size.models)
        for i in range(size.settings)
    ]


def _naive(size: Size) -> list[NaiveRow]:
    return [NaiveRow(row.model, row.k, row.value or 0.0, row.upper or 0.0) for row in _at_k(size)]


def _cells(size: Size) -> list[CellRow]:
    settings = [round(0.5 + i / 20, 2) for i in range(size.settings)]
    runs = size.models[-2:]
    return [
        CellRow(run, quantity, SURE, heat, top, *share(size, i))
        for run in runs
        for quantity in ("mean score", "leak@8")[: len(runs)]
        for i, heat in enumerate(settings)
        for top in settings
    ]


def _knobs(size: Size) -> list[KnobRow]:
    return [
        KnobRow(f"{model}, top-p 0.9, k 50", moment, quantity, SURE, 0.25 + at / 4, *share(size, i))
        for i, model in enumerate(size.models)
        for moment, quantity in (("mean", LEAK), (DEVIATION, DEVIATION))
        for at in range(size.settings)
    ]


def _log(size: Size) -> list[LogRow]:
    splits = ("forget", "retain", "holdout")[: max(1, len(size.models) - 1)]
    return [
        LogRow(model, split, quantity, step, scale * (1 - math.exp(-step * (i + 1) / 300)))
        for i, model in enumerate(size.models)
        for j, split in enumerate(splits)
        for quantity, scale in (("entropy", 4.0 / (1 + j)), ("probability", 1.0 / (1 + j)))
        for step in range(1, 40 * size.settings)
    ]


def _sweep(knobs: Sequence[str]) -> Callable[[Size], list[SweepRow]]:
    def rows(size: Size) -> list[SweepRow]:
        metrics = ("retain self bleu", "retain rouge l recall") if len(size.models) > 1 else ()
        return [
            SweepRow(knob, 3 ** (at / 2) / 50, "npo", quantity, SURE, *share(size, 1))
            for knob in knobs[: len(size.models)]
            for quantity in (LEAK, DEVIATION, *metrics)
            for at in range(size.settings)
        ]

    return rows


def _queries(size: Size) -> list[QueryRow]:
    return [
        QueryRow(size.models[0], question, f"{question}~{k}",
                 "sureness: mean probability of the tokens", 0.9312 + k / 1000, LEAK, SURE,
                 *share(size, 3 * j, k), -0.42)
        for j, question in enumerate(("tofu/forget10/0123456789 of the longest kind", *"abc"))
        if j < len(size.questions)
        for k in range(len(size.questions) // 10 + 3)
    ]  # fmt: skip


def _correlations(size: Size) -> list[CorrelationRow]:
    return [
        CorrelationRow(model, question, 8, math.sin(i + j * j))
        for i, model, j, question in _each(size)
    ]


def _protocols(size: Size) -> list[ProtocolRow]:
    return [
        ProtocolRow(model, protocol, question, LEAK, value, None if protocol == "greedy" else upper)
        for i, model, j, question in _each(size)
        for value, _, upper in (share(size, i, j),)
        for protocol in PROTOCOLS
    ]


ROWS: dict[str, Callable[[Size], Sequence[Any]]] = {
    "questions": _questions,
    "histogram": _bins,
    "tail": _tails,
    "answers": _answers,
    "moments": _moments,
    "spread": _spread,
    "utility": _utility,
    "convergence": _draws,
    "leak-at-k": _at_k,
    "naive": _naive,
    "grid": _cells,
    "temperature": _knobs,
    "adaptive": _knobs,
    "confidence": _log,
    "entropy-weight": _sweep(("weight on forget", "weight on retain")),
    "centres": _sweep(("centres",)),
    "sureness": _queries,
    "correlation": _correlations,
    "protocols": _protocols,
}
"""By the name of each figure."""
