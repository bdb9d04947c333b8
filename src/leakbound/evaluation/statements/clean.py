"""Which questions are proved clean: leakage at most a limit, for all that are named at once."""

from __future__ import annotations

from leakbound import stats
from leakbound.errors import InputError
from leakbound.evaluation.scoring.checks import require_fixed_n, require_scores
from leakbound.evaluation.scoring.score import slug
from leakbound.store import Arm
from leakbound.types import Scorer


def clean_questions(
    arm: Arm, scorer: Scorer, limit: float, confidence: float
) -> tuple[tuple[str, ...], stats.CleanQuestions]:
    """The ids of an arm's questions, and Holm's verdict on each.

    The leak probability of a binary scorer, else the mean score, is at most `limit` at every
    question that holds, with `confidence` for all of them together. InputError for an arm that
    stopped early, was explored or asks rewritings: its p-values would not be valid.
    """
    require_fixed_n(arm)
    if arm.explored:
        raise InputError(
            f"{arm.place} was explored, and this needs draws of the whole "
            "distribution. Sample another run without --explore, or use `leakbound certify`."
        )
    if not arm.key.own_words:
        raise InputError(
            f"{arm.place} asks rewritings too, or what a search found, "
            "and this is about the questions' own words. Name the arm that asks those."
        )
    require_scores(arm, scorer)
    scores = arm.scores(slug(scorer))
    if scorer.binary:
        p = stats.proportion_p_value(scores.hits, scores.n, limit, missing=scores.missing)
    else:
        p = stats.mean_p_value(scores.scores, limit, scores.counts, missing=scores.missing)
    return scores.query_ids, stats.clean_questions(limit, p, confidence=confidence)
