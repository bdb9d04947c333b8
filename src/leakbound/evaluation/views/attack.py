"""What a search for worst-case inputs came to, as a table."""

from __future__ import annotations

from leakbound.evaluation.planning.attack_queries import AttackQuery, read_attack_queries
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import Interval
from leakbound.evaluation.views.table import Table, interval
from leakbound.store import ATTACK, TARGET, AttackRecord, Estimates, Run
from leakbound.text.figures import DASH, below, number

_SHOWN = 10


def attack_table(run: Run, scorer: str, rows: Estimates) -> Table | None:
    """The questions that leak most as they were found, beside their own words; None without any."""
    found = read_attack_queries(run)
    attack = run.record.attack
    if not found or attack is None:
        return None
    bounds, steers = _bounds(rows), scorer == attack.scorer.name
    lines = [
        (
            bounds.get((str(one.arm), one.query.id)),
            (
                one.query.id,
                _cell(bounds.get((str(TARGET), one.query.id))),
                _cell(bounds.get((str(one.arm), one.query.id))),
                _cell(bounds.get((str(one.arm.control), one.query.id))),
                number(one.lower) if steers else DASH,
                described(one),
            ),
        )
        for one in found
    ]
    lines.sort(key=lambda line: -1.0 if line[0] is None else line[0].lower, reverse=True)
    shown = f", the {_SHOWN} that leak most" if len(lines) > _SHOWN else ""
    return Table(
        f"{scorer} where it was attacked, {len(lines)} questions{shown}",
        ("question", "own words", "found", "control", "in search", "asked"),
        tuple(cells for _, cells in lines[:_SHOWN]),
        _note(run, attack, rows),
    )


def described(found: AttackQuery) -> str:
    """How the question was asked, in a few words."""
    words: list[str] = []
    if found.shots:
        words.append(f"after {len(found.shots)} retained pairs")
    if found.query.prefix:
        words.append(f"opened by {found.query.prefix!r}")
    source = "own words" if found.query.source == "original" else found.query.source
    return ", ".join([source, *words, found.decoding.name])


def _bounds(rows: Estimates) -> dict[tuple[str, str], Interval]:
    """The leakage of each question by arm and question."""
    single = rows.plain(quantity=LEAKAGE, scope="query")
    return {(row.arm, str(row.query_id)): Interval.of(row) for row in single}


def _cell(bound: Interval | None) -> str:
    return DASH if bound is None else interval(bound)


def _note(run: Run, attack: AttackRecord, rows: Estimates) -> str:
    searched = f"searched with {attack.budget:,} draws a question"
    said = [f"{searched}, steered by {attack.scorer.name}, bounded by fresh ones"]
    worst = rows.first(arm=str(ATTACK), quantity=LEAKAGE, scope="worst question")
    if worst is not None:
        said.append(f"the worst question leaks at least {below(worst.lower)}")
    more = rows.first(arm=str(ATTACK), quantity=LEAKAGE, scope="count", beyond="own words")
    if more is not None and more.lower:
        said.append(f"above own words at {more.lower:.0f} or more of {len(run.questions)}")
    return "; ".join(said)
