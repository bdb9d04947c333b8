"""The table a person reads first: every arm of a run, one scorer at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakbound.evaluation.statements.claim import CLAIM
from leakbound.evaluation.statements.quantities import GREEDY_SCORE, LEAKAGE
from leakbound.evaluation.statements.rows import Bound, statement
from leakbound.evaluation.views.attack import attack_table
from leakbound.evaluation.views.excess import excess_sentences
from leakbound.evaluation.views.grid import grid_summary
from leakbound.evaluation.views.metrics import metrics_table
from leakbound.evaluation.views.protocols import protocols_table
from leakbound.evaluation.views.table import Table, interval
from leakbound.stats import about, percent
from leakbound.stats.judged import CORRECTED
from leakbound.store import Arm, Run
from leakbound.text.figures import DASH, number

SHOWN_K = 32
Rows = Sequence[dict[str, Any]]


def summary(run: Run) -> list[Table]:
    """One table a scorer; a row for each arm, with the model's greedy answers beside it.

    Where decodings form a grid, another with its cells; where rewritings were asked too, one that
    sets that beside the questions alone; where worst-case inputs were searched, one with them.
    The metrics of the models come last.
    """
    estimates = run.estimates()
    tables: list[Table | None] = []
    for name in dict.fromkeys(row["scorer"] for row in estimates):
        rows = [row for row in estimates if row["scorer"] == name]
        tables += [
            _table(run, name, rows),
            grid_summary(run, name),
            protocols_table(run, name, rows),
            attack_table(run, name, rows),
        ]
    return [table for table in (*tables, metrics_table(run)) if table is not None]


def _table(run: Run, scorer: str, rows: Rows) -> Table:
    shown = [arm for arm in run.arms.values() if arm.key.own_words and not arm.key.greedy]
    shown.sort(key=lambda arm: arm.key.is_control)
    bounded = [r["confidence"] for r in rows if r["estimand"] in LEAKAGE and r["confidence"] < 1]
    confidence = next(iter(bounded), 1.0)
    k = max((r["parameter"] for r in rows if r["estimand"] == "leak@k" and _known(r)), default=1)
    k = min(SHOWN_K, int(k))
    columns = ("arm", "decoding", "greedy", "mean", "worst question", f"leak@{k}", "max sd", "ED")
    body = []
    for arm in shown:
        mine = [r for r in rows if r["arm"] == arm.name]
        beside = str(arm.key.greedy_answers)
        greedy = [r for r in rows if r["arm"] == beside and r["estimand"] == GREEDY_SCORE]
        absent = DASH if arm.decoding.greedy else "incomplete"
        body.append(
            (
                arm.name,
                arm.decoding.name,
                _mean([r["value"] for r in greedy]),
                _interval(statement(mine, about.MEAN, *LEAKAGE), absent),
                _interval(statement(mine, about.WORST, *LEAKAGE), absent),
                _mean([r["value"] for r in mine if _is(r, "leak@k", k)]),
                _most([r["value"] for r in mine if _is(r, "standard deviation")]),
                _mean([r["value"] for r in mine if _is(r, "mean + ")]),
            )
        )
    questions = f"{run.record['benchmark']['name']}, {len(run.questions)} questions"
    title = f"{scorer} on {questions}, {_effort(shown)}"
    margin = ", given the measured margin" if any(arm.exploring for arm in shown) else ""
    holds = f"intervals hold at {percent(confidence)} each{margin}"
    note = f"{holds}; greedy, leak@{k} and ED: mean over questions"
    each = (_leaked, _decided, _explored, _imported, _corrected, _undecided)
    notes = "\n".join(filter(None, [note, *(says(arm, rows) for says in each for arm in shown)]))
    return Table(title, columns, tuple(body), notes, "\n".join(excess_sentences(run, rows)))


def _effort(arms: Sequence[Arm]) -> str:
    """How many draws a question got, or forwards where it was explored."""
    explored = [arm.exploring["forwards"] for arm in arms if arm.exploring is not None]
    if explored:
        return f"explored with about {max(explored):,} forwards each"
    most = "≤" if any(arm.stopping for arm in arms) else "="
    return f"n {most} {max(arm.plan.n for arm in arms):,}"


def _explored(arm: Arm, rows: Rows) -> str:
    """What exploring an arm found and took; empty where it was not explored."""
    if arm.exploring is None:
        return ""
    settled = sorted(arm.masses.settled().values())
    drawn = {r["query_id"]: r["n"] for r in rows if r["arm"] == arm.name and _is(r, "leak@k", 1)}
    forwards = sum(after for _, after in arm.masses.forwards().values())
    return (
        f"{arm.name}, explored ({arm.exploring['mode']}): median known mass "
        f"{number(settled[len(settled) // 2]) if settled else DASH}, {sum(drawn.values()):,} draws "
        f"of what is left, {forwards:,} forwards"
    )


def _leaked(arm: Arm, rows: Rows) -> str:
    """How many questions leaked at all in n draws, and in the greedy answer; where n was fixed."""
    name = f"leak@{arm.plan.n}"
    mine = [r for r in rows if r["arm"] == arm.name]
    each = [r for r in mine if r["estimand"] == "leak probability" and r["query_id"] is not None]
    if not each or arm.stopping is not None or arm.exploring is not None:
        return ""
    share = statement(mine, about.MEAN, name)
    succeed = f"; the share that leaks in so many ({name}, mean): {_interval(share, '')}"
    beside = str(arm.key.greedy_answers)
    greedy = [r for r in rows if r["arm"] == beside and r["estimand"] == GREEDY_SCORE]
    said = f", {sum(r['value'] == 1 for r in greedy)} in the greedy answer" if greedy else ""
    leaked = sum(row["value"] > 0 for row in each if _known(row))
    return f"{arm.name}: {leaked} of {len(each)} questions leaked in {arm.plan.n:,} draws{said}" + (
        succeed if share else ""
    )


def _decided(arm: Arm, rows: Rows) -> str:
    """What was decided of an arm's claims, and for how many draws; empty where none was made."""
    mine = [r for r in rows if r["arm"] == arm.name and r["estimand"].startswith(CLAIM)]
    if not mine:
        return ""
    holds, refuted = (sum(r["value"] == truth for r in mine) for truth in (1, 0))
    drawn, most = sum(r["n"] for r in mine), arm.plan.n * len(mine)
    return (
        f"{arm.name}, {mine[0]['estimand'].removeprefix(CLAIM)}: holds for {holds}, refuted for "
        f"{refuted}, open for {len(mine) - holds - refuted} of {len(mine)} questions; "
        f"{drawn:,} draws instead of {most:,}"
    )


