"""`Study`: all settings of an evaluation, with their form in YAML and run.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines.addresses import servers_of
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.scorers import specs_of
from leakbound.stats import ed
from leakbound.study.rewritings import NONE, Rewritings
from leakbound.study.sampling import (
    Attack,
    Explore,
    FixedN,
    Prove,
    SamplingPlan,
    Until,
    draws_of,
    limit_of,
    with_draws,
)
from leakbound.study.settings import ModelSettings
from leakbound.text.rows import read_yaml
from leakbound.types import Decoding, Scorer, Workers, from_json, object_of
from leakbound.types.decoding import require
from leakbound.types.records import require_types

CONFIDENCE = 0.99
RHO = 2.0  # the rho of Scholten et al. and of Cheng et al.
_LONG = 400  # largest number of characters shown of an error about a file
_PLAN, _SETTINGS = FixedN(), ModelSettings()
_PLANS: dict[str, tuple[str, type]] = {
    "n": ("n", FixedN),
    "until": ("claim", Until),
    "explore": ("mode", Explore),
}
"""The key of each sampling plan in files, with the plan's first field and its class."""


class StudyFields(TypedDict, total=False):
    """The fields of a `Study` as keywords; `n` is short for `sampling=FixedN(n)`."""

    n: int
    data: str | Path | None
    limit: int | None
    profile: str | None
    sampling: SamplingPlan
    decodings: tuple[Decoding, ...]
    rewritings: Rewritings | None
    attack: Attack | None
    prove: Prove | None
    stress: tuple[str, ...]
    control_questions: str | None
    scorers: str | Scorer | tuple[str | Scorer, ...]
    claims: str | tuple[str, ...]
    allow_unmatched: bool
    check_scorers: bool
    calibration: str | Path | None
    metrics: tuple[str, ...]
    confidence: float
    rho: float
    seed: int
    settings: ModelSettings
    servers: frozenset[str] | None
    workers: Workers | None


