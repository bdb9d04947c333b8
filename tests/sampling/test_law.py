"""Floors hold for any logits within the margin, and are no lower than they must be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sampling_tables import ONE_STEP, next_law

from leakbound.sampling.law import Law, certain_law, kept_tokens
from leakbound.sampling.next_token import pick
from leakbound.types import Decoding

ONE = np.ones(1, dtype=np.int64)


def law_of(
    logits: np.ndarray, decoding: Decoding, margin: float, before: float = 0.0, depth: int = 1
) -> Law:
    rows = torch.from_numpy(np.atleast_2d(logits))
    count = len(rows)
    return certain_law(
        rows, decoding, np.full(count, before), np.full(count, depth, dtype=np.int64), margin
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max())
    return p / p.sum()


def truth(logits: np.ndarray, decoding: Decoding, greedy: bool = False) -> np.ndarray:
    return next_law(list(softmax(logits)), decoding, greedy)


def adversaries(rng: np.random.Generator, size: int) -> list[np.ndarray]:
    """Directions in [-1, 1] in which logits move: at random, to corners, and token by token."""
    found = [rng.uniform(-1, 1, size) for _ in range(4)]
    found += [rng.choice([-1.0, 1.0], size) for _ in range(6)]
    for token in range(min(size, 8)):
        alone = np.ones(size)
        alone[token] = -1
        found += [alone, -alone]
    return found


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
@pytest.mark.parametrize("margin", [1e-5, 0.02, 0.3])
def test_floors_hold_for_all_logits_within_the_margin(decoding: Decoding, margin: float) -> None:
    rng = np.random.default_rng(0)
    for case in range(60):
        size = int(rng.integers(2, 13))
        logits = rng.normal(0, 1.5, size)
        if case % 2:  # ties, and differences of just the margin
            logits = np.round(logits) + margin * rng.integers(-2, 3, size) / 2
        order = np.argsort(-logits)
        logits[: size // 2] = logits[order][: size // 2]  # the heaviest come first
        floor = law_of(logits, decoding, margin).floor[0].numpy()
        for direction in adversaries(rng, size):
            with np.errstate(divide="ignore"):
                moved = np.log(truth(logits + margin / 2 * direction, decoding))
            assert (floor <= moved + 1e-9).all(), (logits, direction)


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
def test_floors_lose_no_more_than_the_margin_where_nothing_is_in_doubt(decoding: Decoding) -> None:
    rng = np.random.default_rng(1)
    margin = 1e-7
    law = law_of(rng.normal(0, 2, (50, 100)), decoding, margin)
    loss = (law.logprob - law.floor)[torch.isfinite(law.logprob)]
    least = margin / decoding.temperature if not decoding.greedy else 0.0
    assert (loss >= least - 1e-12).all()
    assert (loss <= least + 1e-9).all()
    assert (torch.exp(law.floor).sum(dim=1) > 1 - 1e-6).all()


def test_doubtful_tokens_have_no_floor_and_the_others_share_with_them() -> None:
    logits = np.log([0.4, 0.3, 0.2995, 0.0005])
    floor = law_of(logits, Decoding(top_k=2), 0.01).floor[0]
    assert np.isclose(floor[0], np.log(0.4 / 0.9995) - 0.01)
    assert (floor[1:] == -math.inf).all()
    floor = law_of(logits, Decoding(top_p=0.7), 0.01).floor[0]  # .7 is reached by two, or not
    assert np.isclose(floor[0], np.log(0.4 / 0.9995) - 0.01)
    assert (floor[2:] == -math.inf).all()
    floor = law_of(logits, Decoding(top_p=0.6), 1e-4).floor[0]
    assert np.isclose(floor[0], np.log(0.4 / 0.7) - 1e-4)
    assert np.isclose(floor[1], np.log(0.3 / 0.7) - 1e-4)


def test_a_tied_maximum_is_no_certain_choice() -> None:
    logits = np.log([0.2, 0.4, 0.4])
    assert (law_of(logits, Decoding(temperature=0), 1e-6).floor == -math.inf).all()
    assert law_of(logits, Decoding(temperature=0), 0.0).floor[0].tolist() == [
        -math.inf, 0.0, -math.inf,
    ]  # fmt: skip


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
def test_without_margin_nothing_is_in_doubt(decoding: Decoding) -> None:
    logits = np.round(np.random.default_rng(2).normal(0, 1, (20, 9)))  # ties
    law = law_of(logits, decoding, 0.0)
    assert torch.equal(law.floor, law.logprob)
    for row, got in zip(logits, torch.exp(law.logprob), strict=True):
        assert np.allclose(got, truth(row, decoding), atol=1e-12)


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
@pytest.mark.parametrize("margin", [50.0, math.inf])
def test_an_endless_margin_leaves_nothing_certain(decoding: Decoding, margin: float) -> None:
    adaptive = replace(decoding, adaptive_temperature=0.9)
    for each in (decoding, adaptive):
        law = law_of(np.array([[3.0, 1.0, 0.0], [9.0, 0.0, 0.0]]), each, margin)
        assert (torch.exp(law.floor) < 1e-8).all()


@pytest.mark.parametrize("margin", [1e-6, 0.05])
def test_the_adaptive_switch_in_doubt_takes_the_worse_of_both_ways(margin: float) -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(100):
        logits, depth = rng.normal(0, 1.5, 5), int(rng.integers(1, 6))
        before = float(rng.uniform(0, depth - 1)) if depth > 1 else 0.0
        mean = (before + softmax(logits).max()) / depth
        factor = math.exp(rng.choice([-2, -0.9, 0.0, 0.9, 2]) * margin)
        decoding = Decoding(adaptive_temperature=min(mean * factor, 1.0), top_p=0.9)
        law = law_of(logits, decoding, margin, before, depth)
        for direction in adversaries(rng, 5):
            for way in (-1, 1):
                moved = logits + margin / 2 * direction
                after = before * math.exp(way * margin) + softmax(moved).max()
                greedy = after / depth > decoding.adaptive_temperature
                with np.errstate(divide="ignore"):
                    want = np.log(truth(moved, decoding, greedy))
                assert (law.floor[0].numpy() <= want + 1e-9).all()
                seen.add(bool(greedy))
    assert seen == {True, False}


def test_the_adaptive_switch_beyond_doubt_loses_nothing() -> None:
    decoding, logits = Decoding(adaptive_temperature=0.7), np.log([0.8, 0.2])
    sure = law_of(logits, decoding, 1e-3)
    assert sure.floor[0].tolist() == [0.0, -math.inf]
    below = law_of(logits, decoding, 1e-3, before=0.1, depth=2)
    assert np.allclose(below.floor[0], logits - 1e-3)
    doubtful = law_of(logits, Decoding(adaptive_temperature=0.8), 1e-3)
    assert np.isclose(doubtful.floor[0, 0], np.log(0.8) - 1e-3)
    assert doubtful.floor[0, 1] == -math.inf


@pytest.mark.parametrize("decoding", ONE_STEP[3:9], ids=lambda d: d.name)
@pytest.mark.parametrize("margin", [1e-5, 0.5])
def test_few_tokens_looked_at_tell_the_same_as_all(decoding: Decoding, margin: float) -> None:
    rng = np.random.default_rng(4)
    weights = torch.from_numpy(rng.dirichlet(np.full(300, 0.03), size=40))
    every = kept_tokens(weights, decoding, 300, margin)
    told = 0
    for width in (10, 40):
        few = kept_tokens(weights, decoding, width, margin)
        done = few.kept > 0
        told += int(done.sum())
        for name in ("kept", "sure", "possible"):
            assert torch.equal(getattr(few, name)[done], getattr(every, name)[done])
    assert told


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
def test_a_draw_has_the_floor_of_its_token(decoding: Decoding) -> None:
    rng = np.random.default_rng(5)
    logits, margin = torch.from_numpy(rng.normal(0, 1.5, (30, 12))), 0.05
    rows, u = np.repeat(np.arange(30), 5), rng.random(150)
    before, depth = rng.uniform(0, 1, 30), np.full(30, 2)
    for adaptive in (None, 0.5):
        each = replace(decoding, adaptive_temperature=adaptive)
        picks = pick(logits, each, rows, u, (before, depth), margin)
        law = certain_law(logits, each, before, depth, margin)
        assert np.allclose(picks.floor, law.floor[rows, picks.tokens], atol=1e-12)
        assert np.allclose(picks.logprob, law.logprob[rows, picks.tokens], atol=1e-12)
        plain = pick(logits, each, rows, u, (before, depth))
        assert np.array_equal(plain.floor, plain.logprob)
        assert np.array_equal(plain.tokens, picks.tokens)


def test_steps_say_what_each_token_is() -> None:
    law = law_of(np.log([0.5, 0.25, 0.25]), Decoding(temperature=0.5), 1e-3)
    ((step,),) = law.steps([[1]])
    assert np.isclose(step.logprob, np.log(1 / 6))
    assert np.isclose(step.floor, np.log(1 / 6) - 2e-3)
    assert np.isclose(step.model_logprob, np.log(0.25))
    assert np.isclose(step.p_max, 0.5)


def test_steps_of_many_rows_are_those_of_each() -> None:
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    law = certain_law(logits, Decoding(top_k=4), np.zeros(4), np.ones(4, np.int64), 1e-3)
    wanted = [[0, 5], [], [3], [2, 1, 4]]
    for row, (tokens, steps) in enumerate(zip(wanted, law.steps(wanted), strict=True)):
        assert len(steps) == len(tokens)
        for token, step in zip(tokens, steps, strict=True):
            columns = (law.logprob, law.floor, law.model_logprob)
            assert step[:3] == tuple(float(column[row, token]) for column in columns)
            assert step.p_max == law.p_max[row]
