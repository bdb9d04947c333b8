"""The margin between batch shapes: models whose shapes differ by a known amount, and real ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from residua.engines.margin import LEAST_MARGIN, shape_margin
from residua.engines.prefix_cache import CachedModel, RecomputedModel
from residua.sampling import TableModel
from residua.sampling.model import Handles
from tiny import tiny_llama

VOCAB = 11
Noise = Callable[[int, int], float]


class Noisy(TableModel):
    """Logits of token 3 are off by `noise(rows, longest prefix)`.

    A prompt has no rows; -1 where it is read while others are held.
    """

    def __init__(self, noise: Noise, table: Sequence[float] = (1 / VOCAB,) * VOCAB) -> None:
        super().__init__(lambda _: table, vocab_size=VOCAB)
        self.noise = noise

    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        rows = -1 if self.held else 0
        handle, logits = super().prefill(prompt)
        logits[:, 3] += self.noise(rows, len(prompt))
        return handle, logits

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        handles, logits = super().extend(parents, tokens, takes_over)
        logits[:, 3] += self.noise(len(parents), max(len(self._prefixes[h]) for h in handles))
        return handles, logits


@pytest.mark.parametrize("seam", [CachedModel, RecomputedModel])
def test_a_float32_model_moves_a_little(seam: type[CachedModel] | type[RecomputedModel]) -> None:
    model = seam(tiny_llama(VOCAB, hidden_size=64), frozenset())
    assert LEAST_MARGIN <= shape_margin(model) < 1e-4


def test_every_handle_is_released() -> None:
    model = CachedModel(tiny_llama(VOCAB), frozenset())
    shape_margin(model)
    assert model.held == 0


@pytest.mark.parametrize(
    "noise",
    [
        lambda rows, _: float(rows == 64),
        lambda rows, _: float(rows == 7),
        lambda rows, _: float(rows == 2),
        lambda rows, _: float(rows == 1),
        lambda rows, _: -float(rows == 0),
        lambda rows, _: float(rows == -1),
        lambda rows, longest: float(rows == 2 and longest > 8),
        lambda rows, _: {7: 0.5, 2: -0.5}.get(rows, 0.0),
    ],
    ids=[
        "64 rows",
        "7 rows",
        "2 rows",
        "alone",
        "as a prompt",
        "in pieces",
        "beside longer",
        "between two",
    ],
)
def test_what_one_shape_adds_counts_four_times(noise: Noise) -> None:
    assert shape_margin(Noisy(lambda *shape: 1e-3 * noise(*shape))) == pytest.approx(4e-3)


def test_shapes_that_agree_leave_the_least_margin() -> None:
    assert shape_margin(Noisy(lambda *_: 0.0)) == 4e-6


def test_tokens_of_probability_zero_agree() -> None:
    table = [0.5, 0.5, *[0.0] * (VOCAB - 2)]
    assert shape_margin(Noisy(lambda *_: 0.0, table)) == LEAST_MARGIN


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_unusable_logits_have_no_margin(broken: float) -> None:
    assert shape_margin(Noisy(lambda rows, _: broken if rows == 2 else 0.0)) == math.inf
    assert shape_margin(Noisy(lambda *_: math.nan)) == math.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seam", [CachedModel, RecomputedModel])
def test_half_precision_has_no_margin(
    seam: type[CachedModel] | type[RecomputedModel], dtype: torch.dtype
) -> None:
    assert shape_margin(seam(tiny_llama(VOCAB).to(dtype), frozenset())) == math.inf


def test_double_precision_has_the_least() -> None:
    assert shape_margin(CachedModel(tiny_llama(VOCAB).double(), frozenset())) == LEAST_MARGIN
