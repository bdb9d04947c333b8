"""Diversity, utility, and what metrics are made of beyond those that OpenUnlearning has, too."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakbound.errors import InputError
from leakbound.metrics import METRICS, diversity
from leakbound.metrics.diversity import distinct_share, self_bleu
from leakbound.metrics.utility import (
    RECALL_TERMS,
    UTILITY_TERMS,
    forget_quality,
    model_utility,
    r_avg,
)
from metric_items import items

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/self_bleu.json").read_text())["cases"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_self_bleu_equals_sacrebleu(case: dict[str, Any]) -> None:
    texts, counts = case["texts"], case["counts"]
    assert self_bleu(texts, counts) == pytest.approx(case["value"], abs=1e-12)
    drawn = [text for text, count in zip(texts, counts, strict=True) for _ in range(count)]
    assert self_bleu(drawn) == pytest.approx(case["value"], abs=1e-12)


def test_copies_count_and_what_was_never_drawn_does_not() -> None:
    assert self_bleu(["a b c d", "x y z"], [2, 0]) == 1.0
    assert self_bleu(["a b c d", "x y z"], [2, 1]) == pytest.approx(2 / 3)
    assert self_bleu(["", "a b"]) == 0.0
    assert self_bleu(["", " "]) == 1.0  # of draws without words
    assert self_bleu(["", "", "a b"]) == pytest.approx(2 / 3)


def test_distinct_share() -> None:
    assert distinct_share(["a", "b"], [3, 1]) == 0.5
    assert distinct_share(["a", "a", "b", "c"]) == 0.75
    assert distinct_share(["a", "b"], [4, 0]) == 0.25


TERMS = {name: (place + 1) / 10 for place, name in enumerate(UTILITY_TERMS)}


def test_model_utility_is_the_harmonic_mean_of_nine_and_r_avg_the_mean_of_three() -> None:
    assert model_utility(TERMS) == pytest.approx(stats.hmean([*TERMS.values()]))
    assert model_utility({**TERMS, "retain_truth_ratio": 0.0}) == 0.0
    recalls = dict(zip(RECALL_TERMS, (0.1, 0.2, 0.6), strict=True))
    assert r_avg({**TERMS, **recalls}) == pytest.approx(0.3)


def test_forget_quality_is_the_p_value_of_two_sided_ks() -> None:
    # Largest gap 3/4 between samples of 4, one below the other. Of the 70 orders of the eight
    # values 16 have a gap of 3/4 or 1 in either direction: 2 * C(8, 1) (reflection principle).
    assert forget_quality([1, 2, 3, 5], [4, 6, 7, 8]) == pytest.approx(16 / 70)
    assert forget_quality([4, 6, 7, 8], [1, 2, 3, 5]) == pytest.approx(16 / 70)
    assert forget_quality([1, 2, 3], [1, 2, 3]) == 1.0


LACKING = {name: value for name, value in TERMS.items() if "world" not in name}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(self_bleu, ["a", "b"], [1, 0]), "got 1 draws, at least 2"),
        (partial(distinct_share, []), "got 0 draws, at least 1"),
        (partial(distinct_share, ["a", "b"], [2, -1]), "got -1 for 'b'"),
        *((partial(model_utility, {**TERMS, "retain_probability": value}),
           r"retain_probability must be in \[0, 1\]") for value in (-0.1, 1.1, math.nan)),
        (partial(model_utility, LACKING), "lacks world_facts_normalised_probability, world_facts"),
        (partial(r_avg, LACKING), "lacks world_facts_rouge_l_recall"),
        (partial(forget_quality, [], [1.0]), "got 0 and 1"),
        (partial(forget_quality, [math.nan], [1.0]), "1 of them not finite"),
    ],
)  # fmt: skip
def test_invalid_input_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


MODEL, RETRAINED = items(skill=2.0), items(skill=0.9)
FORGET = MODEL["forget"]


def value(name: str) -> float:
    found = METRICS[name].value(MODEL, RETRAINED).value
    assert found is not None
    return found


def test_diversity_weighs_the_draws_of_each_prompt() -> None:
    drawn = [item.draws for item in FORGET if item.draws]
    bleu = [diversity.self_bleu([*each], [*each.values()]) for each in drawn]
    assert value("forget_self_bleu") == pytest.approx(np.mean(bleu))
    share = [2 / sum(each.values()) for each in drawn]
    assert value("forget_distinct_share") == pytest.approx(np.mean(share))


@pytest.mark.parametrize("name", ["privleak", "rel_diff"])
def test_without_a_retrained_model_its_auc_is_one_half(name: str) -> None:
    auc = METRICS["membership_min_k"].value(RETRAINED, None).value
    assert auc is not None
    sign = -1 if name == "privleak" else 1
    assert METRICS[name].value(RETRAINED, None).value == pytest.approx(sign * 200 * (auc - 0.5))
