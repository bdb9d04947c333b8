"""What must be there before a run is scored and bounded."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.errors import IncompleteError, InputError, UnansweredError
from leakbound.evaluation.scoring.score import slug
from leakbound.store import Arm, Run, StoppedDraws
from leakbound.store.tables import DRAWN_AGAIN
from leakbound.types import Scorer


def require_fixed_n(arm: Arm) -> None:
    """Refuse an arm whose questions stopped early, where a bound needs n fixed beforehand."""
    if isinstance(arm.spec.draws, StoppedDraws):
        raise InputError(
            f"{arm.place} drew each question until "
            f"{arm.spec.draws.claim!r} was decided, and this needs a number of draws that was "
            "fixed beforehand. Sample another run without --until."
        )


def require_complete(run: Run) -> None:
    """Raise UnansweredError, naming them, where questions have no completions."""
    failed = [(name, *item) for name, arm in run.arms.items() for item in arm.failures.items()]
    if failed:
        arm, query_id, reason = failed[0]
        prompt_of = {q.id: q.prompt_id for one in run.arms.values() for q in one.queries}
        questions = {prompt_of[query] for _, query, _ in failed}
        raise UnansweredError(
            f"{len(questions)} of the {len(run.prompts)} questions could not be sampled in "
            f"{len({name for name, *_ in failed})} of {len(run.arms)} arms; first: {query_id!r} in "
            "arm "
            f"{arm!r}: {reason}. The others are done and stand in `{run.path}`; statements about "
            "all questions are left out. Check the model; then run the same command again."
        )


def require_sampled(run: Run) -> None:
    """Raise IncompleteError where an arm's parts are not all there yet, and whole.

    Nothing is renamed: whoever draws sets damaged files aside.
    """
    run.require_drawn()
    for name, arm in run.arms.items():
        for fault in arm.faults():
            raise IncompleteError(
                f"{fault}, so that arm {name!r} of `{run.path}` lacks a part. {DRAWN_AGAIN}"
            )


def require_texts(run: Run, specs: Sequence[str]) -> None:
    """Refuse to score what was imported as scores alone; thresholds on these may be stored."""
    bare = next((name for name, arm in run.arms.items() if not arm.texts), None)
    if bare is not None and not (specs and all(">=" in spec for spec in specs)):
        raise InputError(
            f"arm {bare!r} of `{run.path}` has scores and no texts: they were redacted. Run "
            f"`leakbound bound {run.path}`, or score the run that they came from."
        )


def require_scores(arm: Arm, scorer: Scorer) -> None:
    """Refuse an arm whose completions, as they are now, have no scores of this scorer."""
    if arm.scored(scorer.name, slug(scorer)) is None:
        raise InputError(
            f"{arm.place} has no scores of {scorer.name!r} for the "
            "completions it has now. Run `leakbound score` first."
        )
