"""What is refused before a model draws anything, and what must be done before bounds are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation.drawing.explore import require_explores
from leakbound.evaluation.drawing.readings import require_able
from leakbound.evaluation.drawing.sample import Job, arm_names
from leakbound.evaluation.drawing.search import retained_pairs
from leakbound.evaluation.study.attack import Attack
from leakbound.evaluation.study.metrics import Wanted
from leakbound.evaluation.study.plan import Drawing
from leakbound.evaluation.study.rewritings import Inputs
from leakbound.stats.bands import LEAST_ALPHA
from leakbound.store import Run, require_drawn
from leakbound.store.tables import DRAWN_AGAIN
from leakbound.types import Decoding, Measures

LEAST_SHARE = 1e-14  # of alpha: 1 less that keeps two digits of it


def require_complete(run: Run) -> None:
    """Raise IncompleteError, naming them, where questions have no completions."""
    failed = [(name, *item) for name, arm in run.arms.items() for item in arm.failures.items()]
    if failed:
        arm, query_id, reason = failed[0]
        prompt_of = {q.id: q.prompt_id for one in run.arms.values() for q in one.queries}
        questions = {prompt_of[query] for _, query, _ in failed}
        raise IncompleteError(
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
    require_drawn(run)
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


def require_confidence(confidence: float, questions: int) -> None:
    """Refuse, before anything is sampled for it, a confidence that some statement cannot have.

    A band, of every x or k at once, spends half of alpha, and none is solved below `LEAST_ALPHA`.
    The largest excess over a control among N questions spends alpha/4N on one bound.
    """
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence!r}. Use 0.99."
        )
    least = max(2 * LEAST_ALPHA, 4 * questions * LEAST_SHARE)
    if 1 - confidence < least:
        raise InputError(
            f"`confidence` is too near 1, got {confidence!r}: shared among the statements about "
            f"{questions:,} questions, an error rate below {least:.2g} is more than float64 can "
            f"tell from none. Use {1 - 1.01 * least:.13g} or less."
        )


def require_possible(jobs: Sequence[Job], run: Run, drawing: Drawing, wanted: Wanted) -> None:
    """Refuse what a model cannot be asked, once it is loaded and before anything is drawn."""
    for job in jobs:
        job.engine.check(run.queries, job.decoding)
        if isinstance(job.engine, Measures):
            job.engine.measure(run.queries)
        require_able(job.engine, wanted)
        if drawing.exploring is not None and not job.decoding.greedy:
            require_explores(job.engine, job.arm, job.decoding)


def require_inputs_fit(
    inputs: Inputs, drawing: Drawing, arms: Mapping[str, Decoding], control: Path | None
) -> None:
    """Refuse what rewritings cannot be combined with."""
    if drawing.until is not None or drawing.exploring is not None:
        raise InputError(
            "`inputs` share a fixed number of outputs among the queries of a question, and "
            "`until` and `explore` fix none. Leave one of them out."
        )
    if all(how.greedy for how in arms.values()):
        raise InputError(
            "`inputs` share the draws of a question among its queries, and greedy decoding draws "
            "none. Add a temperature above 0."
        )
    if inputs.ids and control is not None:
        raise InputError(
            "`ids` selects inputs by the model under evaluation, so a finished control run was "
            "asked others. Name the control model itself, and it is asked the same."
        )


def require_attack_fits(
    attack: Attack, task: Benchmark, arms: Mapping[str, Decoding], control: Path | None
) -> None:
    """Refuse what a search for worst-case inputs cannot be combined with, or do without."""
    arm_names(attack.decodings(list(arms.values())))
    retained_pairs(task)
    if control is not None:
        raise InputError(
            "`attack` asks the control what it finds for the model under evaluation, and a "
            "finished control run was asked others. Name the control model itself."
        )
