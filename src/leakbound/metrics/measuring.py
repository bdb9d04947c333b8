"""Metrics: the readings that each needs of the prompts, and a function from these to its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import ascii_uppercase
from typing import Literal, TypeVar

import numpy as np

from leakbound.errors import InputError
from leakbound.metrics.membership import auc
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
    """The needs of a metric, of every prompt of one part.

    Attributes:
        part: "forget", "retain", "holdout", "real_authors" or "world_facts".
        kinds: which of the prompt's texts are read.
        greedy: the greedy completion, which is compared with the prompt's texts of the kinds
            `compared`.
        compared: which of the prompt's texts these are; they need not be read.
        gradient_norm: the norm of the gradient of the answer's mean token loss.
        draws: the sampled completions with their counts.
        fluency: how fluent a classifier finds the greedy completion.
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
    """The evidence about one prompt under one model; what no metric asked for may be missing.

    Attributes:
        prompt: the prompt.
        readings: of each kind, one Reading a text, in the prompt's order.
        greedy: the greedy completion.
        gradient_norm: of the answer's mean token loss.
        draws: each distinct completion with its count.
        fluency: the probability that the greedy completion is clean text.
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


T = TypeVar("T")
Measure = Callable[[Item], float]
Aggregate = Callable[[Sequence[float]], float]

_NAMES: dict[Kind, str] = {
    "answer": "answer",
    "paraphrased": "paraphrased answer",
    "perturbed": "perturbed answer",
    "letter": "choice",
}
NOTHING: frozenset[Kind] = frozenset()
SIDES = ("forget", "holdout")  # of an attack


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def per_item(measure: Measure, need: Need, aggregate: Aggregate = mean) -> Metric:
    """The measure of every prompt of one part, aggregated."""

    def value(items: Items, reference: Items | None = None) -> Values:
        measured = measure_part(measure, items, need.part)
        return Values(aggregate([*measured.values()]), measured)

    return Metric(needs=(need,), value=value)


def combined(
    combine: Callable[[Mapping[str, float]], float], terms: Mapping[str, Metric]
) -> Metric:
    """One number from the aggregates of other metrics, none of which needs a reference."""

    def value(items: Items, reference: Items | None = None) -> Values:
        values = {name: metric.value(items, None).value for name, metric in terms.items()}
        return Values(combine({name: v for name, v in values.items() if v is not None}))

    needs = dict.fromkeys(chain.from_iterable(metric.needs for metric in terms.values()))
    return Metric(needs=tuple(needs), value=value)


def attack(measure: Measure, *, gradient_norm: bool = False) -> Metric:
    """The AUC of telling the holdout part from the forget part by a measure."""
    kinds = NOTHING if gradient_norm else frozenset[Kind]({"answer"})

    def value(items: Items, reference: Items | None = None) -> Values:
        return told_apart(*(measure_part(measure, items, part) for part in SIDES))

    needs = tuple(Need(part=part, kinds=kinds, gradient_norm=gradient_norm) for part in SIDES)
    return Metric(needs=needs, value=value)


def against_retrained(
    compare: Callable[[Items, Items], Values],
    needs: tuple[Need, ...],
    alone: Callable[[Items], Values] | None = None,
) -> Metric:
    """A comparison with the retrained model on the same prompts; without it, `alone` if given."""

    def value(items: Items, reference: Items | None) -> Values:
        if reference is None:
            return Values(None) if alone is None else alone(items)
        for need in needs:
            _require_same(need.part, items, reference)
        return compare(items, reference)

    return Metric(
        needs=needs, value=value,
        reference="retrained" if alone is None else "retrained or chance",
    )  # fmt: skip


def told_apart(forget: Mapping[str, float], holdout: Mapping[str, float]) -> Values:
    """The AUC of the scores of two parts, and the scores of both."""
    return Values(auc([*forget.values()], [*holdout.values()]), {**forget, **holdout})


def measure_part(measure: Measure, items: Items, part: str) -> dict[str, float]:
    """The measure of every prompt of a part, by its id; finite. What fails is named."""
    if not items.get(part):
        raise InputError(f"the part {part!r} holds no prompt. Evaluate the model on it too.")
    measured = {}
    for item in items[part]:
        try:
            value = measure(item)
        except InputError as error:
            raise InputError(f"{part}, {item.prompt.id!r}: {error}") from error
        if not math.isfinite(value):
            raise InputError(
                f"{part}, {item.prompt.id!r} measures {value}, which is no number to average. "
                "Look at the model's probabilities there."
            )
        measured[item.prompt.id] = value
    return measured


def readings(item: Item, kind: Kind) -> tuple[Reading, ...]:
    """The readings of all the prompt's texts of a kind: at least one."""
    if read := item.readings.get(kind):
        return read
    raise InputError(f"no {kind} text of this prompt was read. See that the benchmark has one.")


def of_answer(measure: Callable[[Reading], float]) -> Measure:
    """The measure of the one reading of the prompt's answer."""
    return lambda item: measure(readings(item, "answer")[0])


def texts(item: Item, kind: Kind) -> tuple[str, ...]:
    """All the prompt's texts of a kind: at least one."""
    if listed := TEXTS[kind](item.prompt):
        return listed
    raise InputError(f"this prompt has no {_NAMES[kind]}. Leave it out, or give it one.")


def required(value: T | None, name: str) -> T:
    """The value that a metric needs of a prompt; InputError where it is missing."""
    if value is None:
        raise InputError(f"{name} of this prompt is not known. Evaluate the model with it.")
    return value


def _require_same(part: str, items: Items, reference: Items) -> None:
    here, there = ({item.prompt.id for item in side.get(part, ())} for side in (items, reference))
    if here != there:
        odd = sorted(here ^ there)[0]
        raise InputError(
            f"the retrained model was evaluated on other prompts of {part!r}: {odd!r} was put to "
            "one model only. Evaluate both on the same."
        )
