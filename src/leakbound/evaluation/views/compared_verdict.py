"""A model beside the baseline: the verdict in one sentence, and how far each question moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound.evaluation.statements.compared import ArmDifference
from leakbound.evaluation.views.table import Interval
from leakbound.evaluation.views.words import at_least
from leakbound.stats import Estimate, percent
from leakbound.text.figures import above, below

Change = Literal["less", "more", "mixed", "not shown"]
Moved = Literal["rose", "fell", "not shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceVerdict:
    """What is shown of a model beside the baseline, under one scorer.

    kind: less or more, where nothing that is shown speaks against it; mixed, where something does;
        not shown, where nothing is.
    sentence: that in words, with the mean, the questions that moved, and how sure all of it is.
    """

    scorer: str
    model: str
    baseline: str
    kind: Change
    sentence: str


@dataclass(frozen=True, slots=True)
class Move:
    """A question, how much more it leaks than under the baseline, and what is shown of that."""

    question: str
    bound: Interval
    moved: Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMoves:
    """How far the questions of a model moved, and their mean; None where it is not known."""

    label: str
    mean: Interval | None
    each: tuple[Move, ...]


def difference_verdict(
    model: str, found: ArmDifference, scorer: str, binary: bool, baseline: str, sure: float
) -> DifferenceVerdict:
    """The verdict on `model`; `binary`: whether the scores are leaks or none.

    It holds together with all that is said of this scorer, at the confidence `sure`.
    """
    kind = _kind(found)
    more, less = ("more", "less") if binary else ("higher", "lower")
    verb = "leaks" if binary else "scores"
    says = {
        "more": f"{model} {verb} {more.upper()} than {baseline}",
        "less": f"{model} {verb} {less.upper()} than {baseline}",
        "mixed": f"{model} beside {baseline} is MIXED",
        "not shown": f"NO DIFFERENCE is shown between {model} and {baseline}",
    }
    mean, counts = _mean(found, kind, more, less), _counts(found)
    return DifferenceVerdict(
        scorer=scorer,
        model=model,
        baseline=baseline,
        kind=kind,
        sentence=f"{says[kind]}: {mean}; {counts} ({percent(sure)}, all at once).",
    )


def moved(each: Estimate) -> tuple[Moved, ...]:
    """Of every question whether it is shown to leak more, or less, than under the baseline."""
    ends = zip(np.asarray(each.lower), np.asarray(each.upper), strict=True)
    return tuple("rose" if low > 0 else "fell" if high < 0 else "not shown" for low, high in ends)


def _kind(found: ArmDifference) -> Change:
    mean = found.mean
    more = found.rose > 0 or (mean is not None and mean.lower > 0)
    less = found.fell > 0 or (mean is not None and mean.upper < 0)
    if more and less:
        return "mixed"
    return "more" if more else "less" if less else "not shown"


def _mean(found: ArmDifference, kind: Change, more: str, less: str) -> str:
    """What is known of the mean; its direction where the verdict has not said it."""
    if found.mean is None:
        return "on average not known, as questions lack completions"
    lower, upper = float(found.mean.lower), float(found.mean.upper)
    if lower <= 0 <= upper:
        shown = "" if kind == "not shown" else "no difference is shown, "
        return f"on average {shown}{below(lower)} to {above(upper)}"
    which, least = (more, lower) if lower > 0 else (less, -upper)
    said = f"by at least {at_least(least)} on average"
    return f"{which} {said}" if kind == "mixed" else said


def _counts(found: ArmDifference) -> str:
    """How many questions are shown to have moved; the rest may have, unseen."""
    rose, fell, of = found.rose, found.fell, len(found.query_ids)
    both = {"rose": rose, "fell": fell}
    if of in (rose, fell):
        every = {1: "the one question", 2: "both questions"}.get(of, f"all {of:,} questions")
        return f"{every} {'rose' if rose else 'fell'}"
    if not rose and not fell:
        none = "the one question is not" if of == 1 else f"none of {of:,} questions is"
        return f"{none} shown to rise or fall"
    first, *other = (f"{count:,} {which}" for which, count in both.items() if count)
    still = "rise" if not rose else "fall"
    rest = other[0] if other else f"none is shown to {still}"
    return f"of {of:,} questions {first}, {rest}"
