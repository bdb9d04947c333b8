"""`Study`: all that is asked of a model, for Python, the command line, YAML and run.json alike."""

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
from leakbound.types.records import require_types

CONFIDENCE = 0.99
RHO = 2.0  # of Scholten et al. and of Cheng et al.
_LONG = 400  # characters of a message about a file
_PLAN, _SETTINGS = FixedN(), ModelSettings()
_PLANS: dict[str, tuple[str, type]] = {
    "n": ("n", FixedN),
    "until": ("claim", Until),
    "explore": ("mode", Explore),
}
"""The key by which a file tells a way of drawing, and the field that it fills."""


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
    """All that is asked of a model. `replace(study, seed=1)` asks the same otherwise.

    What is left at its default is filled in from the benchmark, and from the profile where there
    is one. run.json holds every field but `servers` and `workers`, so that a study can be carried
    out again.

    Attributes:
        benchmark: its spec, such as "tofu:forget10" or "my.csv", or a loaded `Benchmark`.
        data: folder of the benchmark's files (None: LEAKBOUND_DATA, then the hub).
        limit: only the first questions (None: all).
        profile: ask, draw and score as this one of `benchmarks.profiles()` does (None: as the
            benchmark has it).
        sampling: `FixedN(n)`, `Until(claim)` or `Explore(mode)`.
        decodings: the distributions that are drawn from (default: T = 1, nothing truncated, to
            the benchmark's length).
        rewritings: other texts of every question that are asked too (None: those of the profile,
            else none).
        attack: the search for the input that leaks most (None: no search).
        prove: the search for leaks that are too rare to be drawn (None: no search).
        stress: what model and control are put through before they are asked again, such as
            "round:int4": see `leakbound.stress.STRESSES`.
        control_questions: the spec of a benchmark of the same kind that the model was never
            taught, asked of it too: how much more do these questions leak than those? (None: none)
        scorers: how completions are scored in [0, 1], the steering one first (default: the
            benchmark's). An object is replaced by its name, and known in this process only.
        claims: limits of the leak probability by the first scorer, under the first decoding, such
            as "0.01" of the mean or "every:1%" of every question: each is recorded before anything
            is drawn, and decided at its own alpha (default: none).
        allow_unmatched: draw where no reference answer counts as a leak by some scorer, with a
            warning. False refuses to draw, as the command line does without --allow-unmatched.
        check_scorers: score the reference answers before drawing by scorers that need a model, too.
        calibration: a file of items that people labelled, to allow for a judge's errors (None: no
            errors are allowed for).
        metrics: of utility and memorisation, by name, or "all" (default: none).
        confidence: of each estimate, in (0, 1).
        rho: the weight of the standard deviation in the ED score, mean + rho standard deviations,
            at least 0.
        seed: of all draws.
        settings: how models are loaded and prompted.
        servers: URLs of the chat servers that may be asked (None: those that scorers and
            rewritings name). A study that is read from a run or a file trusts none, nor the code
            of a model: what is sent quotes questions and answers, the file may be anybody's.
        workers: who draws, such as `RayWorkers` (None: this process). The results are the same:
            a run that was begun without goes on with them, and the other way round.

    Raises:
        InputError: for fields that exclude one another.
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
        for name in ("decodings", "stress", "claims", "metrics"):  # a single one is a tuple of one
            value = getattr(self, name)
            alone = isinstance(value, str) or not isinstance(value, Iterable)
            object.__setattr__(self, name, (value,) if alone else tuple(value))
        object.__setattr__(self, "scorers", specs_of(self.scorers))
        for name in ("data", "calibration"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else str(value))
        if isinstance(self.benchmark, Benchmark):
            for name in ("data", "limit", "profile"):
                if (value := getattr(self, name)) is not None:
                    raise InputError(
                        f"`{name}` {value!r} is for a benchmark that is named, and this one is "
                        f"loaded. Say it to `load_benchmark`."
                    )
        if not isinstance(self.sampling, FixedN | Until | Explore):
            raise InputError(
                f"`sampling` must be FixedN, Until or Explore, got {self.sampling!r}. "
                "Say FixedN(1024)."
            )
        shared = "`inputs` share a fixed number of outputs among a question's queries"
        bounded = "`attack` bounds what it finds by a fixed number of draws"
        for value, reason in ((self.rewritings, shared), (self.attack, bounded)):
            if value is not None and not isinstance(self.sampling, FixedN):
                raise InputError(
                    f"{reason}, and `until` and `explore` fix none. Leave one of them out."
                )
        require_types(self)
        ed(self.rho)  # refuses a rho that cannot be
        for claim in self.claims:
            limit_of(claim)  # refuses what is no claim

    def __repr__(self) -> str:
        """The benchmark, and what is not at its default."""
        usual = Study()
        named = isinstance(self.benchmark, Benchmark)
        spec = [self.benchmark.name if named else self.benchmark]  # type: ignore[union-attr]
        changed = [f for f in fields(self)[1:] if getattr(self, f.name) != getattr(usual, f.name)]
        stated = [f"{f.name}={getattr(self, f.name)!r}" for f in changed if f.repr and f.compare]
        return f"Study({', '.join([*map(repr, spec), *stated])})"

    def load(self) -> Benchmark:
        """The benchmark, loaded; InputError where none is named."""
        if isinstance(self.benchmark, Benchmark):
            return self.benchmark
        if not self.benchmark:
            raise InputError("`--benchmark` is missing. Add it, see `leakbound evaluate --help`.")
        return load_benchmark(
            self.benchmark, data=self.data, limit=self.limit, profile=self.profile
        )

    def resolved(self, task: Benchmark) -> Study:
        """The same with all said that drawing depends on; InputError for files not there."""
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
        """The servers that may be asked."""
        if self.servers is not None:
            return self.servers
        return servers_of(self.scorers, () if self.rewritings is None else self.rewritings.models)

    def departures(self, task: Benchmark) -> tuple[str, ...]:
        """All that is asked otherwise than the benchmark's profile has it, as a note."""
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
            pairs.append(("decoding", ", ".join(how.name for how in ours), theirs.name))
        other = [f"{k} {a!r} ({b!r})" for k, a, b in pairs if a is not None and a != b]
        if not other:
            return ()
        return (f"profile {task.profile}, but (its own in brackets): {', '.join(other)}",)

    def to_dict(self) -> dict[str, Any]:
        """As run.json holds it; files are named so that they are found from any folder."""
        task = self.benchmark
        study = replace(self, **_named(task)) if isinstance(task, Benchmark) else self
        values: dict[str, Any] = {**object_of(study)}
        for name in ("data", "calibration"):
            values[name] = _found_anywhere(values[name])
        if self.rewritings is not None and self.rewritings.kind == "file":
            path = Path(self.rewritings.argument).resolve()
            values["rewritings"]["source"] = f"file:{path}"
        if self.prove is not None:
            values["prove"]["proposals"] = [*map(_found_anywhere, self.prove.proposals)]
        key, (first, _) = next(k for k in _PLANS.items() if isinstance(self.sampling, k[1][1]))
        plan = values["sampling"]
        values["sampling"] = {key: plan.pop(first), **plan}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Study:
        """The inverse of `to_dict`; a field that is left out is at its default.

        It trusts neither servers nor code of a model's own: these are named anew. Raises
        InputError for a field or a value that no study has, by name.
        """
        entries = dict(values)
        if isinstance(rewritten := entries.get("rewritings"), str):
            entries["rewritings"] = None if rewritten == NONE else {"source": rewritten}
        if isinstance(plan := entries.pop("sampling", {"n": None}), Mapping):
            plan = _plan(plan)
        if not isinstance(entries.get("benchmark"), str | None):
            raise InputError(
                f"`benchmark` must be a text, got {entries['benchmark']!r}. Name one, such as "
                "tofu:forget10."
            )
        study = from_json(cls, entries, "a study", by_hand=True)
        untrusted = replace(study.settings, trust_remote_code=False)
        return replace(study, sampling=plan, settings=untrusted, servers=frozenset())

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """The study in a YAML or JSON file; InputError, naming file and field, for no such one."""
        file = Path(path)
        values = read_yaml(file)
        try:
            if not isinstance(values, Mapping):
                raise InputError(
                    f"a study has fields, got {type(values).__name__} {str(values)[:80]!r}. Write "
                    "`benchmark: NAME`."
                )
            return cls.from_dict(values)
        except InputError as error:
            says = str(error)  # it may quote a value that fills the file
            says = says if len(says) <= _LONG else f"{says[: _LONG // 2]} … {says[-_LONG // 2 :]}"
            raise InputError(f"`{file}`: {says}") from error

    def write(self, path: str | Path) -> None:
        """Write what is not at its default as YAML, which `read` reads."""
        import yaml

        usual, values = Study().to_dict(), self.to_dict()
        if not values["benchmark"]:
            raise InputError(
                "a file names a benchmark, and this study has none that can be named. Say its spec."
            )
        entries = {name: value for name, value in values.items() if value != usual[name]}
        Path(path).write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")


