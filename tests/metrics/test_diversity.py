from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics.diversity import distinct_share, self_bleu

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


def test_draws_without_words() -> None:
    assert self_bleu(["", "a b"]) == 0.0
    assert self_bleu(["", " "]) == 1.0
    assert self_bleu(["", "", "a b"]) == pytest.approx(2 / 3)


def test_a_thousand_draws_take_about_a_second() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(map(str, rng.integers(0, 400, 60))) for _ in range(1024)]
    started = time.process_time()
    self_bleu(texts)
    assert time.process_time() - started < 10  # comparing each with each takes minutes


def test_distinct_share() -> None:
    assert distinct_share(["a", "b"], [3, 1]) == 0.5
    assert distinct_share(["a", "a", "b", "c"]) == 0.75
    assert distinct_share(["a", "b"], [4, 0]) == 0.25


def test_too_few_draws_and_negative_counts_are_refused() -> None:
    with pytest.raises(InputError, match="got 1 draws, at least 2"):
        self_bleu(["a", "b"], [1, 0])
    with pytest.raises(InputError, match="got 0 draws, at least 1"):
        distinct_share([])
    with pytest.raises(InputError, match="got -1 for 'b'"):
        distinct_share(["a", "b"], [2, -1])
