"""Plan the arms of a study: of its model and of its control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from leakbound.drawing.explore import require_explores
from leakbound.drawing.parts import machine
from leakbound.engines import absolute
from leakbound.errors import InputError
from leakbound.planning.before_drawing import longest_answer
from leakbound.planning.metrics import Wanted, choose
from leakbound.planning.models import Named, name_of, open_model
from leakbound.planning.plan import Prepared, arm_keys
from leakbound.scorers import digest
from leakbound.stats import parse_claim
from leakbound.store import GREEDY, Arm, ArmKey, ArmSpec, CopiedFrom, ExploredDraws, Run
from leakbound.store.arm_key import Model
from leakbound.store.claims import Headline, LeakClaim, RecordedClaim
from leakbound.study import Until
from leakbound.study.sampling import limit_of
from leakbound.types import Decoding, Generate, JsonObject, Probes, Progress, Query, silent


@dataclass(frozen=True)
class Evaluation:
    """A study with its models: everything that its draws depend on.

    A model is opened when it is first used.

    Attributes:
        ready: the study.
        model: the model under evaluation.
        control: a model that never saw the data, or the finished run of such a model; None: no
            control.
        out: the folder of the run.
        progress: called with the progress of each step.
        slice: the slice to draw, i/N; None: the complete study.
    """

    ready: Prepared
    model: Named
    control: Named | None
    out: Path
    progress: Progress = silent
    slice: str | None = None
    _engines: dict[Model, Generate] = field(default_factory=dict, compare=False)

    @cached_property
    def arms(self) -> dict[ArmKey, Decoding]:
        """The decoding of each arm of the target, the greedy arm first."""
        decodings = self.ready.study.decodings
        return {GREEDY: decodings[0].greediest, **arm_keys(decodings)}

    @property
    def sampled(self) -> dict[ArmKey, Decoding]:
        """The target's sampled arms, without the greedy arms."""
        return {key: decoding for key, decoding in self.arms.items() if not decoding.greedy}

    @property
    def headline(self) -> Headline | None:
        """The statements that form the verdict; None if nothing is scored or sampled."""
        scorers = self.ready.scorers
        if not (self.sampled and scorers):
            return None
        return Headline(scorer=scorers[0].name, arm=self._first, control=self.control is not None)

    @property
    def claims(self) -> tuple[RecordedClaim, ...]:
        """The claims of the study, with the claim of `Until` if the study has one.

        Raises InputError for claims that the first scorer or decoding cannot decide.
        """
        study, scorers = self.ready.study, self.ready.scorers
        limits = [*map(limit_of, study.claims)]
        if isinstance(study.sampling, Until) and scorers[0].binary:
            limits.append((parse_claim(study.sampling.claim).limit, True))
        if study.claims and not (self.sampled and scorers and scorers[0].binary):
            raise InputError(
                f"`claim` {study.claims[0]} needs sampled draws and a binary first scorer. "
                "Use a scorer such as 'rouge-l-recall>=0.5', and a temperature above 0."
            )
        return tuple(
            RecordedClaim(
                claim=LeakClaim(
                    max_leak=limit,
                    every_question=every,
                    scorer=scorers[0].name,
                    arm=self._first,
                    confidence=study.confidence,
                ),
                digest=digest(scorers[0]),
            )
            for limit, every in limits
        )

    @property
    def _first(self) -> str:
        """The name of the first sampled arm."""
        return str(next(iter(self.sampled)))

    @cached_property
    def finished(self) -> Path | None:
        """The folder of the control's run if the control is a finished run, else None."""
        return finished_run(self.control)

    @cached_property
    def models(self) -> dict[Model, Named]:
        """The target, and the control if there is one. For a control run, the run's model."""
        control = self.control
        if self.finished is not None:
            control = Run.open(self.finished).model(GREEDY)
        return {"target": self.model, **({} if control is None else {"control": control})}

    @property
    def drawn(self) -> tuple[Model, ...]:
        """The models that this evaluation draws from. A finished control run is not drawn again."""
        return tuple(role for role in self.models if role == "target" or self.finished is None)

    @cached_property
    def wanted(self) -> Wanted:
        """The study's metrics, and the texts that they need.

        Raises InputError for an unknown metric, or a metric without its data.
        """
        ready = self.ready
        sampled = bool(self.sampled) and not ready.explores
        return choose(
            ready.study.metrics,
            ready.benchmark,
            control=self.control is not None,
            draws=ready.n if sampled else 0,
        )

    @property
    def record(self) -> JsonObject:
        """The study for run.json, with absolute paths of models."""
        control: object = self.control
        if isinstance(self.control, str | Path):
            control = absolute(str(self.control))
        elif self.control is not None:
            control = {"python": name_of(self.control)}
        return {**self.ready.study.to_dict(), "control": control}

    def engine(self, role: Model) -> Generate:
        """Return the engine of a model. It is opened at the first call."""
        if role not in self._engines:
            self._engines[role] = open_model(self.models[role], self.ready, self.progress)
        return self._engines[role]


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """An arm to draw or to copy.

    Attributes:
        key: the key of the arm.
        spec: everything that is fixed in advance, such as the decoding, the queries and the number
            of their draws.
        by: the engine that draws the arm, or the arm of a finished run whose draws are copied.
    """

    key: ArmKey
    spec: ArmSpec
    by: Generate | Arm

    @classmethod
    def copied(cls, key: ArmKey, source: Arm) -> ArmPlan:
        """Plan an arm that copies the draws of a finished run's arm."""
        own = source.spec.copied
        copied = CopiedFrom(source.identity, source.key if own is None else own.drawn_as)
        return cls(key, replace(source.spec, copied=copied), source)


def arm_plans(
    evaluation: Evaluation,
    arms: Mapping[ArmKey, Decoding],
    *,
    queries: tuple[Query, ...] = (),
    stressed: tuple[str, Generate, Generate] | None = None,
) -> list[ArmPlan]:
    """Plan arms that an engine draws or explores.

    Raises InputError if an arm is to be explored, but its engine cannot explore.

    Args:
        evaluation: the study with its models.
        arms: the decoding of each arm; the key of an arm names its model.
        queries: the queries of the arms; empty for the questions.
        stressed: the spec of a stress, the engine under this stress, and the same engine without
            the changes of prompts (None: no stress).
    """
    ready, plans = evaluation.ready, []
    for key, decoding in arms.items():
        name = name_of(evaluation.models[key.model])
        if stressed is None:
            engine = base = evaluation.engine(key.model)
        else:
            stress, engine, base = stressed
            name = f"{name} under {stress}"
        plan, draws = ready.arm_draws(key, decoding)
        if isinstance(draws, ExploredDraws):
            require_explores(engine, str(key), decoding)
        spec = ArmSpec(
            fingerprint=engine.fingerprint,
            decoding=decoding,
            plan=plan,
            draws=draws,
            seed=ready.study.seed,
            attack_queries=queries,
            model=name,
            place=absolute(name),
            machine=machine(engine),
            probe=engine.probe if isinstance(engine, Probes) else None,
            longest_answer=longest_answer(base, ready.benchmark.prompts),
        )
        plans.append(ArmPlan(key, spec, engine))
    return plans


def finished_run(control: object) -> Path | None:
    """Return the folder of a control or proposal that is a finished run; None for a model."""
    if isinstance(control, str | Path) and (Path(control) / "run.json").is_file():
        return Path(control)
    return None