def study_of(study: Study | Benchmark | str, values: StudyFields) -> Study:
    """The study, or that of the benchmark, with these fields in place of its own.

    Servers that the fields name are among those that may be asked.

    Args:
        study: a study, a benchmark, or a benchmark's spec.
        values: fields of `Study` by name; `n` is short for `sampling=FixedN(n)`.

    Returns:
        The study with these fields.

    Raises:
        InputError: an unknown field, one of another type, or `n` and `sampling` at once.
    """
    for name in values.keys() - StudyFields.__annotations__.keys():
        others = {*StudyFields.__annotations__, "out", "control", "progress"}
        raise InputError(f"there is no argument `{name}`. {suggestion(name, others)}")
    base = study if isinstance(study, Study) else Study(study)
    changes = {name: value for name, value in values.items() if name != "n"}
    if "n" in values:
        if "sampling" in values:
            raise InputError(
                f"`n` {values['n']} is short for `sampling`, which is said too. Leave one out."
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
    """The way of drawing that a file tells by its first key."""
    key = next((key for key in _PLANS if key in values), None)
    if key is None or len(values.keys() & _PLANS.keys()) > 1:
        raise InputError(
            f"`sampling` has one of {', '.join(_PLANS)}, got {dict(values)!r}. Write n: 1024, or "
            "until: p<=0.02 with most: 1024, or explore: auto with forwards: 2000."
        )
    first, kind = _PLANS[key]
    arguments: Any = {first if name == key else name: value for name, value in values.items()}
    plan: SamplingPlan = from_json(kind, arguments, "`sampling`", by_hand=True)
    return plan


def _named(task: Benchmark) -> dict[str, Any]:
    """The fields by which a study names a benchmark that was loaded; empty ones where none do."""
    loaded = task.loaded
    if loaded is None:
        return {"benchmark": None}
    return {
        "benchmark": loaded.spec,
        **{k: getattr(loaded, k) for k in ("data", "limit", "profile")},
    }


def _found_anywhere(path: str | None) -> str | None:
    return path if path is None or not Path(path).exists() else str(Path(path).resolve())
