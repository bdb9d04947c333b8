"""What a search for worst-case inputs comes to: statements about all questions, as found.

Let S be all that the search drew, and X = f(S) the query and decoding that it found for a
question. The final draws Y_1 … Y_n have keys of their own, so they are independent of S, and n is
fixed beforehand. Given S, X is one fixed query under one fixed decoding, and Y_1 … Y_n are i.i.d.
from its law. So a bound B with P(B(Y) holds) >= 1 - alpha for every law holds with that
probability given S, whatever S was, hence altogether:

    P(B holds for X) = E[ P(B holds for X | S) ] >= 1 - alpha.

No correction for the number of queries tried is due, as each question's X was chosen without its
Y. Over several questions the Y are independent given S, so `stats` corrects as for any questions.
Both fail for the search's own draws: of many queries that leak alike, it keeps the one whose draws
leaked most by chance.

What is bounded is the leakage of what was found. Its lower end bounds the worst input from below;
its upper end says nothing of inputs that were not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.beyond import BeyondControl, share_nothing
from leakbound.evaluation.statements.evidence import drawn
from leakbound.evaluation.statements.fixed import AS_FOUND, Fixed
from leakbound.evaluation.statements.gaps import gap
from leakbound.evaluation.statements.proof import proofs_of
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
    target, control = (_found(run, key, scorer) for key in (ATTACK, ATTACK.control))
    for key, found in ((ATTACK, target), (ATTACK.control, control)):
        if found:
            yield from rows_of(str(key), scorer.name, ALL, *found.together(confidence))
    if target and control:
        mine, others = _arms(run, ATTACK), _arms(run, ATTACK.control)
        proofs = {q: p for arm in mine for q, p in proofs_of(arm, scorer).items()}
        apart = share_nothing(mine, others)
        beyond = BeyondControl(target=target, control=control, apart=apart, proofs=proofs)
        over = beyond.over_questions(confidence)
        yield from rows_of(str(ATTACK), scorer.name, ALL, over.mean, over.worst)
    own = run.arm(TARGET)
    if target and own:
        yield from _gaps(own, scorer, target, confidence)


def _found(run: Run, base: ArmKey, scorer: Scorer) -> Fixed | None:
    """All questions as they were found; None unless every one of them has draws."""
    arms = _arms(run, base)
    ids = [query.id for query in run.questions]
    scores = ArmScores.joined([arm.scores(slug(scorer)) for arm in arms], ids)
    if len(scores.query_ids) < len(ids):
        return None
    return Fixed(scores, scorer.binary, Order.of(arms[0], scorer), AS_FOUND)


def _arms(run: Run, base: ArmKey) -> list[Arm]:
    """Those that drew what was found, one a decoding."""
    return [arm for arm in run.arms.values() if replace(arm.key, decoding="") == base]


def _gaps(target: Arm, scorer: Scorer, found: Fixed, confidence: float) -> Iterator[EstimateRow]:
    """What the search found beyond the questions' own words."""
    own, ids = drawn(target, scorer), found.scores.query_ids
    if own.scores.query_ids != ids:
        return
    each = gap(found.leakage, own.leakage, confidence=confidence, side="both")
    yield from rows_of(str(ATTACK), scorer.name, ids, each)
    made = stats.gaps_over_questions(found.leakage, own.leakage, len(ids), confidence=confidence)
    yield from rows_of(str(ATTACK), scorer.name, ALL, made.largest, made.count)
