"""Adaptive temperature in `generate` has the law of the decoding, whatever the batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from leakbound.engines.adaptive import AdaptiveTemperature
from leakbound.errors import InputError
from leakbound.sampling import Explorer, Root, TableModel
from leakbound.sampling.law import certain_law
from leakbound.sampling.search import SearchTree
from leakbound.types import Decoding, Effort
from tiny import tiny_llama

VOCAB, EOS = 5, 4
PROMPTS = [(i,) for i in range(6)]
DECODINGS = [
    Decoding(max_new_tokens=4, adaptive_temperature=0.6),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7, temperature=1.4, top_p=0.8),
    Decoding(max_new_tokens=3, adaptive_temperature=1.0),
]
Ids = tuple[int, ...]
Masses = dict[Ids, float]


def row(prefix: Ids) -> list[float]:
    """A distribution of its own for every prefix, some of them sharp, some tokens impossible."""
    p = np.random.default_rng([len(prefix), *prefix]).dirichlet(np.full(VOCAB, 0.4))
    p[p < 0.02] = 0
    return list(p / p.sum())


def sampled_law(prompt: Ids, decoding: Decoding) -> Masses:
    """Every completion's exact probability in the sampler."""
    model = TableModel(row, vocab_size=VOCAB, eos_token_ids=[EOS])
    effort = Effort(mode="exact", forwards=1000)
    tree = SearchTree(model, decoding, lambda n, items: [(0, 1)] * len(items), 0.0)
    (explored,) = Explorer(tree, effort).explore([Root("q", prompt)])
    assert all(node.ended for node in explored.nodes)
    return {node.token_ids: math.exp(node.logprob) for node in explored.nodes}


def served_law(prompt: Ids, decoding: Decoding) -> Masses:
    """The same where each step goes through the processor, and then the plain decoding.

    All prefixes of one length are one batch, in another order at each step.
    """
    assert decoding.adaptive_temperature is not None
    processor = AdaptiveTemperature(decoding.adaptive_temperature)
    plain = replace(decoding, adaptive_temperature=None)
    law: Masses = {}
    live: Masses = {(): 1.0}
    for _ in range(decoding.max_new_tokens):
        if not live:
            break
        paths = sorted(live, key=lambda path: path[::-1], reverse=True)
        scores = torch.tensor([row(prompt + path) for path in paths], dtype=torch.float64).log()
        processed = processor(torch.tensor([prompt + path for path in paths]), scores)
        at = np.zeros(len(paths)), np.ones(len(paths), dtype=np.int64)
        mass = certain_law(processed, plain, *at, 0.0).logprob.exp().tolist()
        live = {
            (*path, token): live[path] * p
            for path, steps in zip(paths, mass, strict=True)
            for token, p in enumerate(steps)
            if p > 0
        }
        law |= {path: live.pop(path) for path in list(live) if path[-1] == EOS}
    return law | live


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_what_is_served_has_the_law_of_the_sampler(decoding: Decoding) -> None:
    completions = 0
    for prompt in PROMPTS:
        sampled, served = sampled_law(prompt, decoding), served_law(prompt, decoding)
        assert served.keys() == sampled.keys()
        assert list(served.values()) == pytest.approx([sampled[path] for path in served])
        completions += len(served)
    never = replace(decoding, adaptive_temperature=1.0)
    all_drawn = sum(len(served_law(prompt, never)) for prompt in PROMPTS)
    some_greedy = decoding.adaptive_temperature != 1
    assert len(PROMPTS) < completions < all_drawn + (not some_greedy)


def scores_of(*largest: float) -> torch.Tensor:
    """Rows of logits over four tokens; token 2 is the likeliest, with these probabilities."""
    rows = [[(1 - p) / 3, (1 - p) / 3, p, (1 - p) / 3] for p in largest]
    return torch.tensor(rows, dtype=torch.float64).log()


