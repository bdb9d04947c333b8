"""What a search for worst-case inputs comes to: statements about all questions, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.attacked import Attacked
from leakbound.evaluation.statements.beyond import excess_over_questions, share_nothing
from leakbound.evaluation.statements.drawn import drawn
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.gaps import gap
from leakbound.evaluation.statements.rows import rows_of
from leakbound.store import ALL, ATTACK, TARGET, Arm, ArmKey, ArmScores, EstimateRow, Run
from leakbound.types import Scorer


def attack_rows(run: Run, scorer: Scorer, *, confidence: float) -> Iterator[EstimateRow]:
    """What holds of all questions as they were found, whichever arms drew them; none without.

    The worst of them, their mean, how many leak more than x; how far the mean and the worst lie
    beyond the control's; and, where the questions were asked in their own words under one decoding
    alone, the gap of each, the largest, and at how many there is one. Nothing where a question
    lacks.
    """
    target, control = (_attacked(run, key, scorer) for key in (ATTACK, ATTACK.control))
    for key, found in ((ATTACK, target), (ATTACK.control, control)):
        for estimate in found.together(confidence) if found else ():
            yield from rows_of(str(key), scorer.name, ALL, estimate)
    if target and control:
        number = len(target.scores.query_ids)
        apart = share_nothing(_arms(run, ATTACK), _arms(run, ATTACK.control))
        for estimate in excess_over_questions(target, control, number, confidence, apart):
            yield from rows_of(str(ATTACK), scorer.name, ALL, estimate)
    own = run.arm(TARGET)
    if target and own:
        yield from _gaps(own, scorer, target, confidence)


def _attacked(run: Run, base: ArmKey, scorer: Scorer) -> Attacked | None:
    """All questions as they were found; None unless every one of them has draws."""
    arms = _arms(run, base)
    ids = [query.id for query in run.questions]
    scores = ArmScores.joined([arm.scores(slug(scorer)) for arm in arms], ids)
    if len(scores.query_ids) < len(ids):
        return None
    return Attacked(Fixed(scores, scorer.binary, Order.of(arms[0], scorer)))


def _arms(run: Run, base: ArmKey) -> list[Arm]:
    """Those that drew what was found, one a decoding."""
    return [arm for arm in run.arms.values() if replace(arm.key, decoding="") == base]


def _gaps(target: Arm, scorer: Scorer, found: Attacked, confidence: float) -> Iterator[EstimateRow]:
    """What the search found beyond the questions' own words."""
    own, ids = drawn(target, scorer), found.scores.query_ids
    if own.scores.query_ids != ids:
        return
    each = gap(found.leakage, own.leakage, confidence=confidence, side="both")
    yield from rows_of(str(ATTACK), scorer.name, ids, each)
    made = stats.gaps_over_questions(found.leakage, own.leakage, len(ids), confidence=confidence)
    for estimate in (made.largest, made.count):
        yield from rows_of(str(ATTACK), scorer.name, ALL, estimate)
