"""The difference in leakage between two sets of questions in one model.

Usually no model is available that never saw the data. Instead, the leakage can
be compared with the leakage of control questions: questions of the same kind
that the model was never taught. If the model knew neither set, both sets would
leak equally, except for differences between the questions of the sets. Such
differences have no bound. So the statement is about these two sets in this
model. It is not an excess over a model that never saw the data.

If the numbers of draws were fixed in advance and the draws of the two sets
share no randomness, the difference has one bound with all of alpha
(`stats.excess_over_sets`). Otherwise the mean over each set is bounded at half
of alpha, which is valid even if the draws are dependent.

A coin (the random choice in `leakbound.benchmarks.coin`) may have chosen the
taught subjects. If the control questions are about the other subjects, the
hypothesis "teaching changed nothing" is tested, see
`leakbound.stats.randomisation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean

import numpy as np

from leakbound import stats
from leakbound.bounding.comparisons import share_nothing
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence, drawn_of
from leakbound.bounding.rows import rows_of
from leakbound.scoring.score import slug
from leakbound.store import ALL, EstimateRow, Run
from leakbound.store.record import FILE
from leakbound.types import BenchmarkRecord

OTHERS = "control-questions"
"""The folder of the run on the control questions, inside the run's folder."""


def other_run(run: Run) -> Run | None:
    """Return the run on the control questions, or None if the run has no control questions."""
    folder = run.path / OTHERS
    return Run.open(folder) if (folder / FILE).is_file() else None


def control_question_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows of the difference in leakage between the questions and the control questions.

    Each sampled target arm has a row with the difference of the two means. There are no rows if the
    run has no control questions, or if some control questions have no completions or no scores by
    this scorer.
    """
    others, scorer = other_run(run.run), run.scorer
    for name, mine in run.arms.items():
        arm = None if others is None else others.arms.get(name)
        if others is None or arm is None or mine.greedy or not mine.complete:
            continue
        if not arm.scored.has(scorer.name, slug(scorer)):
            continue
        other = drawn_of(arm, scorer)
        if other.complete:
            made = _difference(mine, other, confidence)
            records = (run.run.record.benchmark, others.record.benchmark)
            yield from rows_of(name, scorer.name, ALL, made, *_of_coin(*records, mine, other))


def _difference(mine: Drawn, other: Drawn, confidence: float) -> stats.Estimate:
    """Bound the mean leakage of the questions minus the mean leakage of the control questions."""
    if mine.rows and other.rows and share_nothing(mine.arms, other.arms):
        keys = np.concatenate([mine.keys, other.keys])
        return stats.excess_over_sets(mine.rows, other.rows, confidence=confidence, seed=keys)
    return stats.excess_of(mine.mean, other.mean, beyond="other questions", confidence=confidence)


def _of_coin(
    mine: BenchmarkRecord, others: BenchmarkRecord, taught: Drawn, untaught: Drawn
) -> Iterator[stats.Estimate]:
    """Test "teaching changed nothing" if a coin chose the taught subjects and all have draws.

    The leakage of a subject is the mean of the mean scores of the questions about the subject. A
    draw without a score counts as 0. This rule and the numbers of draws must be fixed in advance.
    """
    half, other = mine.half, others.half
    if half is None or other is None or taught.rows is None or untaught.rows is None:
        return
    fell = (half.benchmark, half.seed, half.side, other.side)
    if fell != (other.benchmark, other.seed, "taught", "untaught"):
        return
    if all(len(own.subjects) == record.prompts for own, record in ((half, mine), (other, others))):
        sides = _by_subject(half.subjects, taught), _by_subject(other.subjects, untaught)
        yield stats.randomisation_test(*sides, seed=half.seed)


def _by_subject(subjects: Mapping[str, str], evidence: Drawn) -> list[float]:
    """Return the leakage of each subject, see `_of_coin`."""
    rows = evidence.draws
    leaks = (rows.values * rows.counts).sum(axis=1) / rows.n
    by_subject: dict[str, list[float]] = {}
    for query_id, leak in zip(evidence.query_ids, leaks.tolist(), strict=True):
        by_subject.setdefault(subjects[query_id], []).append(leak)
    return [fmean(values) for values in by_subject.values()]
