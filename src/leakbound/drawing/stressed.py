"""Make the stressed versions of the model and its control, and draw from one at a time.

A stressed model is stored in the subfolder `stress` of the run's folder. After
the draws, only `verify` loads it again. At most one stressed model is open at a
time, in addition to the model and its control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from leakbound.drawing.plans import ArmPlan, Evaluation, arm_plans
from leakbound.errors import InputError
from leakbound.planning.models import open_model
from leakbound.planning.plan import Prepared
from leakbound.store import Arm, ArmKey, Run
from leakbound.store.arm_key import Model
from leakbound.stress import Bench, Stress, stresses_of
from leakbound.stress.bench import OfWeights
from leakbound.types import Decoding, Generate, Measures, Query

FOLDER = "stress"


def spelt_out(ready: Prepared) -> Prepared:
    """Return the study with one entry per stress: each stress has its own arms."""
    if not ready.study.stress:
        return ready
    specs = tuple(stress.spec for stress in stresses_of(ready.study.stress))
    return replace(ready, study=replace(ready.study, stress=specs))


def require_stresses(evaluation: Evaluation) -> None:
    """Raise InputError for a stress that the models do not support. No model is loaded."""
    ready = evaluation.ready
    if not ready.study.stress:
        return
    if ready.crew is not None:
        raise InputError(
            "`stress` writes models to local folders, which workers may not find. Omit `stress`, "
            "or the workers."
        )
    bench = _bench(evaluation)
    for stress in stresses_of(ready.study.stress):
        if stress.drawn_only and ready.explores:
            raise InputError(
                f"under the stress {stress.spec!r}, outputs can only be sampled, but `explore` "
                "needs exact probabilities. Omit the stress or `explore`."
            )
        for model in evaluation.models.values():
            stress.require(bench, model)
        stress.queries(bench)


def check_stresses(evaluation: Evaluation, run: Run) -> None:
    """Raise InputError for stressed queries that a model does not accept. Nothing is drawn."""
    bench = _bench(evaluation)
    for stress in stresses_of(evaluation.ready.study.stress):
        if not isinstance(stress, OfWeights):  # a stress of weights uses the original questions
            for role in evaluation.drawn:
                engine = stress.engine(bench, evaluation.engine(role))
                _check(evaluation, engine, stress.queries(bench) or run.questions)


def stressed_plans(evaluation: Evaluation, run: Run) -> Iterator[list[ArmPlan]]:
    """Yield the arm plans of each model under each stress: first the target, then the control.

    A stressed model is made and opened only if some of its draws are missing. If the control is a
    finished run with the same stress, its draws are copied.
    """
    for stress in stresses_of(evaluation.ready.study.stress):
        for role in evaluation.models:
            arms = {
                replace(key, model=role).stressed(stress.spec): decoding
                for key, decoding in evaluation.sampled.items()
            }
            planned = [run.arm(key) for key in arms]
            if all(arm is not None and _is_drawn(arm) for arm in planned):
                continue
            copied: list[ArmPlan] = []
            if role == "control" and all(arm is None or arm.spec.copied for arm in planned):
                copied = _copy(evaluation, stress, arms)
            yield copied or _made(evaluation, run, stress, role, arms)


def _copy(evaluation: Evaluation, stress: Stress, arms: Mapping[ArmKey, Decoding]) -> list[ArmPlan]:
    """Plan arms that copy the control's finished run; return [] if the run has different arms."""
    if evaluation.finished is None:
        return []
    source, queries = Run.open(evaluation.finished), stress.queries(_bench(evaluation))
    plans = []
    for key, decoding in arms.items():
        arm = source.arm(replace(key, model="target"))
        if arm is None or not _is_drawn(arm):
            return []
        ready = evaluation.ready  # the seed of the study selects the texts that are taught
        same = (decoding, queries, ready.n, ready.study.seed)
        if (arm.decoding, arm.spec.attack_queries, arm.plan.n, arm.spec.seed) != same:
            return []
        plans.append(ArmPlan.copied(key, arm))
    return plans


def _made(
    evaluation: Evaluation, run: Run, stress: Stress, role: Model, arms: Mapping[ArmKey, Decoding]
) -> list[ArmPlan]:
    """Make a stressed model and plan its arms; raise an error for queries that it rejects."""
    bench, model = _bench(evaluation), evaluation.models[role]
    subject = stress.model(bench, model, run.path / FOLDER / next(iter(arms)).stress / role)
    if subject is model:
        base = evaluation.engine(role)
    else:
        base = open_model(subject, evaluation.ready, evaluation.progress)
    engine, queries = stress.engine(bench, base), stress.queries(bench)
    _check(evaluation, engine, queries or run.questions)
    if isinstance(engine, Measures):
        engine.measure(queries or run.questions)
    return arm_plans(evaluation, arms, queries=queries, stressed=(stress.spec, engine, base))


def _check(evaluation: Evaluation, engine: Generate, queries: tuple[Query, ...]) -> None:
    for decoding in evaluation.sampled.values():
        engine.check(queries, decoding)


def _is_drawn(arm: Arm) -> bool:
    return not arm.missing_parts() and not arm.unlooked()


def _bench(evaluation: Evaluation) -> Bench:
    ready = evaluation.ready
    return Bench(
        task=ready.benchmark,
        settings=ready.study.settings,
        seed=ready.study.seed,
        progress=evaluation.progress,
    )
