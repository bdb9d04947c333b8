"""Profiles: the settings of published evaluations, for comparable numbers.

A profile changes the queries of a benchmark. It also sets the number of draws if the user does not.
The notes of a profile list the parts of the published evaluation that it does not replicate.
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
    """The settings of a published evaluation.

    If a value is None or empty, the benchmark's own setting is used.

    Attributes:
        name: the name of the profile.
        n: the number of draws per question.
        sampling: the decoding of the draws, without its token limit.
        template: the plain prompt, also for chat models.
        opening: a text, such as "Answer: ", with which every reference answer begins, because the
            prompt does not contain it.
        rows: the number of questions to use from the beginning of every split.
        paraphrased: whether gold paraphrases replace the questions of the forget set.
        scorers: names of scorers, by the role of the evaluated prompts.
        rewritings: fields of the `leakbound.study.Rewritings` to use.
        stemmed: whether ROUGE stems words even if the benchmark's default scorer does not.
        max_new_tokens: the token limit of an answer.
        compat: the evaluation framework whose faults are reproduced.
        notes: departures from the published evaluation, which are shown with the results.
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
    """Return every profile in `profiles.yaml`, by name."""
    file = Path(__file__).with_name("profiles.yaml")
    rows: Any = read_yaml(file)
    named = {name: {"name": name, **row} for name, row in rows.items()}
    return from_json(dict[str, Profile], named, f"`{file}`", by_hand=True)


def sets_limit(benchmark: BenchmarkRecord, decoding: Decoding) -> bool:
    """Return whether a published protocol sets this decoding's token limit and stop strings.

    The protocol is the benchmark's profile if the profile sets the limit. Otherwise it is the
    publication of the benchmark, if there is one.
    """
    usual, profile = benchmark.usual, profiles().get(benchmark.profile or "")
    if usual is None or usual.decoding.max_new_tokens != decoding.max_new_tokens:
        return False
    families = {"wmdp", *(name.partition(":")[0] for name in published())}
    by_profile = profile is not None and profile.max_new_tokens is not None
    of_protocol = {*decoding.stop} <= {*usual.decoding.stop}
    return of_protocol and (by_profile or benchmark.name.partition(":")[0] in families)


def with_profile(benchmark: Benchmark, profile: Profile) -> Benchmark:
    """Return the benchmark with the settings, name and notes of a profile.

    This function does not apply `rows`: the caller keeps only the first `rows` prompts. Raises
    InputError for a prompt without the answer or the paraphrase that the profile needs.
    """

    def changed(prompts: Prompts) -> Prompts:
        return tuple(_changed(prompt, profile) for prompt in prompts)

    def first(load: Callable[[], Prompts]) -> Prompts:
        return changed(load()[: profile.rows])

    scorers = profile.scorers.get(benchmark.role, benchmark.scorers)
    if profile.stemmed:
        scorers = tuple(name.replace(":stem=no", "") for name in scorers)
    return replace(
        benchmark,
        prompts=changed(benchmark.prompts),
        others={role: partial(first, load) for role, load in benchmark.others.items()},
        utility={name: partial(first, load) for name, load in benchmark.utility.items()},
        scorers=scorers,
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


def _changed(prompt: Prompt, profile: Profile) -> Prompt:
    if profile.paraphrased and prompt.role == "forget":
        if not prompt.paraphrases:
            raise InputError(
                f"profile {profile.name!r} needs gold paraphrases, but prompt {prompt.id!r} has "
                "none. Use a benchmark with gold paraphrases, such as tofu:forget10 with its "
                "perturbed files."
            )
        prompt = replace(prompt, question=prompt.paraphrases[0], paraphrases=prompt.paraphrases[1:])
    if not profile.opening:
        return prompt
    if prompt.answer is None:
        raise InputError(
            f"profile {profile.name!r} puts {profile.opening!r} before answers, but prompt "
            f"{prompt.id!r} has no answer. Use a benchmark with answers, such as tofu:forget10."
        )
    other = prompt.paraphrased_answer
    return replace(
        prompt,
        answer=profile.opening + prompt.answer,
        paraphrased_answer=None if other is None else profile.opening + other,
        perturbed_answers=tuple(profile.opening + wrong for wrong in prompt.perturbed_answers),
    )
