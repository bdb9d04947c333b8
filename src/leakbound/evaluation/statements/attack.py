"""What a search for worst-case inputs comes to: statements about all questions, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakbound.evaluation.drawing.attack import Found, read_found
from leakbound.evaluation.drawing.sample import TARGET, control_of
from leakbound.evaluation.drawing.search import ATTACK
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.attacked import Attacked
from leakbound.evaluation.statements.beyond import excess_over_questions, share_nothing
from leakbound.evaluation.statements.drawn import drawn
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.quantities import LEAKAGE
from leakbound.evaluation.statements.rows import ALL, Bound, Row, Table, entry, interval, statement
from leakbound.evaluation.views.protocols import gap, gaps_jointly
from leakbound.stats import about
from leakbound.store import Arm, ArmScores, Run
from leakbound.text.figures import DASH, below, number
from leakbound.types import Scorer

_SHOWN = 10

Rows = Sequence[Mapping[str, Any]]


def attack_rows(run: Run, scorer: Scorer, *, confidence: float) -> Iterator[Row]:
    """What holds of all questions as they were found, whichever arms drew them; none without.

    The worst of them, their mean, how many leak more than x; how far the mean and the worst lie
    beyond the control's; and, where the questions were asked in their own words under one decoding
    alone, the gap of each, the largest, and at how many there is one. Nothing where a question
    lacks.
    """
    target, control = (_attacked(run, name, scorer) for name in (ATTACK, control_of(ATTACK)))
    for name, found in ((ATTACK, target), (control_of(ATTACK), control)):
        for estimate, parameters in found.together(confidence) if found else ():
            for j, parameter in enumerate(parameters or [None]):
                yield Row(name, scorer.name, ALL, parameter, entry(estimate, (j,)))
    if target and control:
        number = len(target.scores.query_ids)
        apart = share_nothing(_arms(run, ATTACK), _arms(run, control_of(ATTACK)))
        for estimate in excess_over_questions(target, control, number, confidence, apart):
            yield Row(ATTACK, scorer.name, ALL, None, estimate)
    if target and TARGET in run.arms:
        yield from _gaps(run, scorer, target, confidence)


def attack_table(run: Run, scorer: str, rows: Rows) -> Table | None:
    """The questions that leak most as they were found, beside their own words; None without any."""
    found = read_found(run) if "attack" in run.record else None
    if not found:
        return None
    bounds, steers = _bounds(rows), scorer == run.record["attack"]["scorer"]["name"]
    control = {one.arm: control_of(one.arm) for one in found}
    lines = [
        (
            bounds.get((one.arm, one.query.id)),
            (
                one.query.id,
                _cell(bounds.get((TARGET, one.query.id))),
                _cell(bounds.get((one.arm, one.query.id))),
                _cell(bounds.get((control[one.arm], one.query.id))),
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
        _note(run, rows),
    )


def described(found: Found) -> str:
    """How the question was asked, in a few words."""
    words: list[str] = []
    if found.shots:
        words.append(f"after {len(found.shots)} retained pairs")
    if found.query.prefix:
        words.append(f"opened by {found.query.prefix!r}")
    source = "own words" if found.query.source == "original" else found.query.source
    return ", ".join([source, *words, found.decoding.name])


def _attacked(run: Run, base: str, scorer: Scorer) -> Attacked | None:
    """All questions as they were found; None unless every one of them has draws."""
    arms = _arms(run, base)
    ids = [query.id for query in run.questions]
    scores = ArmScores.joined([arm.scores(slug(scorer)) for arm in arms], ids)
    if len(scores.query_ids) < len(ids):
        return None
    return Attacked(Fixed(scores, scorer.binary, Order.of(arms[0], scorer)))


def _arms(run: Run, base: str) -> list[Arm]:
    """Those that drew what was found, one a decoding."""
    return [arm for arm in run.arms.values() if arm.found and arm.name.startswith(base)]


def _gaps(run: Run, scorer: Scorer, found: Attacked, confidence: float) -> Iterator[Row]:
    """What the search found beyond the questions' own words."""
    own, ids = drawn(run.arms[TARGET], scorer), found.scores.query_ids
    if own.scores.query_ids != ids:
        return
    each = gap(found.leakage, own.leakage, confidence=confidence, side="both")
    for i, query_id in enumerate(ids):
        yield Row(ATTACK, scorer.name, query_id, None, entry(each, (i,)))
    for estimate in gaps_jointly(found.leakage, own.leakage, len(ids), confidence):
        yield Row(ATTACK, scorer.name, ALL, None, estimate)


def _bounds(rows: Rows) -> dict[tuple[str, str], Bound]:
    """The leakage of each question by arm and question."""
    return {
        (row["arm"], row["query_id"]): Bound.of(row)
        for row in rows
        if row["estimand"] in LEAKAGE and row["query_id"] is not ALL and row["pool"] is None
    }


def _cell(bound: Bound | None) -> str:
    return DASH if bound is None else interval(bound)


def _note(run: Run, rows: Rows) -> str:
    settings = run.record["attack"]
    searched = f"searched with {settings['budget']:,} draws a question"
    said = [f"{searched}, steered by {settings['scorer']['name']}, bounded by fresh ones"]
    mine = [row for row in rows if row["arm"] == ATTACK and row["query_id"] is ALL]
    worst = statement(mine, about.WORST, *LEAKAGE)
    if worst is not None:
        said.append(f"the worst question leaks at least {below(worst['lower'])}")
    more = next((row for row in mine if row["estimand"].startswith("questions with gap")), None)
    if more is not None and more["lower"]:
        said.append(f"above own words at {more['lower']:.0f} or more of {len(run.questions)}")
    return "; ".join(said)
