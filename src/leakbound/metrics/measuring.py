"""`Metric`: the data that a metric needs, and the function that computes the metric."""

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
"""A kind of texts that a model reads after a prompt's question: the answer, the paraphrased
answer, the perturbed answers, or the letters of the choices (" A", " B", ...)."""

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
    """The data that a metric needs for every prompt of one part (a named set of prompts).

    Attributes:
        part: "forget", "retain", "holdout", "real_authors" or "world_facts".
        kinds: the kinds of texts that are read.
        greedy: whether the greedy completion is compared with texts of the prompt.
        compared: the kinds of texts that the greedy completion is compared with. No readings of
            these texts are needed.
        gradient_norm: whether the norm of the gradient of the answer's mean token loss is needed.
        draws: whether the sampled completions with their counts are needed.
        fluency: whether the fluency of the greedy completion (by a classifier) is needed.
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
    """The data about one prompt under one model. Values that no metric needs may be missing.

    Attributes:
        prompt: the prompt.
        readings: one Reading per text, in the prompt's order, by kind.
        greedy: the greedy completion.
        gradient_norm: the norm of the gradient of the answer's mean token loss.
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
    """The values of a metric for one model: the aggregate, and the values of prompts by id.

    `value` is None if the metric needs a reference model that was not evaluated. `by_item` is empty
    if the metric has no value per prompt.
    """

    value: float | None
    by_item: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric: the data that it needs, and the function `value(items, reference)`.

    `items` are of the evaluated model. The argument `reference` has the items of a reference model,
    or is None if no such model was evaluated. The attribute `reference` specifies this model:
    "retrained" is a model that never saw the forget set. With "retrained or chance", an AUC of 1/2
    replaces this model if it is missing. A missing or damaged item raises InputError with the part
    and the prompt.
    """

    needs: tuple[Need, ...]
    value: Callable[[Items, Items | None], Values]
    reference: Literal["no", "retrained", "retrained or chance"] = "no"


T = TypeVar("T")
Measure = Callable[[Item], float]
Aggregate = Callable[[Sequence[float]], float]

NAMES: Mapping[Kind, str] = {
    "answer": "answer",
    "paraphrased": "paraphrased answer",
    "perturbed": "perturbed answers",
    "letter": "choices",
}
"""The texts of each kind in messages."""
NOTHING: frozenset[Kind] = frozenset()
SIDES = ("forget", "holdout")  # the two parts that a membership attack compares


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def per_item(measure: Measure, need: Need, aggregate: Aggregate = mean) -> Metric:
    """Return the metric that aggregates a measure of every prompt of one part."""

    def value(items: Items, reference: Items | None = None) -> Values:
        measured = measure_part(measure, items, need.part)
        return Values(aggregate([*measured.values()]), measured)

    return Metric(needs=(need,), value=value)


def combined(
    combine: Callable[[Mapping[str, float]], float], terms: Mapping[str, Metric]
) -> Metric:
    """Return the metric that combines the aggregates of other metrics (without a reference)."""

    def value(items: Items, reference: Items | None = None) -> Values:
        values = {name: metric.value(items, None).value for name, metric in terms.items()}
        return Values(combine({name: v for name, v in values.items() if v is not None}))

    needs = dict.fromkeys(chain.from_iterable(metric.needs for metric in terms.values()))
    return Metric(needs=tuple(needs), value=value)


def attack(measure: Measure, *, gradient_norm: bool = False) -> Metric:
    """Return the metric that is the AUC of a measure between holdout and forget prompts."""
    kinds = NOTHING if gradient_norm else frozenset[Kind]({"answer"})

    def value(items: Items, reference: Items | None = None) -> Values:
        return separated(*(measure_part(measure, items, part) for part in SIDES))

    needs = tuple(Need(part=part, kinds=kinds, gradient_norm=gradient_norm) for part in SIDES)
    return Metric(needs=needs, value=value)


def against_retrained(
    compare: Callable[[Items, Items], Values],
    needs: tuple[Need, ...],
    single: Callable[[Items], Values] | None = None,
) -> Metric:
    """Return the metric that compares with a retrained model; without this model, `single`."""

    def value(items: Items, reference: Items | None) -> Values:
        if reference is None:
            return Values(None) if single is None else single(items)
        for need in needs:
            _require_same(need.part, items, reference)
        return compare(items, reference)

    return Metric(
        needs=needs, value=value,
        reference="retrained" if single is None else "retrained or chance",
    )  # fmt: skip


def separated(forget: Mapping[str, float], holdout: Mapping[str, float]) -> Values:
    """Return the AUC of the scores of two parts, and the scores."""
    return Values(auc([*forget.values()], [*holdout.values()]), {**forget, **holdout})


def measure_part(measure: Measure, items: Items, part: str) -> dict[str, float]:
    """Return the measure of every prompt of a part, by id.

    Raises InputError, with the prompt, for a measure that fails or is not finite.
    """
    if not items.get(part):
        raise InputError(f"the part {part!r} has no prompt. Also evaluate the model on this part.")
    measured = {}
    for item in items[part]:
        try:
            value = measure(item)
        except InputError as error:
            raise InputError(f"{part}, {item.prompt.id!r}: {error}") from error
        if not math.isfinite(value):
            raise InputError(
                f"the metric of {item.prompt.id!r} in part {part!r} is {value}, which cannot be "
                "averaged. Check the model's probabilities of this prompt's texts."
            )
        measured[item.prompt.id] = value
    return measured


def readings(item: Item, kind: Kind) -> tuple[Reading, ...]:
    """Return the readings of a prompt's texts of one kind; raise InputError if there are none."""
    if read := item.readings.get(kind):
        return read
    raise InputError(f"this prompt has no probabilities of the {NAMES[kind]}. Check the benchmark.")


def of_answer(measure: Callable[[Reading], float]) -> Measure:
    """Return the measure of the reading of the prompt's answer."""
    return lambda item: measure(readings(item, "answer")[0])


def texts(item: Item, kind: Kind) -> tuple[str, ...]:
    """Return a prompt's texts of one kind; raise InputError if there are none."""
    if listed := TEXTS[kind](item.prompt):
        return listed
    raise InputError(f"this prompt has no {NAMES[kind]}. Add it, or remove the prompt.")


def required(value: T | None, name: str) -> T:
    """Return a value that a metric needs; raise InputError if it is missing."""
    if value is None:
        raise InputError(
            f"this prompt has no stored {name}. Evaluate the model again with these metrics."
        )
    return value


def _require_same(part: str, items: Items, reference: Items) -> None:
    here, there = ({item.prompt.id for item in side.get(part, ())} for side in (items, reference))
    if here != there:
        odd = sorted(here ^ there)[0]
        raise InputError(
            f"the retrained model was evaluated on other prompts of {part!r}: only one model has "
            f"{odd!r}. Evaluate both models on the same prompts."
        )
