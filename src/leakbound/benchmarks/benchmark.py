"""Benchmarks, once loaded, and whether their rows are those that were published."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from leakbound.errors import InputError
from leakbound.types import BenchmarkRecord, Compat, Decoding, Half, Prompt, Role, Usual

PUBLISHED: Mapping[str, str] = {
    "tofu:forget01": "675735e0b2609ad1f7f400e9e55aa0120dec947259f9326c0f3cfbb7f97d3f03",
    "tofu:forget05": "e1ac56904b886503e202e8d8cbe140b0f9480a45713e335dcfe9c3dfb5e0bc5f",
    "tofu:forget10": "8333edf4ab5421ad9337e5e839c019c72cb0fe05e6195f3438d1c034b50db3df",
    "tofu:real_authors": "eba106755f0799f159cceb2c3adecc448f17dee2354443b73ffb9db96bf91988",
    "tofu:world_facts": "dafff54f589d1fe2ac62436211bb04ec12592185b53ae7f9db5f70c329450862",
    "harry-potter": "29301d1d7b8bba747a90ff1e596d0bcae93da6f66a4be0e65cdf94ed1d4ee023",
    "jbb": "bb6d1729fd402741bd0c855591b4ca691a9967260312612c3e6c0e46b838d5a4",
    "muse:news-knowmem": "30c95139be4d74e88b79e137d01517c1a86c4fc7231db10e54ded2b974fbed42",
    "muse:books-knowmem": "b364768e3ba1466c516b843c91be310c54dce466f495b9936fbefc6bdd5dc12f",
}
"""By name: `digest_of_rows` of all that is evaluated, of TOFU (github.com/strzar/purge 24d1a3f, the
files of locuslab/TOFU), Harry Potter Q&A (SchwinnL/LLM_Embedding_Attack 7ebabc4), the goals of
JailbreakBench (artifacts 909e68c) and MUSE's knowmem (jaechan-repo/muse_bench 54719c5)."""


def as_published(name: str, prompts: Sequence[Prompt]) -> bool | None:
    """Whether these are the rows that were published under this name; None where none are known."""
    digest = PUBLISHED.get(name)
    return None if digest is None else digest_of_rows(prompts) == digest


def digest_of_rows(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over questions, answers and keywords in their order; blanks count as one each."""
    rows = [
        [" ".join(text.split()) for text in (p.question, p.answer or "", *p.keywords)]
        for p in prompts
    ]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
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
        openers: by prompt id, how an answer may be opened; for attacks only.
        template: for models without a chat template, with {question}.
        system: the chat's system prompt (None: none of its own).
        chat: True: for chat models only. False: the template is put to them too. None: chat models
            are asked by theirs, others by `template`.
        subjects: by prompt id, whom an evaluated prompt is about, where that is known.
        half: which side of a coin that chose among the subjects is asked (None: no coin did).
        held_out: what to train on instead, where the prompts are for evaluation alone.
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
    openers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    template: str = QUESTION_ANSWER
    system: str | None = None
    chat: bool | None = None
    subjects: Mapping[str, str] = field(default_factory=dict)
    half: Half | None = None
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
        where there is one, and how the benchmark asks by itself. The digest is SHA-256 over the
        prompts' canonical JSON (sorted keys, UTF-8); it alone decides whether two runs asked the
        same.
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
