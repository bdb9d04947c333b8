"""The four steps of drawing a study: check it, open its run, plan its arms, run the plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leakbound.drawing.explore import PROVING, require_explorable
from leakbound.drawing.plans import ArmPlan, Evaluation, arm_plans
from leakbound.drawing.prove import is_proved, named_runs, require_prover
from leakbound.drawing.queries import begin_run, shares_of
from leakbound.drawing.readings import copy_readings, read_model, require_able
from leakbound.drawing.sample import add_arms, draw_plans, finished_plans, require_same_plan
from leakbound.drawing.search import AttackSearch, retained_pairs
from leakbound.drawing.stressed import check_stresses, require_stresses, stressed_plans
from leakbound.engines.addresses import require_named
from leakbound.errors import InputError
from leakbound.planning.before_drawing import prompt_notes, show_notes, token_notes
from leakbound.planning.metrics import MODELS, require_known
from leakbound.planning.models import Fluency, require_openable, require_there
from leakbound.planning.plan import arm_keys
from leakbound.scoring.score import require_same_model
from leakbound.store import GREEDY, Arm, Run
from leakbound.store.arm_key import Model
from leakbound.store.plan import slice_of
from leakbound.study import Study, Until
from leakbound.types import Measures


def draw_study(evaluation: Evaluation) -> Run:
    """Draw every arm of a study, and return its run.

    Model and control are loaded, and every arm is planned, before anything is sampled. So an
    impossible request fails early. Only draws that select rewritings are made earlier. If the two
    models do not fit into memory together, evaluate the control first, and pass its run as the
    control.
    """
    check(evaluation)
    run = open_run(evaluation)
    run_plans(evaluation, run, plan(evaluation, run))
    return run


def check(evaluation: Evaluation) -> None:
    """Raise InputError for every fault that can be found without a model."""
    ready, control = evaluation.ready, evaluation.control
    _ = evaluation.claims  # raises for claims that nothing decides
    study, task = ready.study, ready.benchmark
    require_openable(evaluation.model, ready.crew)
    if control is not None and evaluation.finished is None:
        require_openable(control, ready.crew)
        require_there(control)
    if evaluation.slice is not None:
        slice_of(evaluation.slice)  # raises for an invalid name
        _require_divisible(study)
    Fluency.open(evaluation.wanted, task, study.settings.loading)  # raises early
    _require_fitting(evaluation)
    for rewriter in () if study.rewritings is None else study.rewritings.models:
        require_named(rewriter, study.trusted)
    for model in (evaluation.model, control) if ready.explores else ():
        require_explorable(model)
    if study.prove is not None:
        require_explorable(evaluation.model, PROVING)
    require_stresses(evaluation)


def open_run(evaluation: Evaluation) -> Run:
    """Begin or resume the run; raise MixError if `out` has the run of a different study."""
    ready = evaluation.ready
    show_notes(ready.notes, evaluation.progress)
    run = begin_run(evaluation)
    for scorer in ready.scorers:  # before hours of draws, because the scores would be refused
        require_same_model(run.arms.values(), scorer)
    arms = dict(evaluation.arms)
    if evaluation.finished is None:
        arms |= {key.control: decoding for key, decoding in evaluation.arms.items()}
    require_same_plan(run, arms, ready)
    if ready.study.prove is not None:
        named_runs(run, ready.study.prove.proposals)
    return run


def plan(evaluation: Evaluation, run: Run) -> list[ArmPlan]:
    """Open the models and plan the arms, the arms of the target first.

    Raises InputError for queries that a model does not accept.
    """
    shares = shares_of(run, evaluation.ready)
    finished: list[ArmPlan] = []
    if evaluation.finished is not None:
        arms = dict(evaluation.arms)
        if shares is not None:
            arms |= {key.with_rewritings: how for key, how in evaluation.sampled.items()}
        finished = finished_plans(run, evaluation.finished, arms)
        if evaluation.wanted.metrics:
            greedy = finished[0].by
            assert isinstance(greedy, Arm)
            require_known(greedy, evaluation.wanted)
    for role in evaluation.drawn:
        _require_possible(evaluation, run, role)
    plans = []
    for role in evaluation.drawn:
        arms = {replace(key, model=role): how for key, how in evaluation.arms.items()}
        plans += (own := arm_plans(evaluation, arms))
        plans += [
            replace(plan, key=plan.key.with_rewritings, spec=replace(plan.spec, shares=shares))
            for plan in own
            if shares is not None and not plan.spec.decoding.greedy
        ]
    check_stresses(evaluation, run)
    return [*plans, *finished]


def run_plans(evaluation: Evaluation, run: Run, plans: Sequence[ArmPlan]) -> None:
    """Record the plans, read the texts that metrics need, then draw.

    The order of the draws is: the planned arms, the arms under stress, the search for the worst
    inputs, and the arms with the worst inputs.
    """
    ready, progress, wanted = evaluation.ready, evaluation.progress, evaluation.wanted
    arms = add_arms(run, plans)
    run.remember_study(evaluation.record, evaluation.headline, evaluation.claims)
    notes = token_notes(evaluation.engine("target"), ready.benchmark, [*evaluation.arms.values()])
    specs = {plan.key: plan.spec for plan in plans}
    notes += prompt_notes(specs[GREEDY], specs.get(GREEDY.control))
    show_notes(notes, progress)
    run.remember_notes([*ready.notes, *notes])
    attack = ready.study.attack
    search = None if attack is None else AttackSearch(evaluation, run, attack)
    for arm, plan in zip(arms, plans, strict=True):
        if wanted.metrics and arm.key in MODELS.values():
            if isinstance(plan.by, Arm):
                copy_readings(plan.by, arm)
            else:
                read_model(arm, plan.by, wanted, progress)
    draw_plans(run, plans, ready, progress)
    for stressed in stressed_plans(evaluation, run):
        draw_plans(run, stressed, ready, progress)
    if search is not None:
        search.attack()


def _require_possible(evaluation: Evaluation, run: Run, role: Model) -> None:
    """Raise InputError for queries that a model does not accept. Nothing is drawn."""
    ready, engine = evaluation.ready, evaluation.engine(role)
    for decoding in evaluation.arms.values():
        engine.check(run.queries, decoding)
    if isinstance(engine, Measures):
        engine.measure(run.queries)
    require_able(engine, evaluation.wanted)
    for key, decoding in evaluation.arms.items():
        if ready.study.prove is not None and is_proved(replace(key, model=role), decoding):
            require_prover(engine, str(key), decoding)


def _require_divisible(study: Study) -> None:
    """Raise InputError if a slice has options that need all questions or a rewriting model."""
    inputs = study.rewritings
    named = {
        "--attack": study.attack,
        "--prove": study.prove,
        "--metrics": study.metrics,
        "--under": study.stress,
        "--until": isinstance(study.sampling, Until),
        "--inputs by a model": inputs and (inputs.models or inputs.ids or inputs.embedder),
    }
    for option in (option for option, value in named.items() if value):
        raise InputError(
            f"`{option}` needs all questions, but --questions draws a slice. Omit one of the two. "
            "--attack, --prove, --metrics and --under are possible after the merge: run the "
            "command without --questions, and with the merged run as --out."
        )


def _require_fitting(evaluation: Evaluation) -> None:
    """Raise InputError if rewritings, proofs or an attack do not fit the decodings or control."""
    study, finished = evaluation.ready.study, evaluation.finished is not None
    if study.rewritings is not None and not evaluation.sampled:
        raise InputError(
            "`inputs` divide the sampled draws of a question among its queries, but all decodings "
            "are greedy. Add a temperature above 0."
        )
    if study.rewritings is not None and study.rewritings.ids and finished:
        raise InputError(
            "`ids` selects rewritings with the evaluated model, so a finished control run has "
            "other queries than this run. Name the control's model instead of its run."
        )
    if study.attack is not None:
        arm_keys(study.attack.decodings([*evaluation.arms.values()]))  # raises for equal names
        retained_pairs(evaluation.ready.benchmark)
    if study.attack is not None and finished:
        raise InputError(
            "`attack` also samples the control on the queries that it finds, which a finished "
            "control run lacks. Name the control's model instead of its run."
        )
    if study.prove is not None and not evaluation.sampled:
        raise InputError(
            "`prove` searches for rare leaks under sampled decodings, but all decodings are "
            "greedy. Add a temperature above 0."
        )
