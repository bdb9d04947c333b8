"""Differences in leakage: from a control, from the original wording, and from another run.

*Excess over the control.* Assume that the draws of both models are known to
share no randomness, and that both have a fixed n of at least
`stats.FEWEST_PAIRS`. Then bets on differences of draws bound the excess
directly. Otherwise the leakage of each model is bounded at half of alpha, which
is valid even if the draws are dependent. The random numbers of a draw depend
only on its key, so the keys show whether draws share random numbers. Within one
run, each arm has its own purpose, which is part of the key. The model is part
of the key too, so two models in two runs share no random numbers. In runs of
older versions, a control was drawn for the same purpose as the target. It
shares the target's random numbers unless its seed differs. Imported draws have
no known keys, so they are treated as dependent.

*Inputs that a search for worst cases found.* Let S be all draws of the search,
and X = f(S) the query and decoding that the search found for a question. The
final draws Y_1 … Y_n have separate keys, so they are independent of S, and n is
fixed in advance. Given S, X is one fixed query under one fixed decoding, and
Y_1 … Y_n are i.i.d. from the distribution of X. Let B be a bound that is valid
with probability at least 1 - alpha for every distribution. Then B is valid with
this probability given any S, hence also unconditionally:

    P(B is valid for X) = E[ P(B is valid for X | S) ] >= 1 - alpha.

No correction for the number of queries that the search tried is needed, because
the X of a question was chosen without its draws Y. The Y of several questions
are independent given S, so `stats` treats them like draws of any questions.
These arguments do not apply to the draws of the search itself, because the
search selects, among queries with the same leakage, the query whose draws
leaked most by chance.

The bounded quantity is the leakage of the input that was found. The lower bound
is also a lower bound for the worst input. The upper bound does not cover other
inputs.

*Difference from a baseline run.* For any two runs, all statements about one scorer are valid
simultaneously, see `stats.difference_over_questions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from leakbound import stats
from leakbound.bounding.drawn import SEARCHED, Drawn
from leakbound.bounding.evidence import RunEvidence, drawn_of
from leakbound.bounding.pooled import Pooled
from leakbound.bounding.rows import rows_of, stacked
from leakbound.errors import InputError, MixError
from leakbound.scoring.ordering import order_of
from leakbound.stats.about import Beyond
from leakbound.store import ALL, ATTACK, TARGET, Arm, EstimateRow
from leakbound.store.scores import joined_rows
from leakbound.text.shown import some
from leakbound.types import Scorer

gap = partial(stats.excess_of, beyond="own words")
"""Bound the leakage over all queries minus the leakage of the original question.

