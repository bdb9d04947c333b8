"""What is refused before a model draws anything, and what must be done before bounds are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.explore import require_explores
from leakbound.evaluation.drawing.prove import is_proved, named_runs, require_prover
from leakbound.evaluation.drawing.readings import require_able
from leakbound.evaluation.drawing.search import retained_pairs
from leakbound.evaluation.planning.metrics import Wanted
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.plan import SteeredPlan, arm_keys
from leakbound.store import ArmKey, Run
from leakbound.study import Attack, Rewritings
from leakbound.types import Decoding, Measures


def require_possible(
    jobs: Sequence[ModelArm], run: Run, drawing: SteeredPlan, wanted: Wanted
) -> None:
    """Refuse what a model cannot be asked, once it is loaded and before anything is drawn."""
    for job in jobs:
        job.engine.check(run.queries, job.decoding)
        if isinstance(job.engine, Measures):
            job.engine.measure(run.queries)
        require_able(job.engine, wanted)
        if drawing.explores and not job.decoding.greedy:
            require_explores(job.engine, str(job.key), job.decoding)
    if drawing.prove is not None:
        for job in jobs:
            if is_proved(job.key, job.decoding):
                require_prover(job.engine, str(job.key), job.decoding)
        named_runs(run, drawing.prove.proposals)


def require_inputs_fit(
    rewritings: Rewritings, arms: Mapping[ArmKey, Decoding], control: Path | None
) -> None:
    """Refuse what rewritings cannot be combined with."""
    if all(how.greedy for how in arms.values()):
        raise InputError(
            "`inputs` share the draws of a question among its queries, and greedy decoding draws "
            "none. Add a temperature above 0."
        )
    if rewritings.ids and control is not None:
        raise InputError(
            "`ids` selects inputs by the model under evaluation, so a finished control run was "
            "asked others. Name the control model itself, and it is asked the same."
        )


def require_attack_fits(
    attack: Attack, task: Benchmark, arms: Mapping[ArmKey, Decoding], control: Path | None
) -> None:
    """Refuse what a search for worst-case inputs cannot be combined with, or do without."""
    arm_keys(attack.decodings(list(arms.values())))
    retained_pairs(task)
    if control is not None:
        raise InputError(
            "`attack` asks the control what it finds for the model under evaluation, and a "
            "finished control run was asked others. Name the control model itself."
        )
