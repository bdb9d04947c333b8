"""A log of OpenUnlearning checked against itself: every aggregate made anew from its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound.errors import InputError
from leakbound.formats.openunlearning import EvaluationLog
from leakbound.formats.openunlearning_values import TOLERANCE, Remade, remake, same

SINGLE = 1e-6  # relative: OpenUnlearning averages some scores of attacks in float32
MAY_BE_NONE = ("forget_quality",)  # as OpenUnlearning writes it without a retrained model

Verdict = Literal["same", "differs", "damaged", "not made anew"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A number that a log stores, and the same made anew from its rows.

    `how` says of what, or what is lacking or damaged. `odd`: rows of which the stored value is not
    what the rest of the log makes it; the aggregate is then that of the rows made anew.
    """

    entry: str
    stored: float | None
    found: float | None
    how: str
    verdict: Verdict
    odd: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """False where a value differs, or a row is damaged."""
        return self.verdict in ("same", "not made anew")


def check_log(
    log: EvaluationLog, retrained: EvaluationLog | None = None, summary: EvaluationLog | None = None
) -> list[Checked]:
    """Every aggregate of a log, in its order, and those of the parts of attacks; then the summary.

    `retrained`: the log that forget quality, privleak and rel_diff compare with. InputError where
    the log has no row of anything, as a summary has not: there is nothing to make anew.
    """
    if not any(entry.by_index or entry.parts for entry in log.metrics.values()):
        raise InputError(
            f"`{log.path}` holds no row of any metric, so nothing can be made anew. Name the "
            "*_EVAL.json; the *_SUMMARY.json beside it is compared too."
        )
    found = [checked for entry in log.metrics for checked in _checked(entry, log, retrained)]
    return [*found, *(() if summary is None else _summarised(found, summary))]


def _checked(entry: str, log: EvaluationLog, retrained: EvaluationLog | None) -> Iterator[Checked]:
    logged = log.metric(entry)
    try:
        yield compared(entry, logged.value, remake(entry, log, retrained))
        for part in logged.parts:
            made = float(np.mean([*log.numbers(entry, "score", part).values()]))
            how = Remade(value=made, how="mean score")
            yield compared(f"{entry}, {part}", logged.parts[part].value, how, SINGLE)
    except InputError as error:
        yield Checked(
            entry=entry, stored=logged.value, found=None, how=str(error), verdict="damaged"
        )


def compared(
    entry: str, stored: float | None, made: Remade, tolerance: float = TOLERANCE
) -> Checked:
    """A stored number beside the one made anew."""
    agrees = same(stored, made.value, tolerance) and not made.odd
    verdict: Verdict = "same" if agrees else "differs"
    if made.value is None or (stored is None and entry in MAY_BE_NONE):
        verdict = "not made anew"
    return Checked(
        entry=entry,
        stored=stored,
        found=made.value,
        how=made.how,
        verdict=verdict,
        odd=made.odd,
    )


def _summarised(found: list[Checked], summary: EvaluationLog) -> Iterator[Checked]:
    """The numbers of a summary against those made anew, or else against those of the log."""
    known = {checked.entry: checked for checked in found}
    for entry, logged in summary.metrics.items():
        checked = known.get(entry)
        of_log = None if checked is None else checked.stored
        made = of_log if checked is None or checked.found is None else checked.found
        how = Remade(value=made, how="the log" if made is not None else "an entry of the log")
        yield compared(f"summary: {entry}", logged.value, how)