Each of the two leakages is bounded at alpha/2."""


def share_nothing(target: Sequence[Arm], control: Sequence[Arm]) -> bool:
    """Return whether the records prove that the draws of two lists of arms share no randomness.

    Draws with the same seed, purpose, question and chunk share random numbers. Draws with different
    seeds or purposes do not.
    """
    keys = [{arm.randomness for arm in arms} for arms in (target, control)]
    return all(keys) and None not in keys[0] | keys[1] and not keys[0] & keys[1]


def pair_of(more: Drawn, base: Drawn) -> stats.Pair | None:
    """Return the draws of two arms for bets on differences.

    The result is None if the arms have different questions, if an n is not fixed, or if the draws
    may share random numbers.
    """
    mine, other, ids = more.rows, base.rows, more.query_ids
    same = share_nothing(more.arms, base.arms) and ids and ids == base.query_ids
    return stats.Pair(mine, other) if same and mine and other else None


def excess(
    more: Drawn,
    base: Drawn,
    quantity: stats.Quantity = stats.LEAKAGE,
    *,
    beyond: Beyond = "control",
    confidence: float,
    side: stats.Side,
) -> stats.Estimate:
    """Bound the leakage of arm `more` minus the leakage of arm `base`, for the same questions.

    If the arms share no random numbers, and n is fixed and large enough, the difference is bounded
    from a `Pair`. Otherwise it is the difference of two bounds.
    """
    pair = pair_of(more, base)
    if pair and min(pair.rows.n.min(), pair.control.n.min()) >= stats.FEWEST_PAIRS:
        made = stats.bound(pair, quantity, confidence=confidence, side=side, seed=more.keys)
        about = replace(made.about, inputs=more.inputs, beyond=beyond)
        return replace(made, about=about)
    bounds = (partial(draws.bound, quantity) for draws in (more, base))
    return stats.excess_of(*bounds, beyond=beyond, confidence=confidence, side=side)


def excess_over_questions(
    more: Drawn, base: Drawn, confidence: float
) -> tuple[stats.Estimate, ...]:
    """Bound the mean excess over the control, and the largest excess of any question.

    For a binary scorer, a stratified Fisher test for any excess is used in addition, unless an
    attack selected the queries.
    """
    each, mean = (partial(excess, more, base, of) for of in (stats.LEAKAGE, stats.LEAKAGE.mean()))
    pair = None if more.inputs == SEARCHED else pair_of(more, base)
    made = stats.excess_of_mean_and_worst(
        mean,
        each,
        len(more.query_ids),
        p_value=stats.leaks_somewhere(pair) if pair and pair.binary else None,
        confidence=confidence,
    )
    return made.estimates


def excess_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows of the excess of each sampled target arm over its control.

    There are rows of each question (bounded individually, and simultaneously with all questions),
    of the mean, and of the largest excess. If the draws share no randomness, differences of draws
    are bounded directly. Otherwise the bound of each model has half of the error rate.
    """
    for name, target in run.arms.items():
        control = run.of(target.arm.key.control)
        if target.arm.key.is_control or control is None or target.greedy:
            continue
        query_ids = target.query_ids
        if query_ids != control.query_ids or not query_ids:
            continue
        each = partial(excess, target, control)
        entries = each(confidence=confidence, side="both")
        # These rows are valid simultaneously, so users may select questions by them.
        together = stats.every_question(
            each, len(query_ids), confidence=confidence, side="lower", independent=False
        )
        yield from rows_of(name, run.scorer.name, query_ids, entries)
        yield from rows_of(name, run.scorer.name, query_ids, together, family="questions")
        if target.complete:
            over = excess_over_questions(target, control, confidence)
            yield from rows_of(name, run.scorer.name, ALL, *over, family="excess")


def gap_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows of gaps between the rewritings of a question and its original wording.

    The full gap of a question is the mean leakage over all its queries, minus the leakage of the
    original question. The second gap has the leakage of the worst query instead of the mean. Each
    question has a row for each of the two gaps. There is a row for the full gap of the means over
    questions. For each of the two gaps, there are rows of the largest gap and of the number of
    questions with a positive gap. The draws of different questions, and the random allocation of
    draws to queries, share no randomness, because their keys contain the question.
    """
    for name, arm in run.arms.items():
        own, query_ids = run.of(arm.arm.key.in_own_words), arm.query_ids
        if arm.arm.key.kind != "rewritings" or own is None or not isinstance(arm, Pooled):
            continue
        if query_ids != own.query_ids or not query_ids:
            continue
        gaps = [gap(arm.leakage, own.leakage, confidence=confidence, side="both")]
        bounds = [arm.leakage]
        if arm.has_queries:
            bounds.append(arm.worst_queries)
            gaps.append(gap(bounds[1], own.leakage, confidence=confidence, side="lower"))
        yield from rows_of(name, run.scorer.name, query_ids, *gaps)
        if arm.complete:
            mean = gap(arm.mean, own.mean, confidence=confidence, side="both")
            yield from rows_of(name, run.scorer.name, ALL, mean)
            for bound in bounds:
                made = stats.gaps_over_questions(
                    bound, own.leakage, len(query_ids), confidence=confidence
                )
                yield from rows_of(name, run.scorer.name, ALL, *made.estimates, family="gaps")


def attack_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows about all questions with the inputs that a search found for them.

    There are rows of the worst question, of the mean, of the number of questions that leak more
    than x, and of the excess over the control, on average and at the worst question. If the
    original questions were drawn too, under only one decoding, there are also rows of the gap of
    each question, the largest gap and the number of positive gaps. There are no rows if a question
    has no draws.
    """
    scorer = run.scorer.name
    arms = {
        key: [arm for arm in run.arms.values() if replace(arm.arm.key, decoding="") == key]
        for key in (ATTACK, ATTACK.control)
    }
    target, control = (_attacked(run, mine) for mine in arms.values())
    for key, drawn in zip(arms, (target, control), strict=True):
        if drawn:
            yield from rows_of(str(key), scorer, ALL, *drawn.together(confidence))
    if target and control:
        over = excess_over_questions(target, control, confidence)
        yield from rows_of(str(ATTACK), scorer, ALL, *over, family="excess")
    own = run.of(TARGET)
    if target and own and own.query_ids == (ids := target.query_ids):
        more, base = target.leakage, own.leakage
        gaps = gap(more, base, confidence=confidence, side="both")
        yield from rows_of(str(ATTACK), scorer, ids, gaps)
        made = stats.gaps_over_questions(more, base, len(ids), confidence=confidence)
        yield from rows_of(str(ATTACK), scorer, ALL, *made.estimates, family="gaps")


