"""Diversity, utility, and the components of metrics that OpenUnlearning lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics import METRICS
from leakbound.metrics.diversity import self_bleu
from leakbound.metrics.utility import RECALL_TERMS, UTILITY_TERMS, model_utility, r_avg
from metric_items import items

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/self_bleu.json").read_text())["cases"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_self_bleu_equals_sacrebleu(case: dict[str, Any]) -> None:
    draws = dict(zip(case["texts"], case["counts"], strict=True))
    assert self_bleu(draws) == pytest.approx(case["value"], abs=1e-12)


def test_copies_count() -> None:
    assert self_bleu({"a b c d": 2}) == 1.0
    assert self_bleu({"a b c d": 2, "x y z": 1}) == pytest.approx(2 / 3)
    assert self_bleu({"": 1, "a b": 1}) == 0.0
    assert self_bleu({"": 1, " ": 1}) == 1.0  # draws without words
    assert self_bleu({"": 2, "a b": 1}) == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="at least 2 draws, got 1"):
        self_bleu({"a": 1})


def test_r_avg_is_the_mean_of_three_and_one_zero_is_no_utility() -> None:
    recalls = dict(zip(RECALL_TERMS, (0.1, 0.2, 0.6), strict=True))
    terms = {**dict.fromkeys(UTILITY_TERMS, 0.0), **recalls}
    assert r_avg(terms) == pytest.approx(0.3)
    assert model_utility(terms) == 0.0


MODEL, RETRAINED = items(skill=2.0), items(skill=0.9)
FORGET = MODEL["forget"]


def value(name: str) -> float:
    got = METRICS[name].value(MODEL, RETRAINED).value
    assert got is not None
    return got


def test_diversity_weighs_the_draws_of_each_prompt() -> None:
    drawn = [item.draws for item in FORGET if item.draws]
    assert value("forget_self_bleu") == pytest.approx(np.mean([*map(self_bleu, drawn)]))
    share = [2 / sum(each.values()) for each in drawn]
    assert value("forget_distinct_share") == pytest.approx(np.mean(share))


@pytest.mark.parametrize("name", ["privleak", "rel_diff"])
def test_without_a_retrained_model_its_auc_is_one_half(name: str) -> None:
    auc = METRICS["membership_min_k"].value(RETRAINED, None).value
    assert auc is not None
    sign = -1 if name == "privleak" else 1
    assert METRICS[name].value(RETRAINED, None).value == pytest.approx(sign * 200 * (auc - 0.5))
