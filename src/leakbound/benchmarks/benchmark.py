"""What a benchmark is, once loaded."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from leakbound.benchmarks.published import as_published
from leakbound.errors import InputError
from leakbound.types import BenchmarkRecord, Compat, Decoding, Prompt, Role, Usual

DRAWS = 1024
QUESTION_ANSWER = "Question: {question}\nAnswer: "

Prompts = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The arguments of `load_benchmark` that load a benchmark again, wherever that is called."""

    spec: str
    data: str | None = None
    limit: int | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named set of prompts, with the defaults that make its numbers comparable.

    `prompts` are those that are evaluated, without those that a limit `left_out`; `others` loads
    the splits of the remaining roles when they are asked for, `utility` by name the sets that only
    metrics look at, also in place of the split of that name. `template` is for models without a
    chat template, `system` the chat's system prompt; `chat` True is for chat models only, False
    puts the template to them too. A completion ends at any of `stop`. `scorers` may be empty where
    nothing can be scored by default. Where nothing else is asked for, `n` completions of each
    prompt are drawn under `sampling`, with the length and the stops given here.

    Where the prompts are for evaluation alone, `held_out` says what to train on instead.
    `origin` says where the data came from, `loaded` how to load it again, `profile` whose settings
    were laid over it and `compat` which faults an engine repeats for it (see `Prompting`), `notes`
    what a reader should know about any of these.
    """

    name: str
    prompts: Prompts
    left_out: Prompts = ()
    others: Mapping[Role, Callable[[], Prompts]] = field(default_factory=dict)
    utility: Mapping[str, Callable[[], Prompts]] = field(default_factory=dict)
    scorers: tuple[str, ...]
    max_new_tokens: int
    stop: tuple[str, ...] = ()
    n: int = DRAWS
    sampling: Decoding = field(default_factory=Decoding)
    openers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    template: str = QUESTION_ANSWER
    system: str | None = None
    chat: bool | None = None
    held_out: str | None = None
    profile: str | None = None
    compat: Compat | None = None
    loaded: Loaded | None = None
    origin: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_distinct(self.name, self.prompts)

    @property
    def decoding(self) -> Decoding:
        """The distribution that is drawn from where no other is asked for."""
        return replace(self.sampling, max_new_tokens=self.max_new_tokens, stop=self.stop)

    @property
    def role(self) -> Role:
        """The role of the prompts that are evaluated."""
        return self.prompts[0].role

    def split(self, role: Role) -> Prompts:
        """The prompts of a role; one the benchmark does not have raises InputError."""
        if role == self.role:
            return self.prompts
        if role not in self.others:
            there = ", ".join(sorted({self.role, *self.others}))
            raise InputError(f"benchmark {self.name!r} has no split {role!r}. There is: {there}.")
        prompts = self.others[role]()
        _require_distinct(f"{self.name} ({role})", prompts)
        return prompts

    def to_train(self, role: Role) -> Prompts:
        """As `split`, to train on; InputError where the prompts are for evaluation alone."""
        if self.held_out is not None:
            raise InputError(
                f"the questions of {self.name!r} are for evaluation: a model trained on them is "
                f"not evaluated by them any more. {self.held_out}"
            )
        return self.split(role)

    @property
    def part(self) -> str:
        """What metrics call the evaluated prompts: by their role, or by the set they are."""
        split = self.prompts[0].split
        return split if split in self.utility else self.role

    def parts(self) -> dict[str, Callable[[], Prompts]]:
        """What metrics are taken of, by name; a limit on the evaluated prompts holds for all."""
        limit = len(self.prompts) if self.left_out else None

        def first(load: Callable[[], Prompts]) -> Prompts:
            return load()[:limit]

        sets = [*self.others.items(), *self.utility.items()]
        found: dict[str, Callable[[], Prompts]] = {n: partial(first, load) for n, load in sets}
        return {**found, self.part: lambda: self.prompts}

    def fingerprint(self) -> BenchmarkRecord:
        """What was asked: the name, the number and digest of the evaluated prompts, the origin,
        the profile where there is one, and how it asks by itself.

        The digest is SHA-256 over their canonical JSON (sorted keys, UTF-8); it alone decides
        whether two runs asked the same.
        """
        text = json.dumps([asdict(p) for p in self.prompts], sort_keys=True, ensure_ascii=False)
        return BenchmarkRecord(
            name=self.name,
            prompts=len(self.prompts),
            sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            origin=self.origin,
            profile=self.profile or None,
            usual=Usual(
                prompts=len(self.prompts) + len(self.left_out),
                decoding=self.decoding,
                template=self.template,
                system=self.system,
                published=as_published(self.name, (*self.prompts, *self.left_out)),
            ),
        )


def _require_distinct(name: str, prompts: Prompts) -> None:
    if not prompts:
        raise InputError(f"benchmark {name!r} holds no prompt. Check the file or the filter.")
    twice = [id for id, count in Counter(p.id for p in prompts).items() if count > 1]
    if twice:
        raise InputError(
            f"ids must differ within a benchmark, got {twice[0]!r} more than once in {name!r}. "
            "Rename the rows, or leave the id column out and they are numbered."
        )
