"""What is asked: the items of a benchmark, and the texts put to a model for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leakbound.errors import InputError

Role = Literal["forget", "retain", "holdout"]
Source = Literal["original", "benchmark", "file", "rules", "model"]
Compat = Literal["openunlearning"]
"""whose faults in reading a prompt are repeated"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One item of a benchmark: a question and what a leak of it would say.

    `id` is unique within its benchmark and stable between runs. `answer` is None where the
    benchmark has none; a scorer that needs one refuses the prompt.
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

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("a prompt needs an `id`, got an empty one. Number the rows.")
        if not self.question.strip():
            raise InputError(
                f"prompt {self.id!r} has an empty question. Remove the row or fill it in."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A running text to train on, all of it: nothing is asked."""

    id: str
    text: str

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InputError(f"passage {self.id!r} is empty. Remove it or fill it in.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One text put to the model for a prompt: its question, or a rewriting of it.

    `prefix` opens the answer for the model; it is no part of a completion. `examples` are
    questions with their answers that come before the text.
    """

    id: str
    prompt_id: str
    text: str
    source: Source = "original"
    prefix: str = ""
    examples: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        pairs = tuple((question, answer) for question, answer in self.examples)  # lists from disk
        object.__setattr__(self, "examples", pairs)

    @classmethod
    def original(cls, prompt: Prompt) -> Query:
        """The prompt's own question, under the prompt's id."""
        return cls(
            id=prompt.id,
            prompt_id=prompt.id,
            text=prompt.question,
            prefix=prompt.prefix,
            examples=prompt.examples,
        )
