"""Model and control under stress: each made, asked and drawn like the model as it is, one by one.

A stressed model lies in the run's folder, under `stress`, until somebody removes it: `verify` reads
it, nothing else does. One is open at a time beside the model and its control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound.drawing.sample import draw_arm, import_control, plan_arm
from leakbound.errors import InputError
from leakbound.planning.models import ModelArm, model_arms
from leakbound.planning.plan import Prepared
from leakbound.store import Arm, ArmKey, Run
from leakbound.store.arm_key import Model
from leakbound.stress import Bench, Stress, stresses_of
from leakbound.stress.bench import OfWeights
from leakbound.types import Decoding, Generate, Measures, Progress, Query

FOLDER = "stress"
Named = str | Path | Generate


def spelt_out(ready: Prepared) -> Prepared:
    """The study with each of its stresses named by itself, as the arms are."""
    if not ready.study.stress:
        return ready
    specs = tuple(stress.spec for stress in stresses_of(ready.study.stress))
    return replace(ready, study=replace(ready.study, stress=specs))


def require_stresses(ready: Prepared, models: Sequence[Named], progress: Progress) -> None:
    """Refuse, before anything is loaded, what these models cannot be put through."""
    if not ready.study.stress:
        return
    if ready.crew is not None:
        raise InputError(
            "a stressed model is made in this process, and workers may not find its folder. Leave "
            "`stress` out, or draw without workers."
        )
    bench = _bench(ready, progress)
    for stress in stresses_of(ready.study.stress):
        if stress.drawn_only and ready.drawing.explores:
            raise InputError(
                f"the stress {stress.spec!r} can only be drawn, and `explore` asks for masses. "
                "Leave one of them out."
            )
        for model in models:
            stress.require(bench, model)
        stress.queries(bench)


@dataclass(frozen=True, slots=True)
class StressedDrawing:
    """The drawing of all arms under the stresses of a study.

    arms: the target's sampled ones, as it is.
    models: the target and, where there is one, its control.
    opened: an arm of each that is open, to be asked otherwise.
    finished: the folder of the control's run, where that is finished: of the stresses that it was
        put through itself, its draws are taken.
    """

    run: Run
    asked: Prepared
    arms: Mapping[ArmKey, Decoding]
    models: Mapping[Model, Named]
    opened: dict[Model, ModelArm]
    finished: Path | None
    progress: Progress

    def check(self) -> None:
        """Refuse what the models, as they are, cannot be asked otherwise, before all is drawn."""
        bench = _bench(self.asked, self.progress)
        for stress in stresses_of(self.asked.study.stress):
            if isinstance(stress, OfWeights):  # asked as before
                continue
            for job in self.opened.values():
                self._check(stress.engine(bench, job.engine), stress.queries(bench))

    def _check(self, engine: Generate, queries: tuple[Query, ...]) -> None:
        for decoding in self.arms.values():
            engine.check(queries or self.run.questions, decoding)

    def draw(self) -> None:
        """Draw every arm again under each stress, the control's after the target's.

        What is drawn already opens no model again.
        """
        for stress in stresses_of(self.asked.study.stress):
            for role in self.models:
                keys = {
                    replace(key, model=role).stressed(stress.spec): how
                    for key, how in self.arms.items()
                }
                if role == "control":
                    self._take(stress, keys)
                if not all(_finished(self.run, key) for key in keys):
                    self._draw(stress, role, keys)

    def _take(self, stress: Stress, arms: Mapping[ArmKey, Decoding]) -> None:
        """Take the draws of the control's own run under this stress, where it has just these."""
        if self.finished is None or any(self.run.arm(key) for key in arms):
            return
        source, queries = Run.open(self.finished), stress.queries(_bench(self.asked, self.progress))
        theirs = {key: source.arm(replace(key, model="target")) for key in arms}
        whole = {key: arm for key, arm in theirs.items() if arm is not None and _is_whole(arm)}
        if len(whole) == len(arms) and all(
            (arm.decoding, arm.spec.attack_queries, arm.plan.n, arm.spec.seed)
            == (arms[key], queries, self.asked.drawing.n, self.asked.study.seed)
            for key, arm in whole.items()  # the seed chooses what is taught
        ):
            import_control(self.run, whole)

    def _draw(self, stress: Stress, role: Model, arms: Mapping[ArmKey, Decoding]) -> None:
        ready, bench = self.asked, _bench(self.asked, self.progress)
        base, queries = self._job(stress, bench, role, next(iter(arms))), stress.queries(bench)
        engine = stress.engine(bench, base.engine)
        jobs = [
            replace(
                base,
                engine=engine,
                key=key,
                decoding=how,
                shares=None,
                attack_queries=queries,
                model=f"{_name_of(self.models[role])} under {stress.spec}",
            )
            for key, how in arms.items()
        ]
        self._check(engine, queries)
        if isinstance(engine, Measures):
            engine.measure(queries or self.run.questions)
        planned = [plan_arm(self.run, job, ready.drawing, ready.study.seed) for job in jobs]
        for arm, job in zip(planned, jobs, strict=True):
            draw_arm(arm, job, ready.drawing, self.progress)

    def _job(self, stress: Stress, bench: Bench, role: Model, key: ArmKey) -> ModelArm:
        """An arm of the stressed model, open: that of the model as it is where it is asked."""
        model = self.models[role]
        out = self.run.path / FOLDER / key.stress / role
        subject = stress.model(bench, model, out)
        if subject is model and role in self.opened:
            return self.opened[role]
        decoding = next(iter(self.arms.values()))
        settings = self.asked.study.settings
        (job,) = model_arms(subject, {key: decoding}, bench.task, settings, progress=self.progress)
        if subject is model:
            self.opened[role] = job
        return job


def _name_of(model: Named) -> str:
    """The name of a model in results."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def _finished(run: Run, key: ArmKey) -> bool:
    arm = run.arm(key)
    return arm is not None and _is_whole(arm)


def _is_whole(arm: Arm) -> bool:
    return not arm.missing_parts() and not arm.unlooked()


def _bench(ready: Prepared, progress: Progress) -> Bench:
    study = ready.study
    return Bench(task=ready.benchmark, settings=study.settings, seed=study.seed, progress=progress)
