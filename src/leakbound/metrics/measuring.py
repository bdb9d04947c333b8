"""The kinds of metric: of one part, of forget against holdout, of a model against another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np

from leakbound.errors import InputError
from leakbound.metrics.membership import auc
from leakbound.metrics.needs import TEXTS, Item, Items, Kind, Metric, Need, Values
from leakbound.types import Reading

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
        found = {name: metric.value(items, None).value for name, metric in terms.items()}
        return Values(combine({name: each for name, each in found.items() if each is not None}))

    needs = dict.fromkeys(chain.from_iterable(metric.needs for metric in terms.values()))
    return Metric(needs=tuple(needs), value=value)


def attack(measure: Measure, *, gradient_norm: bool = False) -> Metric:
    """The AUC of telling the holdout part from the forget part by a measure."""
    kinds = NOTHING if gradient_norm else frozenset[Kind]({"answer"})
    forget, holdout = (
        Need(part=part, kinds=kinds, gradient_norm=gradient_norm) for part in ("forget", "holdout")
    )

    def value(items: Items, reference: Items | None = None) -> Values:
        return told_apart(*(measure_part(measure, items, need.part) for need in (forget, holdout)))

    return Metric(needs=(forget, holdout), value=value)


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
            found = measure(item)
        except InputError as error:
            raise InputError(f"{part}, {item.prompt.id!r}: {error}") from error
        if not math.isfinite(found):
            raise InputError(
                f"{part}, {item.prompt.id!r} measures {found}, which is no number to average. "
                "Look at the model's probabilities there."
            )
        measured[item.prompt.id] = found
    return measured


def readings(item: Item, kind: Kind) -> tuple[Reading, ...]:
    """The readings of all the prompt's texts of a kind: at least one."""
    if found := item.readings.get(kind):
        return found
    raise InputError(f"no {kind} text of this prompt was read. See that the benchmark has one.")


def of_answer(measure: Callable[[Reading], float]) -> Measure:
    """The measure of the one reading of the prompt's answer."""
    return lambda item: measure(readings(item, "answer")[0])


def texts(item: Item, kind: Kind) -> tuple[str, ...]:
    """All the prompt's texts of a kind: at least one."""
    if found := TEXTS[kind](item.prompt):
        return found
    raise InputError(f"this prompt has no {_NAMES[kind]}. Leave it out, or give it one.")


def known(value: T | None, what: str) -> T:
    """What was asked for of a prompt."""
    if value is None:
        raise InputError(f"{what} of this prompt is not known. Evaluate the model with it.")
    return value


def _require_same(part: str, items: Items, reference: Items) -> None:
    here, there = ({item.prompt.id for item in each.get(part, ())} for each in (items, reference))
    if here != there:
        odd = sorted(here ^ there)[0]
        raise InputError(
            f"the retrained model was evaluated on other prompts of {part!r}: {odd!r} was put to "
            "one model only. Evaluate both on the same."
        )
