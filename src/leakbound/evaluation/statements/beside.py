"""Two sets of questions put to one model: how much more one set leaks than the other.

Most people have no model that never saw the data. Questions of the same kind that the model was
never taught tell what it says of such by itself: if nothing were known of either set, both would
leak alike but for what makes them different. That last is not bounded by anything: the statement is
about these two sets in this model, and no excess over a model that never saw the data.

The mean over each set is bounded by itself and alpha is shared, which holds whatever their draws
share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from leakbound import stats
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.evidence import ArmEvidence, RunEvidence
from leakbound.evaluation.statements.rows import rows_of
from leakbound.store import ALL, Arm, EstimateRow, Run
from leakbound.store.record import FILE

OTHERS = "control-questions"
"""The folder, within that of the run, of the run that asks the other questions."""


def other_arms(run: Run) -> Mapping[str, Arm]:
    """The arms that ask the other questions, by the names of those that ask these."""
    folder = run.path / OTHERS
    return Run.open(folder).arms if (folder / FILE).is_file() else {}


def beside_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """How much more each sampled target arm leaks of its questions than of the others, on average.

    Nothing where no others were asked, where some have no completions or no scores by this scorer.
    """
    others = other_arms(run.run)
    for name, mine in run.arms.items():
        arm = others.get(name)
        if arm is None or mine.greedy is not None or not mine.whole:
            continue
        if not arm.scored.has(run.scorer.name, slug(run.scorer)):
            continue
        other = ArmEvidence(arm, run.scorer)
        if other.whole:
            more = partial(stats.excess_of, mine.known.mean, other.known.mean)
            made = more(beyond="other questions", confidence=confidence, side="both")
            yield from rows_of(name, run.scorer.name, ALL, made)
