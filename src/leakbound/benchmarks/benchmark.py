"""`Benchmark`, a named set of prompts, and the comparison of its rows with published rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.types import BenchmarkRecord, Compat, Decoding, Half, Prompt, Role, Usual

_DIGITS = 16  # the length of a row's digest


@cache
def published() -> Mapping[str, tuple[str, ...]]:
    """Return the `row_digests` of all rows of each published benchmark, by its name.

    The published benchmarks are TOFU (github.com/strzar/purge 24d1a3f, the files of locuslab/TOFU),
    Harry Potter Q&A (SchwinnL/LLM_Embedding_Attack 7ebabc4), the goals of JailbreakBench (artifacts
    909e68c) and MUSE's knowmem (jaechan-repo/muse_bench 54719c5).
    """
    text = Path(__file__).with_name("published.json").read_text(encoding="utf-8")
    return {name: tuple(rows) for name, rows in json.loads(text).items()}


def as_published(name: str, prompts: Sequence[Prompt]) -> bool | None:
    """Return whether `prompts` are the rows that were published under `name`, in any order.

    The result is None if no published rows are known for the name.
    """
    rows = published().get(name)
    return None if rows is None else sorted(row_digests(prompts)) == sorted(rows)


def row_digests(prompts: Sequence[Prompt]) -> tuple[str, ...]:
    """Return the first digits of the SHA-256 of each prompt. Runs of blanks count as one blank."""
    return tuple(_sha256(_row(prompt), separators=(",", ":"))[:_DIGITS] for prompt in prompts)


def _row(p: Prompt) -> list[list[str]]:
    shown = (p.prefix, *chain.from_iterable(p.examples))
    fields = ((p.question, p.answer or ""), p.keywords, p.choices, shown)
    return [[" ".join(text.split()) for text in texts] for texts in fields]


def digest_of(prompts: Sequence[Prompt]) -> str:
    """Return the SHA-256 of the prompts' canonical JSON; `thought` is omitted if it is None."""
    stated = [asdict(prompt) for prompt in prompts]
    for fields in stated:
        if fields["thought"] is None:
            del fields["thought"]
    return _sha256(stated, sort_keys=True)


def _sha256(value: object, **style: Any) -> str:
    return sha256_of(json.dumps(value, ensure_ascii=False, **style))


DRAWS = 1024
QUESTION_ANSWER = "Question: {question}\nAnswer: "

Prompts = tuple[Prompt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The arguments of `load_benchmark` that load a benchmark again from any working directory.

    Attributes:
        spec: the benchmark's spec. If the spec contains a file, the path of the file is absolute.
        data: the absolute path of the data folder (None: the argument was omitted).
        limit: as in `load_benchmark`.
        profile: as in `load_benchmark`.
    """

    spec: str
    data: str | None = None
    limit: int | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named set of prompts, with the defaults that make its numbers comparable.

    Attributes:
        name: the name in results.
        prompts: the evaluated prompts, without the prompts in `left_out`; ids are distinct.
        left_out: the prompts that a limit left out.
        others: functions that load the splits except the evaluated split, by role.
        utility: functions that load the sets of prompts that only metrics use, by name. Metrics use
            such a set instead of a split with the same name.
        scorers: the default scorers; empty if nothing can be scored by default.
        max_new_tokens: the maximum number of tokens of a completion.
        stop: strings that end a completion.
        n: the default number of completions per prompt.
        sampling: the default decoding; `max_new_tokens` and `stop` replace its length and stop
            strings.
        rewritings: arguments of the default `leakbound.study.Rewritings`.
        openers: possible beginnings of an answer, by prompt id; only for attacks.
        template: the prompt for models without a chat template; it contains `{question}`.
        system: the chat's system prompt (None: no system prompt).
        chat: True: the benchmark is only for chat models. False: `template` is also used for chat
            models. None: chat models use their own template, other models use `template`.
        subjects: the subjects of the evaluated prompts, by prompt id, if they are known.
        half: the half of the subjects that the questions are about, if a random half of the
            subjects is taught (None: all subjects); see `leakbound.benchmarks.coin`.
        train_on: if the prompts are only for evaluation, a sentence about the data to train on.
        as_taught: a function from a prompt to the row to train on (None: the prompt is the row).
        profile: the profile whose settings were applied.
        compat: the evaluation framework whose faults an engine reproduces (see `Prompting`).
        loaded: the arguments that load this benchmark again.
        origin: the source of the data.
        notes: notes for readers of the results.

    Raises:
        InputError: if there is no prompt, or two prompts have the same id.
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
    train_on: str | None = None
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
        """The default output distribution."""
        return replace(self.sampling, max_new_tokens=self.max_new_tokens, stop=self.stop)

    @property
    def role(self) -> Role:
        """The role of the evaluated prompts."""
        return self.prompts[0].role

    def split(self, role: Role) -> Prompts:
        """Return the prompts of a role; raise InputError if the benchmark has no such split."""
        if role == self.role:
            return self.prompts
        if role not in self.others:
            there = ", ".join(sorted({self.role, *self.others}))
            raise InputError(
                f"benchmark {self.name!r} has no split {role!r}, only {there}. In your own file, "
                f"write {role} into the column `role` of this split's rows."
            )
        prompts = self.others[role]()
        _require_distinct(f"{self.name} ({role})", prompts)
        return prompts

    def to_train(self, role: Role) -> Prompts:
        """Return a role's training rows; raise InputError if prompts are only for evaluation."""
        if self.train_on is not None:
            raise InputError(
                f"the questions of {self.name!r} are for evaluation only: results are not valid "
                f"for a model that was trained on them. {self.train_on}"
            )
        rows = self.split(role)
        return rows if self.as_taught is None else tuple(map(self.as_taught, rows))

    @property
    def part(self) -> str:
        """The part of the evaluated prompts in metrics: their set in `utility`, else the role."""
        split = self.prompts[0].split
        return split if split in self.utility else self.role

    def parts(self) -> dict[str, Callable[[], Prompts]]:
        """Return functions that load the prompts of each part for metrics, up to the limit."""
        limit = len(self.prompts) if self.left_out else None

        def first(load: Callable[[], Prompts]) -> Prompts:
            return load()[:limit]

        sets = [*self.others.items(), *self.utility.items()]
        parts: dict[str, Callable[[], Prompts]] = {n: partial(first, load) for n, load in sets}
        return {**parts, self.part: lambda: self.prompts}

    def fingerprint(self) -> BenchmarkRecord:
        """Return the record of the queried prompts, for a run.

        The record contains the name, the number and digest of the evaluated prompts, the origin,
        the profile if there is one, and the benchmark's defaults. Only `digest_of` the prompts
        decides whether two runs are about the same prompts.
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
        raise InputError(f"benchmark {name!r} contains no prompt. Check the file or the filter.")
    twice = [id for id, count in Counter(p.id for p in prompts).items() if count > 1]
    if twice:
        raise InputError(
            f"ids must be distinct in a benchmark, got {twice[0]!r} more than once in {name!r}. "
            "Change the ids, or omit the id column to number the rows."
        )
