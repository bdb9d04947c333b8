"""Three ways of asking, side by side: greedy, the output distribution, and full.

Greedy takes one answer to each question, output its whole output distribution, full the output
distributions of its rewritings too (Cheng et al. 2025, Figure 3). What full finds beyond output is
bounded, so that it cannot be chance.
"""

from __future__ import annotations

from typing import Unpack

from leakbound import stats
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import Interval, bound_of
from leakbound.evaluation.views.rewritings import tried
from leakbound.evaluation.views.table import Table, interval
from leakbound.store import ALL, Arm, Estimates, Run
from leakbound.store.estimates import Fields
from leakbound.text.figures import DASH, below, number

_LISTED = 5


def protocols_table(run: Run, scorer: str, rows: Estimates) -> Table | None:
    """A row for each arm that asks rewritings, beside the arms that do not; None without one."""
    arms = [arm for arm in run.arms.values() if arm.key.asks == "rewritings"]
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
    if (found := tried(run)) is None:
        return []
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


def _line(arm: Arm, rows: Estimates) -> tuple[str, ...]:
    """One arm under the three protocols."""
    output = str(arm.key.in_own_words)
    beside = str(arm.key.greedy_answers)
    greedy = [row.value for row in rows.where(arm=beside, quantity="greedy score")]
    known = [value for value in greedy if value is not None]
    return (
        output,
        number(sum(known) / len(known)) if known and len(known) == len(greedy) else DASH,
        _cell(rows, arm=output, scope="mean"),
        _cell(rows, arm=arm.name, scope="mean"),
        _cell(rows, arm=arm.name, scope="worst question"),
        _cell(rows, arm=arm.name, scope="worst question", inputs="worst query"),
    )


def _cell(rows: Estimates, **wanted: Unpack[Fields]) -> str:
    """The leakage of all questions that is about this."""
    found = bound_of(rows.where(quantity=LEAKAGE), **wanted)
    return DASH if found is None else interval(found)


def _found(arm: Arm, rows: Estimates) -> str:
    """What asking rewritings found beyond the questions' own words; empty where that is open."""
    gaps = rows.where(arm=arm.name, quantity=LEAKAGE, beyond="own words", query_id=ALL)
    mean = next(iter(gaps.where(scope="mean")), None)
    if mean is None:
        return ""
    said = [f"{arm.name}: {interval(Interval.of(mean))} more than output on average"]
    each = (gaps.where(scope=scope) for scope in ("worst question", "count"))
    for largest, count in zip(*each, strict=True):
        what = "worst query" if count.about.inputs == "worst query" else "full"
        where = f"at {count.lower:.0f} or more of {len(arm.asked.questions)} questions"
        by = f", by {below(largest.lower)} or more at one" if count.lower else ""
        said.append(f"{what} above output {where}{by}")
    return "; ".join([*said, f"{stats.percent(mean.confidence)} each"])