def drawn(processed: torch.Tensor) -> list[bool]:
    """Which rows still have more than one token."""
    return (processed.isfinite().sum(dim=-1) > 1).tolist()


def test_each_row_has_its_own_running_mean() -> None:
    processor = AdaptiveTemperature(0.75)
    ids = torch.tensor([[1], [5], [9]])
    assert drawn(processor(ids, scores_of(0.9, 0.6, 0.74))) == [False, True, True]
    step = torch.tensor([[1, 2], [5, 0], [9, 3]])
    # means 0.7, 0.74 and 0.77
    assert drawn(processor(step, scores_of(0.5, 0.88, 0.8))) == [True, True, False]
    step = torch.tensor([[9, 3, 2], [1, 2, 2], [1, 2, 0]])  # reordered, one ended, one twice
    # means 0.707 from 1.54, 0.77 and 0.73 from 1.4
    assert drawn(processor(step, scores_of(0.58, 0.91, 0.79))) == [True, False, True]


def test_strictly_above_the_threshold_and_nothing_else_changes() -> None:
    ids = torch.tensor([[1], [1]])
    scores = torch.tensor([[0.0, 0.0, -math.inf, -math.inf], [0.0, 0.5, 3.0, 3.0]])
    exactly = AdaptiveTemperature(0.5)
    assert torch.equal(exactly(ids, scores), scores)
    two = torch.tensor([[1, 0], [1, 0]])
    assert torch.equal(exactly(two, scores), scores)  # a half twice is a mean of a half
    above = AdaptiveTemperature(0.45)(ids, scores)
    assert above[0].tolist() == [0.0, -math.inf, -math.inf, -math.inf]  # ties: the lowest id
    assert above[1].tolist() == [-math.inf, -math.inf, 3.0, -math.inf]
    assert above.dtype == scores.dtype


def test_another_prompt_starts_anew_and_reset_forgets() -> None:
    processor = AdaptiveTemperature(0.75)
    assert drawn(processor(torch.tensor([[1]]), scores_of(0.5))) == [True]
    assert drawn(processor(torch.tensor([[7, 8]]), scores_of(0.9))) == [False]
    assert drawn(processor(torch.tensor([[7, 8, 2]]), scores_of(0.5))) == [True]
    last = torch.tensor([[7, 8, 2, 2]]), scores_of(0.8)
    processor.reset()
    assert drawn(processor(*last)) == [False]  # 2.2 / 3 if it went on


def test_unusable_scores_are_left_for_generate_to_refuse() -> None:
    broken = scores_of(0.9, 0.9)
    broken[0, 1] = torch.nan
    processed = AdaptiveTemperature(0.1)(torch.tensor([[1], [1]]), broken)
    torch.testing.assert_close(processed[0], broken[0], rtol=0, atol=0, equal_nan=True)
    assert drawn(processed[1:]) == [False]


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, math.nan])
def test_a_threshold_that_is_no_share_is_refused(threshold: float) -> None:
    with pytest.raises(InputError, match=r"adaptive_temperature.*\(0, 1\]"):
        AdaptiveTemperature(threshold)


def test_generate_takes_it() -> None:
    model = tiny_llama(12, initializer_range=0.7)
    prompt = torch.tensor([[3, 4], [5, 6], [7, 8]])
    settings = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 8, "top_k": 0}
    greedy = model.generate(prompt, do_sample=False, **(settings | {"top_k": None}))

    def served(threshold: float, **more: float) -> torch.Tensor:
        torch.manual_seed(4)
        processor = [AdaptiveTemperature(threshold)] if threshold else []
        return model.generate(
            prompt, do_sample=True, logits_processor=processor, **settings, **more
        )

    # the confidence is that of T = 1, so a temperature of 50 does not get in its way
    assert torch.equal(served(0.01, temperature=50.0), greedy)
    assert torch.equal(served(1.0), served(0.0))
    assert not torch.equal(served(1.0), greedy)
