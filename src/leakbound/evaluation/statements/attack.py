"""What a search for worst-case inputs comes to: statements about all questions, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.attacked import Attacked
from leakbound.evaluation.statements.beyond import excess_over_questions, share_nothing
from leakbound.evaluation.statements.drawn import drawn
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.gaps import gap, gaps_jointly
from leakbound.evaluation.statements.rows import ALL, Row, entry
from leakbound.evaluation.study.names import ATTACK, TARGET, control_of
from leakbound.store import Arm, ArmScores, Run
from leakbound.types import Scorer

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
