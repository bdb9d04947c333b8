"""Benchmarks, once loaded, and whether their rows are those that were published."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.types import BenchmarkRecord, Compat, Decoding, Half, Prompt, Role, Usual

_DIGITS = 16  # of a row's digest


@cache
def published() -> Mapping[str, tuple[str, ...]]:
    """`row_digests` of all that is evaluated, by the name of a benchmark that was published.

    Of TOFU (github.com/strzar/purge 24d1a3f, the files of locuslab/TOFU), Harry Potter Q&A
    (SchwinnL/LLM_Embedding_Attack 7ebabc4), the goals of JailbreakBench (artifacts 909e68c) and
    MUSE's knowmem (jaechan-repo/muse_bench 54719c5).
    """
    text = Path(__file__).with_name("published.json").read_text(encoding="utf-8")
    return {name: tuple(rows) for name, rows in json.loads(text).items()}


def as_published(name: str, prompts: Sequence[Prompt]) -> bool | None:
    """Whether these are the rows that were published under this name, in whatever order.

    None where none are known.
    """
    rows = published().get(name)
    return None if rows is None else sorted(row_digests(prompts)) == sorted(rows)


def row_digests(prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """The beginning of SHA-256 over all of each that is asked or matched; blanks count as one."""
    return tuple(_sha256(_row(prompt), separators=(",", ":"))[:_DIGITS] for prompt in prompts)


def _row(p: Prompt) -> list[list[str]]:
    shown = (p.prefix, *chain.from_iterable(p.examples))
    fields = ((p.question, p.answer or ""), p.keywords, p.choices, shown)
    return [[" ".join(text.split()) for text in texts] for texts in fields]


def digest_of(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over the prompts' canonical JSON, with sorted keys; no `thought` where it is None."""
    return _sha256([_stated(p) for p in prompts], sort_keys=True)


def _stated(prompt: Prompt) -> dict[str, Any]:
    """The fields of a prompt; without a thought those before prompts had one: digests stay."""
    left_out = {"thought"} if prompt.thought is None else set[str]()
    return {name: value for name, value in asdict(prompt).items() if name not in left_out}


def _sha256(value: object, **style: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, **style)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


DRAWS = 1024
QUESTION_ANSWER = "Question: {question}\nAnswer: "

Prompts = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The arguments of `load_benchmark` that load a benchmark again, wherever that is called.

    Attributes:
        spec: with the file in it, if any, named so that it is found from any folder.
        data: the folder's full path (None: none was given).
        limit: as there.
        profile: as there.
    """

    spec: str
    data: str | None = None
    limit: int | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named set of prompts, with the defaults that make its numbers comparable.

    Attributes:
        name: as it stands in results.
        prompts: those that are evaluated, without those that a limit `left_out`; ids are distinct.
        left_out: those that a limit left out.
        others: loads the splits of the remaining roles when they are asked for.
        utility: by name, the sets that only metrics look at, also in place of the split of that
            name.
        scorers: the default ones; empty where nothing can be scored by default.
        max_new_tokens: the length of completions.
        stop: a completion ends at any of these.
        n: completions of each prompt that are drawn, where nothing else is asked for.
        sampling: the decoding that is drawn under where no other is asked for; its length and stops
            are those given here.
        rewritings: fields of the `leakbound.study.Rewritings` that are asked where no others are.
        openers: by prompt id, how an answer may be opened; for attacks only.
        template: for models without a chat template, with {question}.
        system: the chat's system prompt (None: none of its own).
        chat: True: for chat models only. False: the template is put to them too. None: chat models
            are asked by theirs, others by `template`.
        subjects: by prompt id, whom an evaluated prompt is about, where that is known.
        half: which side of a coin that chose among the subjects is asked (None: no coin did).
        held_out: what to train on instead, where the prompts are for evaluation alone.
        as_taught: makes the row to train on from a prompt (None: the prompt is that row).
        profile: whose settings were laid over it.
        compat: which faults an engine repeats for it (see `Prompting`).
        loaded: how to load it again.
        origin: where the data came from.
        notes: what a reader should know about any of these.

    Raises:
        InputError: no prompt, or two with one id.
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
    rewritings: Mapping[str, Any] = field(default_factory=dict)
    openers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    template: str = QUESTION_ANSWER
    system: str | None = None
    chat: bool | None = None
    subjects: Mapping[str, str] = field(default_factory=dict)
    half: Half | None = None
    held_out: str | None = None
    as_taught: Callable[[Prompt], Prompt] | None = None
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
            raise InputError(
                f"benchmark {self.name!r} has no split {role!r}. There is: {there}. In your own "
                f"file, mark its rows by a column `role` with the value {role}."
            )
        prompts = self.others[role]()
        _require_distinct(f"{self.name} ({role})", prompts)
        return prompts

    def to_train(self, role: Role) -> Prompts:
        """The rows of `split` to train on; InputError if the prompts are only for evaluation."""
        if self.held_out is not None:
            raise InputError(
                f"the questions of {self.name!r} are for evaluation: a model trained on them is "
                f"not evaluated by them any more. {self.held_out}"
            )
        rows = self.split(role)
        return rows if self.as_taught is None else tuple(map(self.as_taught, rows))

    @property
    def part(self) -> str:
        """The name that metrics have for the evaluated prompts: their role, or the set they are."""
        split = self.prompts[0].split
        return split if split in self.utility else self.role

    def parts(self) -> dict[str, Callable[[], Prompts]]:
        """The sets that metrics look at, by name; a limit on the evaluated ones holds for all."""
        limit = len(self.prompts) if self.left_out else None

        def first(load: Callable[[], Prompts]) -> Prompts:
            return load()[:limit]

        sets = [*self.others.items(), *self.utility.items()]
        parts: dict[str, Callable[[], Prompts]] = {n: partial(first, load) for n, load in sets}
        return {**parts, self.part: lambda: self.prompts}

    def fingerprint(self) -> BenchmarkRecord:
        """The record of what is asked, for a run.

        It has the name, the number and digest of the evaluated prompts, the origin, the profile
        where there is one, and how the benchmark asks by itself. `digest_of` them alone decides
        whether two runs asked the same.
        """
        return BenchmarkRecord(
            name=self.name,
            prompts=len(self.prompts),
            sha256=digest_of(self.prompts),
            origin=self.origin,
            profile=self.profile or None,
            usual=Usual(
                prompts=len(self.prompts) + len(self.left_out),
                decoding=self.decoding,
                template=self.template,
                system=self.system,
                published=as_published(self.name, (*self.prompts, *self.left_out)),
            ),
            half=self.half,
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
