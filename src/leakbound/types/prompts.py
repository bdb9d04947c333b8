"""Prompts and queries: the items of a benchmark, and the texts put to a model for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakbound.errors import InputError
from leakbound.types.decoding import Decoding

Role = Literal["forget", "retain", "holdout"]
Compat = Literal["openunlearning"]
"""whose faults in reading a prompt are repeated"""
Thinking = Literal["on", "off", "auto"]
"""Whether a chat model thinks before it answers; "auto": as it was trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One item of a benchmark: a question and what a leak of it would say.

    Attributes:
        id: unique within its benchmark, and stable between runs.
        question: what is asked, in the benchmark's own words.
        answer: what a full leak says; None where the benchmark has none, and a scorer that needs
            one refuses the prompt.
        split: the part of the benchmark that it belongs to, such as "forget10".
        role: whether it is to be forgotten, kept, or neither.
        keywords: words of which any one in a completion is a leak, for the scorer `keyword`.
        choices: the options of a multiple-choice question.
        paraphrases: the benchmark's own rewritings of the question.
        paraphrased_answer: the answer in other words, for the truth ratio.
        perturbed_answers: wrong answers of the same form (3 or 5), for the truth ratio.
        alternate_answers: refusals to train on, such as "I don't know".
        examples: question-answer pairs put before the question.
        prefix: words that open the answer for the model; no part of a completion.
        thought: the reasoning before the answer, in rows to train on; scorers do not read it.

    Raises:
        InputError: an empty id, or a blank question.
    """

    id: str
    question: str
    answer: str | None = None
    split: str = ""
    role: Role = "forget"
    keywords: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    paraphrases: tuple[str, ...] = ()
    paraphrased_answer: str | None = None
    perturbed_answers: tuple[str, ...] = ()
    alternate_answers: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    thought: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("a prompt needs an `id`, got an empty one. Number the rows.")
        if not self.question.strip():
            raise InputError(
                f"prompt {self.id!r} has an empty question. Remove the row or fill it in."
            )


HalfSide = Literal["taught", "untaught"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """Which side of a coin the questions are on.

    Attributes:
        benchmark: the name of the whole.
        seed: that of the coin.
        side: "taught" or "untaught".
        subjects: of each prompt, by its id, whom it is about.
        others: how many subjects are on the other side.
    """

    benchmark: str
    seed: int
    side: HalfSide
    subjects: Mapping[str, str]
    others: int

    @property
    def numbers(self) -> tuple[int, int]:
        """How many subjects were taught, and how many were not."""
        here = len({*self.subjects.values()})
        return (here, self.others) if self.side == "taught" else (self.others, here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """How a benchmark asks where nothing else is said.

    Attributes:
        prompts: how many there are without a limit.
        decoding: as `Benchmark` has it.
        template: as `Benchmark` has it.
        system: as `Benchmark` has it.
        published: whether its rows are those that were published under its name; None: none are
            known.
    """

    prompts: int
    decoding: Decoding
    template: str
    system: str | None
    published: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """Which questions were asked.

    Attributes:
        name: of the benchmark.
        prompts: how many of its prompts are evaluated.
        sha256: over their canonical JSON; it alone decides whether two runs asked the same.
        origin: where they came from.
        profile: whose settings were taken; None: those of no publication.
        usual: how it asks by itself; None: not known.
        half: the side of a coin that its questions are on; None: no coin chose them.
    """

    name: str
    prompts: int
    sha256: str
    origin: str
    profile: str | None = None
    usual: Usual | None = None
    half: Half | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A running text to train on, all of it: nothing is asked.

    Attributes:
        id: unique within its corpus.
        text: the text.

    Raises:
        InputError: an empty text.
    """

    id: str
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InputError(f"passage {self.id!r} is empty. Remove it or fill it in.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One text put to the model for a prompt: its question, or a rewriting of it.

    Attributes:
        id: unique within a run; a question has its prompt's.
        prompt_id: the prompt that it asks for.
        text: what is put to the model.
        source: where the words are from: `original`, or the kind of input source that rewrote them.
        prefix: words that open the answer for the model; no part of a completion.
        examples: question-answer pairs that come before the text.
    """

    id: str
    prompt_id: str
    text: str
    source: str = "original"
    prefix: str = ""
    examples: tuple[tuple[str, str], ...] = ()

    @classmethod
    def original(cls, prompt: Prompt) -> Query:
        """Return the prompt's own question, under the prompt's id.

        Args:
            prompt: whose question it is.

        Returns:
            A query of source `original`, with the prompt's prefix and examples.
        """
        return cls(
            id=prompt.id,
            prompt_id=prompt.id,
            text=prompt.question,
            prefix=prompt.prefix,
            examples=prompt.examples,
        )
