"""Profiles: how others ask and draw, as one name, so that numbers can stand beside theirs.

A profile changes what a benchmark asks, and how it is drawn from where the user says nothing else.
What it cannot do as they did is in its notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from leakbound.benchmarks.benchmark import DRAWS, Benchmark, Prompts, published
from leakbound.errors import InputError
from leakbound.text.rows import read_yaml
from leakbound.types import BenchmarkRecord, Compat, Decoding, Prompt, Role, from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings under one name.

    None and empty leave the benchmark's own.

    Attributes:
        name: by which it is asked for.
        n: draws of every question.
        sampling: the decoding that they are drawn under, but for its length.
        template: the plain prompt, to chat models too.
        opening: the beginning that every reference answer is given, as the prompt leaves it to
            the model.
        rows: how many of every split are asked, the first ones.
        paraphrased: whether what is to be forgotten is asked by its gold paraphrase.
        scorers: names of scorers by the role of what is evaluated.
        rewritings: fields of the `leakbound.study.Rewritings` that are asked.
        stemmed: whether ROUGE stems words, whatever the benchmark's own code does.
        max_new_tokens: the length of an answer, in tokens.
        compat: which faults are repeated.
        notes: how it departs from what it is named after, told with the results.
    """

    name: str
    n: int = DRAWS
    sampling: Decoding = field(default_factory=Decoding)
    template: str | None = None
    opening: str = ""
    rows: int | None = None
    paraphrased: bool = False
    scorers: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    rewritings: Mapping[str, Any] = field(default_factory=dict)
    stemmed: bool = False
    max_new_tokens: int | None = None
    compat: Compat | None = None
    notes: tuple[str, ...] = ()


@cache
def profiles() -> Mapping[str, Profile]:
    """Return every profile by its name, from `profiles.yaml`."""
    file = Path(__file__).with_name("profiles.yaml")
    rows: Any = read_yaml(file)
    named = {name: {"name": name, **row} for name, row in rows.items()}
    return from_json(dict[str, Profile], named, f"`{file}`", by_hand=True)


def sets_limit(benchmark: BenchmarkRecord, decoding: Decoding) -> bool:
    """Whether a published protocol sets a decoding's limit on the tokens of an answer.

    That is the limit of the profile, or else of the publication that the benchmark comes from.
    """
    usual, profile = benchmark.usual, profiles().get(benchmark.profile or "")
    if usual is None or usual.decoding.max_new_tokens != decoding.max_new_tokens:
        return False
    families = {"wmdp", *(name.partition(":")[0] for name in published())}
    by_profile = profile is not None and profile.max_new_tokens is not None
    return by_profile or benchmark.name.partition(":")[0] in families


def with_profile(benchmark: Benchmark, profile: Profile) -> Benchmark:
    """The benchmark asked as the profile says; its name and notes go with it.

    How many of the evaluated prompts are kept is left to whoever limits them. Raises InputError
    for a prompt that lacks the answer to open, or the paraphrase to ask.
    """

    def changed(prompts: Prompts) -> Prompts:
        return tuple(_opened(_reworded(prompt, profile), profile) for prompt in prompts)

    def first(load: Callable[[], Prompts]) -> Prompts:
        return changed(load()[: profile.rows])

    return replace(
        benchmark,
        prompts=changed(benchmark.prompts),
        others={role: partial(first, load) for role, load in benchmark.others.items()},
        utility={name: partial(first, load) for name, load in benchmark.utility.items()},
        scorers=_scorers(benchmark, profile),
        max_new_tokens=profile.max_new_tokens or benchmark.max_new_tokens,
        n=profile.n,
        sampling=profile.sampling,
        rewritings=profile.rewritings,
        template=profile.template or benchmark.template,
        chat=False if profile.template else benchmark.chat,
        profile=profile.name,
        compat=profile.compat,
        notes=(*benchmark.notes, *(f"profile {profile.name}: {note}" for note in profile.notes)),
    )


def _scorers(benchmark: Benchmark, profile: Profile) -> tuple[str, ...]:
    chosen = profile.scorers.get(benchmark.role, benchmark.scorers)
    return tuple(name.replace(":stem=no", "") if profile.stemmed else name for name in chosen)


def _reworded(prompt: Prompt, profile: Profile) -> Prompt:
    if not profile.paraphrased or prompt.role != "forget":
        return prompt
    if not prompt.paraphrases:
        raise InputError(
            f"profile {profile.name!r} asks gold paraphrases, and prompt {prompt.id!r} has none. "
            "Use a benchmark that has them, such as tofu:forget10 with its perturbed files."
        )
    return replace(prompt, question=prompt.paraphrases[0], paraphrases=prompt.paraphrases[1:])


def _opened(prompt: Prompt, profile: Profile) -> Prompt:
    if not profile.opening:
        return prompt
    if prompt.answer is None:
        raise InputError(
            f"profile {profile.name!r} scores answers from {profile.opening!r} on, and prompt "
            f"{prompt.id!r} has none. Use a benchmark with answers, such as tofu:forget10."
        )
    other = prompt.paraphrased_answer
    return replace(
        prompt,
        answer=profile.opening + prompt.answer,
        paraphrased_answer=None if other is None else profile.opening + other,
        perturbed_answers=tuple(profile.opening + wrong for wrong in prompt.perturbed_answers),
    )
