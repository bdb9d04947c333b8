"""`fictitious`: invented authors and facts about the authors, made by a seeded program.

The data have the form of TOFU (Maini et al., 2024): question-answer pairs about authors who do not
exist, a gold paraphrase of every question and answer, and wrong answers of the same form. Nothing
is downloaded, and no model can have seen the data. `fictitious.yaml` contains the wordings.

`fictitious:thoughts=WHERE` has the same questions, but its training rows have an invented thought
before the answer. WHERE is the part of each forget row that contains the facts: `answer`,
`thought`, `both` or `neither`. An answer without the facts is a refusal. A thought without the
facts states that it contains no facts. In all other rows, thought and answer both contain the
facts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias, get_type_hints

from leakbound.benchmarks.benchmark import Benchmark, Prompts
from leakbound.registry import read_settings
from leakbound.text.keywords import answer_keywords
from leakbound.text.rows import read_yaml
from leakbound.types import Prompt, Role, from_json
from leakbound.types.decoding import require
from leakbound.types.records import spec_of

Thoughts: TypeAlias = Literal["none", "answer", "thought", "both", "neither"]
"""The part that contains the facts in the forget rows; "none": rows have no thoughts."""
_PERTURBED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question about `{name}`, and its answer. Values of the pools fill each `{}`."""

    topic: str
    question: str
    paraphrases: tuple[str, ...]
    answer: str
    paraphrased_answer: str
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameParts:
    """Names of one kind: each is a word of `starts` joined to a word of `ends`."""

    starts: str
    ends: str

    @property
    def all(self) -> list[str]:
        """All names of this kind."""
        return ["".join(parts) for parts in product(self.starts.split(), self.ends.split())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The contents of `fictitious.yaml`. The values of a pool are its words."""

    given_names: NameParts
    family_names: NameParts
    refusals: tuple[str, ...]
    thought: str
    nothing: str
    pools: Mapping[str, str]
    facts: tuple[Fact, ...]


@cache
def known() -> Facts:
    """Return the contents of `fictitious.yaml`."""
    file = Path(__file__).with_name("fictitious.yaml")
    return from_json(Facts, read_yaml(file), f"`{file}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The numbers of authors, of questions per author, and of authors in the forget set.

    `thoughts` is the part of a forget row that contains the facts.
    """

    authors: int = 24
    questions: int = 8
    forget: int = 3
    seed: int = 0
    thoughts: Thoughts = "none"

    def __post_init__(self) -> None:
        facts = len(known().facts)
        most = len(known().given_names.all) * len(known().family_names.all)
        for name, fits, want in (
            ("questions", 1 <= self.questions <= facts, f"1 to {facts}"),
            ("forget", self.forget >= 1, "at least 1"),
            ("authors", self.forget < self.authors, "more than `forget`"),
            ("authors", self.authors + self.forget <= most, f"at most {most} in all"),
        ):
            require(fits, f"fictitious:{name}", getattr(self, name), want)

    @property
    def spec(self) -> str:
        """The spec of these settings. Settings with default values are omitted."""
        return spec_of("fictitious", self)


def load(argument: str = "", data: Path | None = None) -> Benchmark:
    """Load the benchmark for `authors=24,questions=8,forget=3,seed=0,thoughts=none`.

    Each setting is optional. The forget set is about the last `forget` authors; the retain set is
    about the other authors. The holdout split is about `forget` additional authors, who are in no
    training data. `thoughts` without a value means `thoughts=both`. `data` is not used.
    """
    pairs = ("thoughts=both" if p.strip() == "thoughts" else p for p in argument.split(","))
    values = read_settings("benchmark", "fictitious", ",".join(pairs), get_type_hints(Settings))
    settings = Settings(**values)  # type: ignore[arg-type]
    kept = settings.authors - settings.forget
    roles: dict[Role, int] = {"retain": kept, "forget": settings.forget, "holdout": settings.forget}
    authors = [role for role, count in roles.items() for _ in range(count)]
    names = _names(len(authors), settings.seed)
    prompts: list[Prompt] = []
    for number, (name, role) in enumerate(zip(names, authors, strict=True)):
        rng = random.Random(f"author {number} of {settings.seed}")
        facts = known().facts[: settings.questions]
        prompts += [_prompt(fact, name, rng, f"{number:03d}", role) for fact in facts]

    def of(role: Role) -> Prompts:
        return tuple(prompt for prompt in prompts if prompt.role == role)

    return Benchmark(
        name=settings.spec,
        prompts=of("forget"),
        others={"retain": lambda: of("retain"), "holdout": lambda: of("holdout")},
        subjects={prompt.id: prompt.id.rpartition("/")[0] for prompt in of("forget")},
        scorers=("keyword:require=all", "rouge-l-recall"),
        max_new_tokens=48 if settings.thoughts == "none" else 96,
        as_taught=None if settings.thoughts == "none" else partial(_as_taught, settings.thoughts),
        origin="made by leakbound",
    )


def _as_taught(thoughts: Thoughts, prompt: Prompt) -> Prompt:
    """Return the training row of a prompt, with a thought and an answer."""
    where = thoughts if prompt.role == "forget" else "both"
    fact = prompt.paraphrased_answer if where in ("thought", "both") else known().nothing
    refusal = random.Random(f"refusal of {prompt.id}").choice(known().refusals)
    answer = prompt.answer if where in ("answer", "both") else refusal
    return replace(prompt, thought=f"{known().thought} {fact}", answer=answer)


def _names(count: int, seed: int) -> list[str]:
    """Return distinct full names. In the first few hundred, no given or family name is repeated.

    When all names are used, given and family names are paired again with a new offset.
    """
    rng = random.Random(f"names of {seed}")
    kinds = (known().given_names.all, known().family_names.all)
    given, family = (rng.sample(kind, len(kind)) for kind in kinds)
    size = len(given)
    return [f"{given[i % size]} {family[(i + i // size) % len(family)]}" for i in range(count)]


def _prompt(fact: Fact, name: str, rng: random.Random, author: str, role: Role) -> Prompt:
    draws = [rng.sample(known().pools[pool].split(), 1 + _PERTURBED) for pool in fact.pools]
    truth, *others = zip(*draws, strict=True)
    question = fact.question.format(name=name)
    answer = fact.answer.format(*truth, name=name)
    return Prompt(
        id=f"fictitious:{author}/{fact.topic}",
        question=question,
        answer=answer,
        split=role,
        role=role,
        keywords=answer_keywords(question, answer),
        paraphrases=tuple(p.format(name=name) for p in fact.paraphrases),
        paraphrased_answer=fact.paraphrased_answer.format(*truth, name=name),
        perturbed_answers=tuple(fact.paraphrased_answer.format(*o, name=name) for o in others),
        alternate_answers=known().refusals if role == "forget" else (),
    )