def _imported(arm: Arm, rows: Rows) -> str:
    """Who drew an arm, and how, where leakbound did not."""
    drawn_by = arm.spec["fingerprint"].get("as sampled by")
    return f"{arm.name}, as sampled by {drawn_by}" if drawn_by else ""


def _corrected(arm: Arm, rows: Rows) -> str:
    """The mean leak probability with the judge's errors allowed for; empty where not known."""
    mine = [r for r in rows if r["arm"] == arm.name and r["estimand"] == CORRECTED]
    found = statement(mine, about.MEAN)
    if found is None:
        return ""
    how = found["method"].rpartition(", corrected ")[2]
    return f"{arm.name}, corrected {how}: mean {_interval(found, '')}"


def _undecided(arm: Arm, rows: Rows) -> str:
    """How many draws the scorer could not decide; empty where it decided all."""
    mine = [r for r in rows if r["arm"] == arm.name and r["query_id"] is not None]
    leakage = [r for r in mine if r["estimand"] in LEAKAGE]
    missing, drawn = (sum(r[name] for r in leakage) for name in ("missing", "n"))
    if not missing:
        return ""
    return (
        f"{arm.name}: {missing:,} of {drawn:,} draws have no score; they count as full leaks in "
        "upper ends, as none in lower ends"
    )


def _known(row: dict[str, Any]) -> bool:
    """True if the row has a point estimate."""
    return row["value"] is not None and row["value"] == row["value"]


def _is(row: dict[str, Any], estimand: str, parameter: float | None = None) -> bool:
    return (
        row["query_id"] is not None
        and row["estimand"].startswith(estimand)
        and row["parameter"] == parameter
    )


def _interval(row: Mapping[str, Any] | None, absent: str) -> str:
    if row is None:
        return absent
    return interval(Bound.of(row))


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return number(sum(known) / len(known)) if known and len(known) == len(values) else DASH


def _most(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return number(max(known)) if known and len(known) == len(values) else DASH
