"""The margin between batch shapes: models with a known difference, and real ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from leakbound.benchmarks import load_benchmark
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.margin import LEAST_MARGIN, probed_prompts, shape_margin
from leakbound.engines.prefix_cache import CachedModel, RecomputedModel
from leakbound.sampling import TableModel
from leakbound.sampling.model import Handles
from leakbound.types import Decoding, Query
from tiny import BOTH_KINDS, TEMPLATE, tiny_llama, tiny_loaded, tiny_tokenizer

VOCAB = 11
Noise = Callable[[int, int], float]


class Noisy(TableModel):
    """Shifts the logits of token 3 by `noise(rows, longest prefix)`.

    A prompt has no rows; -1 if it is read while handles are open.
    """

    def __init__(self, noise: Noise, table: Sequence[float] = (1 / VOCAB,) * VOCAB) -> None:
        super().__init__(lambda _: table, vocab_size=VOCAB)
        self.noise = noise

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        rows = -1 if self.live else 0
        handles, logits = super().prefill(prompts)
        logits[:, 3] += torch.tensor([self.noise(rows, len(prompt)) for prompt in prompts])
        return handles, logits

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        handles, logits = super().extend(parents, tokens, takes_over)
        logits[:, 3] += self.noise(len(parents), max(len(self._prefixes[h]) for h in handles))
        return handles, logits


@BOTH_KINDS
@pytest.mark.parametrize("seam", [CachedModel, RecomputedModel])
@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        (torch.float64, LEAST_MARGIN, LEAST_MARGIN),
        (torch.float32, LEAST_MARGIN, 1e-4),
        (torch.bfloat16, math.inf, math.inf),
        (torch.float16, math.inf, math.inf),
    ],
)
def test_a_model_moves_as_its_precision_has_it(
    seam: type[CachedModel] | type[RecomputedModel], dtype: torch.dtype, least: float, most: float
) -> None:
    model = seam(tiny_llama(VOCAB, hidden_size=64).to(dtype), frozenset())
    assert least <= shape_margin(model) <= most
    assert model.live == 0


NOISES: dict[str, tuple[Noise, float]] = {
    "none": (lambda *_: 0.0, 4e-6),
    "64 rows": (lambda rows, _: 1e-3 * (rows == 64), 8e-3),
    "7 rows": (lambda rows, _: 1e-3 * (rows == 7), 8e-3),
    "2 rows": (lambda rows, _: 1e-3 * (rows == 2), 8e-3),
    "alone": (lambda rows, _: 1e-3 * (rows == 1), 8e-3),
    "as a prompt": (lambda rows, _: -1e-3 * (rows == 0), 8e-3),
    "in pieces": (lambda rows, _: 1e-3 * (rows == -1), 8e-3),
    "beside longer": (lambda rows, longest: 1e-3 * (rows == 2 and longest > 8), 8e-3),
    "between two": (lambda rows, _: {7: 5e-4, 2: -5e-4}.get(rows, 0.0), 8e-3),
    "NaN": (lambda rows, _: math.nan if rows == 2 else 0.0, math.inf),
    "infinite": (lambda rows, _: math.inf if rows == 2 else 0.0, math.inf),
    "NaN everywhere": (lambda *_: math.nan, math.inf),
}


@pytest.mark.parametrize("name", NOISES)
def test_the_rounding_of_one_shape_counts_eight_times(name: str) -> None:
    noise, margin = NOISES[name]
    assert shape_margin(Noisy(noise)) == pytest.approx(margin)


def test_tokens_of_probability_zero_agree() -> None:
    table = [0.5, 0.5, *[0.0] * (VOCAB - 2)]
    assert shape_margin(Noisy(lambda *_: 0.0, table)) == LEAST_MARGIN


def test_differences_that_need_the_prompts_of_a_run_count() -> None:
    model = Noisy(lambda rows, longest: 1e-3 * (rows == 2 and longest > 30))
    assert shape_margin(model) == LEAST_MARGIN
    assert shape_margin(model, [tuple(range(1, 9)) * 4]) == pytest.approx(8e-3)


def test_a_prompt_that_breaks_every_shape_is_skipped() -> None:
    table = {False: (1 / VOCAB,) * VOCAB, True: (math.nan,) * VOCAB}
    model = TableModel(lambda ids: table[len(ids) > 30], vocab_size=VOCAB)
    assert shape_margin(model, [(1,) * 40]) == LEAST_MARGIN
    torn = Noisy(lambda rows, longest: math.nan if rows == 1 and longest > 30 else 0.0)
    assert shape_margin(torn, [(1,) * 40]) == math.inf


def test_prompts_are_probed_from_the_shortest_to_the_longest() -> None:
    prompts = [(7,) * length for length in range(1, 30)]
    probed = probed_prompts(prompts)
    assert [len(ids) for ids in probed] == [1, 5, 9, 13, 17, 21, 25, 29]
    assert probed_prompts(reversed(prompts)) == probed
    assert probed_prompts([(1, 2), (3,), (1, 2)]) == ((3,), (1, 2))
    assert probed_prompts([]) == ()
    assert probed_prompts([(1, 2, 3, 4, 5)], context=7) == ((3, 4, 5),)


QUESTIONS = [Query.original(prompt) for prompt in load_benchmark("fictitious").prompts]


def margin_engine(chat: bool, deviation: float, seed: int) -> TransformersEngine:
    """A small model with words for the built-in questions, with a chat template or without."""
    words = sorted({word for query in QUESTIONS for word in query.text.split()})
    marks = ("Question:", "Answer:", "<s>", "<e>", "user", "assistant")
    tokenizer = tiny_tokenizer([*marks, *words])
    tokenizer.chat_template = TEMPLATE if chat else None
    model = tiny_llama(len(tokenizer), seed, hidden_size=32, initializer_range=deviation)
    return TransformersEngine(tiny_loaded(model, tokenizer), Prompting())


@torch.inference_mode()
def largest_move(made: TransformersEngine, prompts: Sequence[tuple[int, ...]]) -> float:
    """Return the change of a log-probability between 64 rows, one row, and a plain forward."""
    model, steps = made.loaded.model, 6
    seam, paths, moved = CachedModel(model, frozenset([2])), [list(p) for p in prompts], 0.0
    roots, logits = seam.prefill(prompts)
    handles, seen = np.resize(roots, 64), []
    for step in range(steps):
        tokens = logits.argmax(dim=-1).numpy()
        for path, token in zip(paths, tokens, strict=False):
            path.append(int(token))
        handles, logits = seam.extend(handles, np.resize(tokens, 64), np.full(64, step > 0))
        logits = logits[: len(prompts)]
        seen.append(logits.double().log_softmax(dim=-1))
    for row, path in enumerate(paths):
        at_once = model(torch.tensor([path]), use_cache=False).logits[0, -steps:].double()
        alone, handle = [], roots[row : row + 1]
        for step, token in enumerate(path[-steps:]):
            handle, one = seam.extend(handle, np.array([token]), np.array([step > 0]))
            alone.append(one[0].double().log_softmax(dim=-1))
        wide = torch.stack([each[row] for each in seen])
        for other in (at_once.log_softmax(dim=-1), torch.stack(alone)):
            moved = max(moved, float((wide - other).abs().max()))
    return moved


@BOTH_KINDS
@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
@pytest.mark.parametrize(("deviation", "seed"), [(0.3, 1), (0.4, 0)])
@pytest.mark.thorough
def test_unprobed_questions_stay_within_the_margin(chat: bool, deviation: float, seed: int) -> None:
    made = margin_engine(chat, deviation, seed)
    made.force([(query, "Ann") for query in QUESTIONS], Decoding(max_new_tokens=2))
    prompts = list(dict.fromkeys(map(made.prompt_ids, QUESTIONS)))
    unprobed = sorted(set(prompts) - set(probed_prompts(prompts)))
    assert unprobed
    assert largest_move(made, unprobed[:8]) <= made.margin


def test_a_run_has_one_margin_in_any_order_of_its_questions() -> None:
    made, again, untold = (margin_engine(True, 0.4, 0) for _ in range(3))
    some = QUESTIONS[:5]
    made.measure(some)
    again.measure(some[:1])
    first = again.margin
    again.measure(some[::-1])
    untold.force([(query, "Ann") for query in some], Decoding(max_new_tokens=1))
    assert made.margin == again.margin == untold.margin != first


def test_a_prompt_that_fills_the_context_loses_its_beginning() -> None:
    made = margin_engine(False, 0.4, 0)
    made.measure([Query(id="long", prompt_id="long", text="Ann " * 124)])
    assert math.isfinite(made.margin)
