"""Three ways of asking, side by side: greedy, the output distribution, and full.

Greedy takes one answer to each question, output its whole output distribution, full the output
distributions of its rewritings too (Cheng et al. 2025, Figure 3). What full finds beyond output is
bounded, so that it cannot be chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbound import stats
from leakbound.evaluation.statements.gaps import GAP
from leakbound.evaluation.statements.pooled import WORST_QUERY
from leakbound.evaluation.statements.quantities import GREEDY_SCORE, LEAKAGE
from leakbound.evaluation.statements.rows import ALL, Bound, statement
from leakbound.evaluation.views.rewritings import tried
from leakbound.evaluation.views.table import Table, interval
from leakbound.stats import about
from leakbound.store import Arm, Run
from leakbound.text.figures import DASH, below, number

_LISTED = 5

Rows = Sequence[dict[str, Any]]


def protocols_table(run: Run, scorer: str, rows: Rows) -> Table | None:
    """A row for each arm that asks rewritings, beside the arms that do not; None without one."""
    arms = [arm for arm in run.arms.values() if arm.sharing is not None]
    if not arms:
        return None
    arms.sort(key=lambda arm: arm.key.is_control)
    columns = ("arm", "greedy", "output", "full", "worst question", "worst query")
    n = max(arm.plan.n for arm in arms)
    return Table(
        f"{scorer} by protocol, {len(run.questions)} questions, n = {n:,} outputs each",
        columns,
        tuple(_line(arm, rows) for arm in arms),
        "\n".join([*filter(None, (_found(arm, rows) for arm in arms)), *asked(run)]),
    )


def asked(run: Run) -> list[str]:
    """What was asked, what was not and why, and which questions have no rewriting; in words."""
    found = tried(run)
    said = ", ".join(f"{reason}: {count}" for reason, count in found.removed.items())
    words = [
        f"full asks {found.asked:,} of {found.tried:,} rewritings from {found.source!r}, design "
        f"{found.design!r}" + (f"; removed: {said}" if said else "")
    ]
    if alone := found.alone:
        named = ", ".join(map(repr, alone[:_LISTED])) + (", …" if len(alone) > _LISTED else "")
        how = "left out of full" if found.design == "fresh" else "asked as they are"
        words.append(f"no rewriting is left of {len(alone)} questions, {how}: {named}")
    return words


def _line(arm: Arm, rows: Rows) -> tuple[str, ...]:
    """One arm under the three protocols."""
    output = str(arm.key.in_own_words)
    beside = str(arm.key.greedy_answers)
    greedy = [r["value"] for r in rows if r["arm"] == beside and r["estimand"] == GREEDY_SCORE]
    known = bool(greedy) and all(value is not None for value in greedy)
    return (
        output,
        number(sum(greedy) / len(greedy)) if known else DASH,
        _cell(rows, output, about.MEAN),
        _cell(rows, arm.name, about.MEAN),
        _cell(rows, arm.name, about.WORST),
        _cell(rows, arm.name, about.WORST_QUERY),
    )


def _cell(rows: Rows, arm: str, of: str) -> str:
    """The leakage of all questions that is about this."""
    row = statement((row for row in rows if row["arm"] == arm), of, *LEAKAGE)
    return DASH if row is None else interval(Bound.of(row))


def _found(arm: Arm, rows: Rows) -> str:
    """What asking rewritings found beyond the questions' own words; empty where that is open."""
    mine = [row for row in rows if row["arm"] == arm.name and row["query_id"] is ALL]
    found = [row for row in mine if row["estimand"].startswith(GAP)]
    counts = [row for row in mine if row["estimand"].startswith(f"questions with {GAP}")]
    if not found:
        return ""
    mean, *gaps = found
    said = [f"{arm.name}: {interval(Bound.of(mean))} more than output on average"]
    for largest, count in zip(gaps, counts, strict=True):
        what = "worst query" if WORST_QUERY in count["estimand"] else "full"
        where = f"at {count['lower']:.0f} or more of {len(arm.asked.questions)} questions"
        by = f", by {below(largest['lower'])} or more at one" if count["lower"] else ""
        said.append(f"{what} above output {where}{by}")
    return "; ".join([*said, f"{stats.percent(mean['confidence'])} each"])
