"""What a metric is: the texts it needs read, and the function from what was read to its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Literal

from leakbound.types import Prompt, Reading

Kind = Literal["answer", "paraphrased", "perturbed", "letter"]
"""Which texts of a prompt are read: its answer, its paraphrased answer, its perturbed answers,
the letters of its choices, " A" first; each after the prompt's own question."""

TEXTS: Mapping[Kind, Callable[[Prompt], tuple[str, ...]]] = {
    "answer": lambda prompt: () if prompt.answer is None else (prompt.answer,),
    "paraphrased": lambda prompt: (
        () if prompt.paraphrased_answer is None else (prompt.paraphrased_answer,)
    ),
    "perturbed": lambda prompt: prompt.perturbed_answers,
    "letter": lambda prompt: tuple(
        f" {letter}" for letter, _ in zip(ascii_uppercase, prompt.choices, strict=False)
    ),
}
"""The texts of a prompt, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a metric needs of every prompt of one part.

    `part`: "forget", "retain", "holdout", "real_authors" or "world_facts". `greedy`: the greedy
    completion, which is compared with the prompt's texts of the kinds `compared`; they need not
    be read. `gradient_norm`: the norm of the gradient of the answer's mean token loss. `draws`:
    the sampled completions with their counts. `fluency`: how fluent a classifier finds the greedy
    completion.
    """

    part: str
    kinds: frozenset[Kind] = frozenset({"answer"})
    greedy: bool = False
    compared: frozenset[Kind] = frozenset()
    gradient_norm: bool = False
    draws: bool = False
    fluency: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """What is known of one prompt under one model; what no metric asked for may be missing.

    `readings`: of each kind, one Reading a text, in the prompt's order. `draws`: each distinct
    completion with its count. `fluency`: the probability that the greedy completion is clean text.
    """

    prompt: Prompt
    readings: Mapping[Kind, tuple[Reading, ...]] = field(default_factory=dict)
    greedy: str | None = None
    gradient_norm: float | None = None
    draws: Mapping[str, int] | None = None
    fluency: float | None = None


Items = Mapping[str, Sequence[Item]]
"""The items of one model, by part."""


@dataclass(frozen=True, slots=True)
class Values:
    """A metric of one model: the aggregate, and the value of each prompt by its id.

    `value` is None where the metric needs a reference model's items and there are none;
    `by_item` is empty where the metric has no value of a single prompt.
    """

    value: float | None
    by_item: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: its needs, and `value(items, reference)`.

    `items` are the evaluated model's, `reference` those of the model `reference` names, by the
    same parts, or None where it was not evaluated. "retrained" never saw the forget set; where it
    is "retrained or chance", an AUC of 1/2 stands for it if there is none. A missing or damaged
    item raises InputError, which names the part and the prompt.
    """

    needs: tuple[Need, ...]
    value: Callable[[Items, Items | None], Values]
    reference: Literal["no", "retrained", "retrained or chance"] = "no"
