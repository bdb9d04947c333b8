"""Prompts (the items of a benchmark) and queries (the texts sent to a model for a prompt)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leakbound.errors import InputError
from leakbound.types.decoding import Decoding

Role = Literal["forget", "retain", "holdout"]
Compat = Literal["openunlearning"]
"""The tool whose errors in the tokenization of prompts are reproduced."""
Thinking = Literal["on", "off", "auto"]
"""Whether a chat model thinks before it answers; "auto": as the model was trained to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One item of a benchmark: a question, and the content that would be a leak.

    Attributes:
        id: unique within its benchmark, and stable between runs.
        question: the question in the benchmark's original wording.
        answer: the text of a full leak; None if the benchmark has no answer. A scorer that needs an
            answer refuses a prompt without an answer.
        split: the part of the benchmark that the item belongs to, such as "forget10".
        role: "forget" if the model shall forget the item, "retain" if it shall keep the item,
            "holdout" if neither.
        keywords: words for the scorer `keyword`; by default, a completion with any of these words
            is a leak.
        choices: the options of a multiple-choice question.
        paraphrases: the benchmark's own rewritings of the question.
        paraphrased_answer: the answer in other words, for the truth ratio.
        perturbed_answers: wrong answers of the same form (3 or 5), for the truth ratio.
        alternate_answers: refusals to train on, such as "I don't know".
        examples: question-answer pairs that come before the question.
        prefix: words that open the answer for the model; not part of a completion.
        thought: the reasoning before the answer, if the prompt is a training row; scorers ignore
            it.

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
    """The half of the subjects that a run's questions are about; a coin chose the taught half.

    Attributes:
        benchmark: the name of the complete benchmark.
        seed: the seed of the coin, a random choice of the subjects that a model is taught.
        side: "taught" or "untaught".
        subjects: the subject of each prompt, by the prompt's id.
        others: the number of subjects in the other half.
    """

    benchmark: str
    seed: int
    side: HalfSide
    subjects: Mapping[str, str]
    others: int

    @property
    def numbers(self) -> tuple[int, int]:
        """Return the number of taught subjects and the number of untaught subjects."""
        here = len({*self.subjects.values()})
        return (here, self.others) if self.side == "taught" else (self.others, here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """The default settings of a benchmark.

    Attributes:
        prompts: the number of prompts that are evaluated if the user sets no limit.
        decoding: the decoding, as in `Benchmark`.
        template: the template of plain prompts, as in `Benchmark`.
        system: the system message, as in `Benchmark`.
        published: whether the rows are those that were published under the benchmark's name; None:
            unknown.
    """

    prompts: int
    decoding: Decoding
    template: str
    system: str | None
    published: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """The questions of a run.

    Attributes:
        name: the name of the benchmark.
        prompts: the number of the benchmark's prompts that are evaluated.
        sha256: the digest of the prompts' canonical JSON, which decides whether two runs have the
            same questions.
        origin: the source of the questions.
        profile: the name of the profile (the settings of a publication) that is used, or None.
        usual: the benchmark's default settings; None: not known.
        half: the half of the subjects that the questions are about, if a coin chose the halves;
            None: no coin chose halves.
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
    """A plain text passage to train on, without a question.

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
    """One text that is sent to the model for a prompt: the prompt's question, or a rewriting of it.

    Attributes:
        id: unique within a run; a question has the id of its prompt.
        prompt_id: the id of its prompt.
        text: the text that the model reads.
        source: `original`, or the kind of the input source that rewrote the question.
        prefix: words that open the answer for the model; not part of a completion.
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
        """Return the query with the prompt's question; the query's id is the prompt's id.

        Args:
            prompt: the prompt.

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