def _attacked(run: RunEvidence, arms: Sequence[Drawn]) -> Drawn | None:
    """Return the draws of all questions with the found inputs; None if a question has no draws."""
    ids = [query.id for query in run.run.questions]
    rows = joined_rows([arm.draws for arm in arms], ids)
    if len(rows.ids) < len(ids):
        return None
    drawn = tuple(arm.arm for arm in arms)
    how: Any = {"order": order_of(drawn[0], run.scorer), "arms": drawn}
    return Drawn(rows, inputs=SEARCHED, **how)


def difference_rows(
    arms: Mapping[str, Arm], baseline: Arm, scorer: Scorer, *, questions: int, confidence: float
) -> Iterator[EstimateRow]:
    """Yield rows of the difference of each arm from the baseline, all valid simultaneously.

    There is a row for each question. If all `questions` questions have completions, there is also a
    row for the difference of the means. Raises MixError if two arms have completions of different
    questions.
    """
    base = drawn_of(baseline, scorer)
    for label, arm in arms.items():
        mine = drawn_of(arm, scorer)
        query_ids = mine.query_ids
        _require_same(label, query_ids, base.query_ids)
        beyond = partial(excess, mine, base, beyond="baseline")
        bounds = stats.difference_over_questions(
            partial(beyond, stats.LEAKAGE.mean()) if len(query_ids) == questions else None,
            beyond,
            len(query_ids),
            models=len(arms),
            confidence=confidence,
        )
        *means, entries = bounds.estimates
        yield from rows_of(label, scorer.name, ALL, *means, family="models")
        yield from rows_of(label, scorer.name, query_ids, entries, family="models")


def mean_of(arm: Arm, control: Arm | None, scorer: Scorer) -> stats.BoundFunction:
    """Return a bound of an arm's mean leakage over questions, or of its excess over a control.

    Raises MixError if the arm and the control have completions of different questions.
    """
    target = drawn_of(arm, scorer)
    if control is None:
        return target.mean
    other = drawn_of(control, scorer)
    _require_same(arm.place, target.query_ids, other.query_ids)
    return partial(excess, target, other, stats.LEAKAGE.mean())


def median_of(
    bounds: Sequence[stats.BoundFunction], arms: Sequence[Arm], confidence: float
) -> stats.Estimate:
    """Bound the median leakage over training seeds; with few seeds, only from below.

    `bounds`: one bound per seed, about its model. `arms`: all arms whose draws the bounds use.
    Raises InputError if there are too few seeds even for a lower bound.
    """
    keys = [arm.randomness for arm in arms]
    made = partial(
        stats.median_over_seeds,
        stacked(bounds),
        len(bounds),
        independent=None not in keys and len({*keys}) == len(keys),
        confidence=confidence,
    )
    try:
        return made(side="both")
    except InputError:
        return made(side="lower")


def _require_same(label: str, mine: Sequence[str], base: Sequence[str]) -> None:
    if not mine:
        raise MixError(f"{label!r} has no completions, so it cannot be compared. Sample it again.")
    lacking = [*(q for q in base if q not in set(mine)), *(q for q in mine if q not in set(base))]
    if lacking:
        raise MixError(
            f"{label!r} and its reference have completions of different questions: only one of "
            f"them has {some(lacking)}. Repeat the command of the incomplete run, or compare "
            "runs on the same questions."
        )
