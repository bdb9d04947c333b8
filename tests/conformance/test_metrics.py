"""Promises of every metric: one row each, its range, and whether prompts have values of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics import METRICS, Item, Need, Values
from metric_items import items

ENDLESS = math.inf
PARTS = ("forget", "retain", "real_authors", "world_facts")
UNIT = (
    *("probability", "rouge_1_recall", "rouge_l_recall", "rouge_l_f1", "truth_ratio_prob_mean"),
    *("confidence", "self_bleu", "distinct_share"),
    *("perturbed_probability", "perturbed_rouge_l_recall"),
)
PARAPHRASED = ("paraphrased_probability", "paraphrased_rouge_l_recall")
ATTACKS = ("loss", "zlib", "reference", "min_k", "min_k_plus_plus", "gradient_norm")
ROWS: dict[str, tuple[float, float, tuple[str, ...]]] = {  # lowest, highest, parts with values
    **{f"{part}_{name}": (0, 1, (part,)) for part in PARTS for name in UNIT},
    **{f"{part}_truth_ratio": (0, 1, (part,)) for part in PARTS},
    **{f"{part}_{name}": (0, 1, (part,)) for part in PARTS[:2] for name in PARAPHRASED},
    **{f"{part}_entropy": (0, ENDLESS, (part,)) for part in PARTS},
    **{f"{part}_normalised_probability": (0, 1, (part,)) for part in PARTS[2:]},
    **{f"membership_{name}": (0, 1, ("forget", "holdout")) for name in ATTACKS},
    "forget_fluency": (0, 1, ("forget",)),
    "choice_accuracy": (0, 1, ("forget",)),
    "choice_probability": (0, 1, ("forget",)),
    "exact_memorisation": (0, 1, ("forget",)),
    "extraction_strength": (0, 1, ("forget",)),
    "model_utility": (0, 1, ()),
    "r_avg": (0, 1, ()),
    "forget_quality": (0, 1, ()),
    "privleak": (-ENDLESS, ENDLESS, ()),
    "rel_diff": (-ENDLESS, ENDLESS, ()),
}
every_metric = pytest.mark.parametrize("name", ROWS)
READ = [name for name, metric in METRICS.items() if any(need.kinds for need in metric.needs)]
MODEL, RETRAINED = items(skill=2.0), items(skill=0.9)


def pruned(given: Sequence[Item], needs: Sequence[Need]) -> list[Item]:
    """Keep only what this metric needs of the items."""
    return [
        Item(
            item.prompt,
            {k: r for k, r in item.readings.items() if any(k in need.kinds for need in needs)},
            item.greedy if any(need.greedy for need in needs) else None,
            item.gradient_norm if any(need.gradient_norm for need in needs) else None,
            item.draws if any(need.draws for need in needs) else None,
            item.fluency if any(need.fluency for need in needs) else None,
        )
        for item in given
    ]


def needed(name: str, model: dict[str, list[Item]]) -> dict[str, list[Item]]:
    needs = METRICS[name].needs
    return {
        part: pruned(model[part], [need for need in needs if need.part == part])
        for part in {need.part for need in needs}
    }


def test_every_metric_has_a_row() -> None:
    assert METRICS.keys() == ROWS.keys()


@every_metric
def test_value_and_values_of_prompts(name: str) -> None:
    lowest, highest, parts = ROWS[name]
    got = METRICS[name].value(MODEL, RETRAINED)
    assert got.value is not None
    assert lowest <= got.value <= highest
    assert type(got.value) is float
    assert got.by_item.keys() == {item.prompt.id for part in parts for item in MODEL[part]}
    assert all(type(value) is float for value in got.by_item.values())


@every_metric
def test_only_what_is_needed_is_used(name: str) -> None:
    metric = METRICS[name]
    assert metric.value(needed(name, MODEL), needed(name, RETRAINED)) == metric.value(
        MODEL, RETRAINED
    )


@every_metric
def test_all_that_is_needed_is_used_and_named_where_it_is_missing(name: str) -> None:
    whole = needed(name, MODEL)
    for part, got in whole.items():
        with pytest.raises(InputError, match=part):
            METRICS[name].value({**whole, part: []}, needed(name, RETRAINED))
        first = got[0]
        poorer = [
            *(
                replace(first, readings={k: r for k, r in first.readings.items() if k != kind})
                for kind in first.readings
            ),
            *(
                replace(first, **{field: None})
                for field in ("greedy", "gradient_norm", "draws", "fluency")
                if getattr(first, field) is not None
            ),
        ]
        assert poorer
        for item in poorer:
            lacking = {**whole, part: [item, *got[1:]]}
            with pytest.raises(InputError, match=f"'{first.prompt.id}': this prompt has no"):
                METRICS[name].value(lacking, needed(name, RETRAINED))


@every_metric
def test_the_order_of_the_prompts_is_nothing(name: str) -> None:
    turned = {part: got[::-1] for part, got in MODEL.items()}
    there, back = (METRICS[name].value(each, RETRAINED) for each in (MODEL, turned))
    assert back.value == pytest.approx(there.value, rel=1e-12)
    assert back.by_item == there.by_item


@every_metric
def test_the_reference_model(name: str) -> None:
    alone = METRICS[name].value(MODEL, None)
    if METRICS[name].reference == "no":
        assert alone == METRICS[name].value(MODEL, RETRAINED)
        return
    if METRICS[name].reference == "retrained":
        assert (alone.value, alone.by_item) == (None, {})
    assert METRICS[name].value(MODEL, MODEL) != METRICS[name].value(MODEL, RETRAINED)
    for part in {need.part for need in METRICS[name].needs}:
        other = {**RETRAINED, part: RETRAINED[part][1:]}
        named = f"other prompts of '{part}': only one model has '{part}/0'"
        with pytest.raises(InputError, match=named):
            METRICS[name].value(MODEL, other)


@pytest.mark.parametrize("name", READ)
def test_a_value_that_is_no_number_is_refused_or_not_looked_at(name: str) -> None:
    part = next(need.part for need in METRICS[name].needs if need.kinds)
    damaged = [replace(item, readings=_damaged(item)) for item in MODEL[part]]
    got = _outcome(name, {**MODEL, part: damaged})
    if isinstance(got, str):
        assert f"the metric of '{part}/0' in part '{part}' is nan" in got
    else:
        assert got == METRICS[name].value(MODEL, RETRAINED)


def _outcome(name: str, items: dict[str, list[Item]]) -> Values | str:
    try:
        return METRICS[name].value(items, RETRAINED)
    except InputError as error:
        return str(error)


def _damaged(item: Item) -> dict[str, object]:
    def nan(values: np.ndarray) -> np.ndarray:
        return np.full_like(values, math.nan)

    return {
        kind: tuple(
            replace(
                each,
                logprobs=nan(each.logprobs),
                mean=nan(each.mean),
                confidence=nan(each.confidence),
            )
            for each in read
        )
        for kind, read in item.readings.items()
    }
