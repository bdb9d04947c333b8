"""The table a person reads first: every arm of a run, one scorer at a time."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.evaluation.statements.quantities import CLAIMS, EACH, LEAKAGE
from leakbound.evaluation.statements.rows import Interval
from leakbound.evaluation.views.attack import attack_table
from leakbound.evaluation.views.excess import excess_sentences
from leakbound.evaluation.views.grid import grid_summary
from leakbound.evaluation.views.metrics import metrics_table
from leakbound.evaluation.views.protocols import protocols_table
from leakbound.evaluation.views.table import Table, interval
from leakbound.stats import percent
from leakbound.store import (
    Arm,
    EstimateRow,
    Estimates,
    ExploredDraws,
    FixedDraws,
    ImportedDraws,
    Run,
    StoppedDraws,
)
from leakbound.text.figures import DASH, number

SHOWN_K = 32


def summary(run: Run) -> list[Table]:
    """One table a scorer; a row for each arm, with the model's greedy answers beside it.

    Where decodings form a grid, another with its cells; where rewritings were asked too, one that
    sets that beside the questions alone; where worst-case inputs were searched, one with them.
    The metrics of the models come last.
    """
    estimates = run.estimates
    tables: list[Table | None] = []
    for name in estimates.scorers:
        rows = estimates.where(scorer=name)
        tables += [
            _table(run, name, rows),
            grid_summary(run, name),
            protocols_table(run, name, rows),
            attack_table(run, name, rows),
        ]
    return [table for table in (*tables, metrics_table(run)) if table is not None]


def _table(run: Run, scorer: str, rows: Estimates) -> Table:
    shown = [arm for arm in run.arms.values() if arm.key.own_words and not arm.key.greedy]
    shown.sort(key=lambda arm: arm.key.is_control)
    bounded = rows.plain(quantity=LEAKAGE, scope=(*EACH, "mean"))
    confidence = next((row.confidence for row in bounded if row.confidence < 1), 1.0)
    repeated = [row for row in rows.plain(quantity="leak@k", scope=EACH) if row.value is not None]
    k = min(SHOWN_K, int(max((row.parameter or 1 for row in repeated), default=1)))
    columns = ("arm", "decoding", "greedy", "mean", "worst question", f"leak@{k}", "max sd", "ED")
    body = []
    for arm in shown:
        mine = rows.where(arm=arm.name)
        each = mine.plain(scope=EACH)
        beside = str(arm.key.greedy_answers)
        absent = DASH if arm.decoding.greedy else "incomplete"
        body.append(
            (
                arm.name,
                arm.decoding.name,
                _mean(rows.where(arm=beside, quantity="greedy score")),
                _interval(mine.first(quantity=LEAKAGE, scope="mean"), absent),
                _interval(mine.first(quantity=LEAKAGE, scope="worst question"), absent),
                _mean(each.where(quantity="leak@k", parameter=k)),
                _most(each.where(quantity="standard deviation")),
                _mean(each.where(quantity="expectation deviation")),
            )
        )
    questions = f"{run.record.benchmark.name}, {len(run.questions)} questions"
    title = f"{scorer} on {questions}, {_effort(shown)}"
    margin = ", given the measured margin" if any(arm.explored for arm in shown) else ""
    holds = f"intervals hold at {percent(confidence)} each{margin}"
    note = f"{holds}; greedy, leak@{k} and ED: mean over questions"
    says_of = (_leaked, _decided, _explored, _imported, _corrected, _undecided)
    notes = "\n".join(filter(None, [note, *(says(arm, rows) for says in says_of for arm in shown)]))
    return Table(title, columns, tuple(body), notes, "\n".join(excess_sentences(run, rows)))


def _effort(arms: Sequence[Arm]) -> str:
    """How many draws a question got, or forwards where it was explored."""
    how = [arm.spec.draws for arm in arms]
    if explored := [draws.forwards for draws in how if isinstance(draws, ExploredDraws)]:
        return f"explored with about {max(explored):,} forwards each"
    most = "≤" if any(isinstance(draws, StoppedDraws) for draws in how) else "="
    return f"n {most} {max(arm.plan.n for arm in arms):,}"


def _explored(arm: Arm, rows: Estimates) -> str:
    """What exploring an arm found and took; empty where it was not explored."""
    how = arm.spec.draws
    if not isinstance(how, ExploredDraws):
        return ""
    settled = sorted(arm.masses.settled().values())
    once = rows.plain(arm=arm.name, quantity="leak@k", parameter=1, scope=EACH)
    drawn = sum(row.n for row in once)
    forwards = sum(after for _, after in arm.masses.forwards().values())
    return (
        f"{arm.name}, explored ({how.mode}): median known mass "
        f"{number(settled[len(settled) // 2]) if settled else DASH}, {drawn:,} draws "
        f"of what is left, {forwards:,} forwards"
    )


def _leaked(arm: Arm, rows: Estimates) -> str:
    """How many questions leaked at all in n draws, and in the greedy answer; where n was fixed."""
    mine = rows.where(arm=arm.name)
    each = mine.plain(quantity="leak probability", scope=EACH)
    if not each or not isinstance(arm.spec.draws, FixedDraws | ImportedDraws):
        return ""
    share = mine.first(quantity="leak@k", scope="mean", parameter=arm.plan.n)
    succeed = f"; the share that leaks in so many (leak@{arm.plan.n}, mean): {_interval(share, '')}"
    greedy = rows.where(arm=str(arm.key.greedy_answers), quantity="greedy score")
    said = f", {sum(row.value == 1 for row in greedy)} in the greedy answer" if greedy else ""
    leaked = sum((row.value or 0) > 0 for row in each)
    return f"{arm.name}: {leaked} of {len(each)} questions leaked in {arm.plan.n:,} draws{said}" + (
        succeed if share else ""
    )


def _decided(arm: Arm, rows: Estimates) -> str:
    """What was decided of an arm's claims, and for how many draws; empty where none was made."""
    mine = rows.where(arm=arm.name, quantity=CLAIMS)
    if not mine:
        return ""
    holds, refuted = (sum(row.value == truth for row in mine) for truth in (1, 0))
    drawn, most = sum(row.n for row in mine), arm.plan.n * len(mine)
    return (
        f"{arm.name}, {mine.rows[0].about.claimed}: holds for {holds}, refuted for "
        f"{refuted}, open for {len(mine) - holds - refuted} of {len(mine)} questions; "
        f"{drawn:,} draws instead of {most:,}"
    )