@dataclass(frozen=True, slots=True, repr=False)
class Study:
    """All settings of an evaluation. `replace(study, seed=1)` returns a copy with another seed.

    Values of the benchmark, and of its profile if there is one, replace fields with default values.
    run.json has all fields except `servers` and `workers`, so a study can be run again.

    Attributes:
        benchmark: its spec, such as "tofu:forget10" or "my.csv", or a loaded `Benchmark`.
        data: the folder of the benchmark's files (None: the folder in the environment variable
            LEAKBOUND_DATA, then the hub).
        limit: use only the first questions (None: all).
        profile: a name of `benchmarks.profiles()`; the profile decides prompts, decoding and
            scorers (None: the benchmark's profile).
        sampling: `FixedN(n)`, `Until(claim)` or `Explore(mode)`.
        decodings: the output distributions to draw from (default: T = 1 without truncation, with
            the benchmark's token limit).
        rewritings: other wordings of every question that the model gets in addition to the question
            (None: the rewritings of the profile, if any).
        attack: the search for the input that leaks most (None: no search).
        prove: the search for leaks that are too rare to occur among the draws (None: no search).
        stress: changes of model and control before they are evaluated again, such as
            "round:int4". `leakbound.stress.STRESSES` has all changes.
        control_questions: the spec of a benchmark with similar questions that the model was never
            taught; the leakage of the questions is compared with the leakage of these questions
            (None: no comparison).
        scorers: scorers of completions in [0, 1]. The first scorer decides claims and guides
            searches (default: the scorers of the benchmark). The run records only the name of a
            scorer object, so other processes cannot make this scorer again.
        claims: limits of the leak probability by the first scorer, under the first decoding: "0.01"
            for the mean or "every:1%" for every question. Each claim is recorded before drawing,
            and decided at its own error rate (default: none).
        allow_unmatched: whether to draw, with a warning, even if some scorer counts no reference
            answer as a leak. If False, such a scorer raises InputError.
        check_scorers: whether all scorers are tested on the reference answers before drawing. If
            False, scorers that need a model are not tested.
        calibration: a file of outputs that people labelled, used to correct for a judge's errors
            (None: no correction).
        metrics: names of utility and memorisation metrics, or "all" (default: none).
        confidence: the confidence of each estimate, in (0, 1).
        rho: the weight of the standard deviation in the ED score, mean + rho standard deviations,
            at least 0.
        seed: the seed of all draws.
        settings: how models are loaded and prompted.
        servers: URLs of chat servers that may get requests (None: the servers that scorers and
            rewritings name). A study from a run or a file trusts no server and no model code:
            requests quote questions and answers, and the file may come from a stranger.
        workers: processes that draw, such as `RayWorkers` (None: this process). Workers do not
            change the results. A run can be resumed with or without workers.

    Raises:
        InputError: two fields exclude each other.
    """

    benchmark: str | Benchmark | None = None
    _: KW_ONLY
    data: str | Path | None = None
    limit: int | None = None
    profile: str | None = None
    sampling: SamplingPlan = _PLAN
    decodings: tuple[Decoding, ...] = ()
    rewritings: Rewritings | None = None
    attack: Attack | None = None
    prove: Prove | None = None
    stress: tuple[str, ...] = ()
    control_questions: str | None = None
    scorers: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    allow_unmatched: bool = True
    check_scorers: bool = False
    calibration: str | Path | None = None
    metrics: tuple[str, ...] = ()
    confidence: float = CONFIDENCE
    rho: float = RHO
    seed: int = 0
    settings: ModelSettings = _SETTINGS
    servers: frozenset[str] | None = field(default=None, compare=False)
    workers: Workers | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("decodings", "stress", "claims", "metrics"):  # a single value becomes a tuple
            value = getattr(self, name)
            single = isinstance(value, str) or not isinstance(value, Iterable)
            object.__setattr__(self, name, (value,) if single else tuple(value))
        object.__setattr__(self, "scorers", specs_of(self.scorers))
        for name in ("data", "calibration"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else str(value))
        if isinstance(self.benchmark, Benchmark):
            for name in ("data", "limit", "profile"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(
                        f"`{name}` {value!r} has no effect, because the benchmark is already "
                        f"loaded. Pass `{name}` to `load_benchmark`."
                    )
        fits, want = isinstance(self.sampling, SamplingPlan), "FixedN, Until or Explore"
        require(fits, "sampling", self.sampling, want, "Use FixedN(1024).")
        shared = "`inputs` need a fixed number of draws per question"
        bounded = "`attack` needs a fixed number of draws per question"
        for value, reason in ((self.rewritings, shared), (self.attack, bounded)):
            if value is not None and not isinstance(self.sampling, FixedN):
                raise InputError(
                    f"{reason}, which `until` and `explore` do not have. Omit one of these options."
                )
        require_types(self)
        ed(self.rho)  # raises for a negative rho
        for claim in self.claims:
            limit_of(claim)  # raises for other texts

    def __repr__(self) -> str:
        """Return the benchmark and the fields without default values."""
        usual = Study()
        named = isinstance(self.benchmark, Benchmark)
        spec = [self.benchmark.name if named else self.benchmark]  # type: ignore[union-attr]
        changed = [f for f in fields(self)[1:] if getattr(self, f.name) != getattr(usual, f.name)]
        stated = [f"{f.name}={getattr(self, f.name)!r}" for f in changed if f.repr and f.compare]
        return f"Study({', '.join([*map(repr, spec), *stated])})"

    def load(self) -> Benchmark:
        """Load the benchmark; raise InputError if the study names none."""
        if isinstance(self.benchmark, Benchmark):
            return self.benchmark
        if not self.benchmark:
            raise InputError("`--benchmark` is missing. Add it, as in --benchmark tofu:forget10.")
        return load_benchmark(
            self.benchmark, data=self.data, limit=self.limit, profile=self.profile
        )

    def resolved(self, task: Benchmark) -> Study:
        """Return the study in which the benchmark's values replace missing values.

        Raises InputError if the file of rewritings does not exist.
        """
        rewritings = self.rewritings or (Rewritings(**task.rewritings) if task.rewritings else None)
        if rewritings is not None:
            rewritings.require_file()
        return replace(
            self,
            **({"benchmark": task} if task.loaded is None else _named(task)),
            sampling=with_draws(self.sampling, task.n),
            decodings=self.decodings or (task.decoding,),
            rewritings=rewritings,
        )

    @property
    def trusted(self) -> frozenset[str]:
        """The servers that may get requests."""
        if self.servers is not None:
            return self.servers
        return servers_of(self.scorers, () if self.rewritings is None else self.rewritings.models)

    def departures(self, task: Benchmark) -> tuple[str, ...]:
        """Return a note on the settings that differ from the benchmark's profile, if any."""
        if task.profile is None:
            return ()
        ours, theirs = self.decodings, task.decoding
        pairs: list[tuple[str, object, object]] = [
            ("n", draws_of(self.sampling), task.n),
            ("scorers", ", ".join(self.scorers) or None, ", ".join(task.scorers)),
            ("template", self.settings.template, task.template),
            ("rho", self.rho, RHO),
        ]
        pairs += [(k, getattr(self.rewritings, k, None), v) for k, v in task.rewritings.items()]
        if len(ours) == 1:
            names = (field.name for field in fields(theirs))
            pairs += [(name, getattr(ours[0], name), getattr(theirs, name)) for name in names]
        elif ours:
            pairs.append(("decoding", ", ".join(decoding.name for decoding in ours), theirs.name))
        other = [f"{k} {a!r}, not {b!r}" for k, a, b in pairs if a is not None and a != b]
        if not other:
            return ()
        return (f"this study differs from its profile {task.profile}: {'; '.join(other)}",)

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of run.json, with absolute paths of files."""
        task = self.benchmark
        study = replace(self, **_named(task)) if isinstance(task, Benchmark) else self
        values: dict[str, Any] = {**object_of(study)}
        for name in ("data", "calibration"):
            values[name] = _absolute(values[name])
        if self.rewritings is not None and self.rewritings.kind == "file":
            path = Path(self.rewritings.argument).resolve()
            values["rewritings"]["source"] = f"file:{path}"
        if self.prove is not None:
            values["prove"]["proposals"] = [*map(_absolute, self.prove.proposals)]
        key, (first, _) = next(k for k in _PLANS.items() if isinstance(self.sampling, k[1][1]))
        plan = values["sampling"]
        values["sampling"] = {key: plan.pop(first), **plan}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Study:
        """Return the study from entries that `to_dict` made; missing fields get their defaults.

        The study trusts no server and no model code. Raises InputError for an unknown field or an
        invalid value; the message names the field.
        """
        entries = dict(values)
        if isinstance(rewritten := entries.get("rewritings"), str):
            entries["rewritings"] = None if rewritten == NONE else {"source": rewritten}
        if isinstance(plan := entries.pop("sampling", {"n": None}), Mapping):
            plan = _plan(plan)
        if not isinstance(entries.get("benchmark"), str | None):
            raise InputError(
                f"`benchmark` must be a text, got {entries['benchmark']!r}. Write a name such as "
                "tofu:forget10."
            )
        study = from_json(cls, entries, "a study", by_hand=True)
        untrusted = replace(study.settings, trust_remote_code=False)
        return replace(study, sampling=plan, settings=untrusted, servers=frozenset())

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study from a YAML or JSON file.

        The message of an InputError has the file and the field.
        """
        file = Path(path)
        values = read_yaml(file)
        try:
            if not isinstance(values, Mapping):
                raise InputError(
                    f"a study must have fields, got {type(values).__name__} {str(values)[:80]!r}. "
                    "Write lines such as `benchmark: NAME`."
                )
            return cls.from_dict(values)
        except InputError as error:
            text = str(error)  # it may quote a long value
            text = text if len(text) <= _LONG else f"{text[: _LONG // 2]} … {text[-_LONG // 2 :]}"
            raise InputError(f"`{file}`: {text}") from error

    def write(self, path: str | Path) -> None:
        """Write the fields without default values as YAML, for `read`."""
        import yaml

        usual, values = Study().to_dict(), self.to_dict()
        if not values["benchmark"]:
            raise InputError(
                "a study file needs the name of a benchmark, but this study has none. Set "
                "`benchmark` to a name such as tofu:forget10."
            )
        entries = {name: value for name, value in values.items() if value != usual[name]}
        Path(path).write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")


def study_of(study: Study | Benchmark | str, values: StudyFields) -> Study:
    """Return a study with these fields changed.

    Servers that `values` names may get requests.

    Args:
        study: a study, a benchmark, or a benchmark's spec.
        values: fields of `Study`; `n` is short for `sampling=FixedN(n)`.

    Returns:
        The study with these fields.

    Raises:
        InputError: a field is unknown or has another type, or both `n` and `sampling` are given.
    """
    for name in values.keys() - StudyFields.__annotations__.keys():
        others = {*StudyFields.__annotations__, "out", "control", "progress"}
        raise InputError(f"there is no argument `{name}`. {suggestion(name, others)}")
    base = study if isinstance(study, Study) else Study(study)
    changes = {name: value for name, value in values.items() if name != "n"}
    if "n" in values:
        if "sampling" in values:
            raise InputError(
                f"`n` {values['n']} and `sampling` both set the sampling plan. Omit one of the two."
            )
        changes["sampling"] = FixedN(values["n"])
    made = replace(base, **changes)  # type: ignore[arg-type]
    if base.servers is None or "servers" in values:
        return made
    named = replace(
        made,
        scorers=made.scorers if "scorers" in values else (),
        rewritings=made.rewritings if "rewritings" in values else None,
        servers=None,
    )
    return replace(made, servers=base.servers | named.trusted)


def _plan(values: Mapping[str, object]) -> SamplingPlan:
    """Return the sampling plan of a file. The key `n`, `until` or `explore` decides its class."""
    key = next((key for key in _PLANS if key in values), None)
    if key is None or len(values.keys() & _PLANS.keys()) > 1:
        raise InputError(
            f"`sampling` needs exactly one of the keys {', '.join(_PLANS)}, got {dict(values)!r}. "
            "Write n: 1024, or until: p<=0.02 and most: 1024, or explore: auto and forwards: 2000."
        )
    first, kind = _PLANS[key]
    arguments: Any = {first if name == key else name: value for name, value in values.items()}
    plan: SamplingPlan = from_json(kind, arguments, "`sampling`", by_hand=True)
    return plan


def _named(task: Benchmark) -> dict[str, Any]:
    """Return the fields that specify a loaded benchmark; if it has no spec, its name is None."""
    loaded = task.loaded
    if loaded is None:
        return {"benchmark": None}
    return {
        "benchmark": loaded.spec,
        **{k: getattr(loaded, k) for k in ("data", "limit", "profile")},
    }


def _absolute(path: str | None) -> str | None:
    return path if path is None or not Path(path).exists() else str(Path(path).resolve())