def _imported(arm: Arm, rows: Estimates) -> str:
    """Who drew an arm, and how, where leakbound did not."""
    how = arm.spec.draws
    return f"{arm.name}, as sampled by {how.sampled_by}" if isinstance(how, ImportedDraws) else ""


def _corrected(arm: Arm, rows: Estimates) -> str:
    """The mean leak probability with the judge's errors allowed for; empty where not known."""
    found = rows.first(arm=arm.name, quantity="corrected leak probability", scope="mean")
    if found is None:
        return ""
    return f"{arm.name}, mean corrected for the judge: {_interval(found, '')}, {found.method}"


def _undecided(arm: Arm, rows: Estimates) -> str:
    """How many draws the scorer could not decide; empty where it decided all."""
    leakage = rows.plain(arm=arm.name, quantity=LEAKAGE, scope=EACH)
    missing, drawn = sum(row.missing for row in leakage), sum(row.n for row in leakage)
    if not missing:
        return ""
    return (
        f"{arm.name}: {missing:,} of {drawn:,} draws have no score; they count as full leaks in "
        "upper ends, as none in lower ends"
    )


def _interval(row: EstimateRow | None, absent: str) -> str:
    return absent if row is None else interval(Interval.of(row))


def _mean(rows: Estimates) -> str:
    known = _known(rows)
    return number(sum(known) / len(known)) if known else DASH


def _most(rows: Estimates) -> str:
    return number(max(_known(rows), default=None))


def _known(rows: Estimates) -> list[float]:
    """The point estimates; none unless every row has one."""
    values = [row.value for row in rows if row.value is not None]
    return values if len(values) == len(rows) else []
