"""Which tokens a decoding keeps, with what probability, and that no other is ever drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampling_tables import ONE_STEP, next_law
from scipy import stats

from leakbound.sampling.next_token import Picks, pick
from leakbound.types import Decoding


def draw(probabilities: list[float], decoding: Decoding, n: int = 20_000) -> Picks:
    with np.errstate(divide="ignore"):
        logits = torch.from_numpy(np.log(np.array([probabilities])))
    u = (np.arange(n) + 0.5) / n
    return pick(logits, decoding, np.zeros(n, np.int64), u, (np.zeros(1), np.ones(1, np.int64)))


P = [0.05, 0.3, 0.0, 0.2, 0.3, 0.15]


@pytest.mark.parametrize("decoding", [d for d in ONE_STEP if not d.greedy], ids=lambda d: d.name)
def test_evenly_spaced_uniforms_give_the_law(decoding: Decoding) -> None:
    n = 20_000
    picks = draw(P, decoding, n)
    want = next_law(P, decoding)
    got = np.bincount(picks.tokens, minlength=len(P)) / n
    assert np.abs(got - want).max() <= 1.5 / n
    assert np.allclose(picks.logprob, np.log(want[picks.tokens]), atol=1e-12)
    assert np.allclose(picks.model_logprob, np.log(np.array(P)[picks.tokens]), atol=1e-12)


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    for decoding in (Decoding(temperature=0), Decoding(top_k=1)):
        picks = draw([0.1, 0.45, 0.45], decoding, 10)
        assert set(picks.tokens) == {1}
        assert (picks.logprob == 0).all()
        assert np.allclose(picks.model_logprob, np.log(0.45))


def test_top_k_breaks_ties_by_id_in_a_large_vocabulary() -> None:
    size = 5000
    picks = draw([1 / size] * size, Decoding(top_k=3), 300)
    assert sorted(set(picks.tokens.tolist())) == [0, 1, 2]


@pytest.mark.thorough
def test_top_k_among_more_ties_than_are_looked_at_first_takes_the_lowest_ids() -> None:
    weights = np.ones(5000)
    weights[4900:] = 2
    picks = draw(list(weights / weights.sum()), Decoding(top_k=130), 20_000)
    assert sorted(set(picks.tokens.tolist())) == [*range(30), *range(4900, 5000)]


def test_top_p_of_a_flat_large_vocabulary_keeps_the_smallest_sufficient_set() -> None:
    size = 4000
    picks = draw([1 / size] * size, Decoding(top_p=0.5), 8000)
    assert len(set(picks.tokens.tolist())) == size // 2
    assert picks.tokens.max() == size // 2 - 1


@pytest.mark.thorough
def test_large_vocabulary_follows_its_law() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3000, 0.05))
    for decoding in (Decoding(), Decoding(top_p=0.9), Decoding(top_k=200)):
        n = 40_000
        logits = torch.from_numpy(np.log(np.maximum(p, 1e-300)))[None]
        u = rng.random(n)
        picks = pick(logits, decoding, np.zeros(n, np.int64), u, (np.zeros(1), np.ones(1, int)))
        want = next_law(list(p), decoding) * n
        got = np.bincount(picks.tokens, minlength=len(p))
        big = want >= 5
        observed = np.append(got[big], got[~big].sum())
        expected = np.append(want[big], want[~big].sum())
        keep = expected > 0
        assert stats.chisquare(observed[keep], expected[keep]).pvalue > 1e-3
        assert got[want == 0].sum() == 0


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_extreme_uniforms_never_draw_an_impossible_token(u: float) -> None:
    for size in (3, 255, 256, 257, 1000):
        for first in (0, 1, size // 2):
            p = np.zeros(size)
            p[first : first + 2] = [0.25, 0.75]
            p /= p.sum()
            with np.errstate(divide="ignore"):
                logits = torch.from_numpy(np.log(p))[None]
            for decoding in (Decoding(), Decoding(top_p=0.999)):
                picks = pick(
                    logits, decoding, np.zeros(1, np.int64), np.array([u]),
                    (np.zeros(1), np.ones(1, np.int64)),
                )  # fmt: skip
                assert p[picks.tokens[0]] > 0


@pytest.mark.parametrize("seed", range(5))
def test_uniforms_at_the_seams_of_blocks_draw_a_neighbour(seed: int) -> None:
    """Sums of a block and running sums round differently; no draw may fall between them."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(8 * 256, 0.05))
    p.reshape(8, 256)[:, :3] = 0
    p.reshape(8, 256)[:, -3:] = 0
    p /= p.sum()
    seams = np.cumsum(p.reshape(8, 256).sum(axis=1))[:-1]
    u = np.clip([s + i * 2.0**-54 for s in seams for i in range(-12, 13)], 0, 1 - 2**-53)
    with np.errstate(divide="ignore"):
        logits = torch.from_numpy(np.log(p))[None]
    zeros = np.zeros(len(u), np.int64)
    tokens = pick(logits, Decoding(), zeros, u, (np.zeros(1), np.ones(1, np.int64))).tokens
    assert (p[tokens] > 0).all()
    upto = np.cumsum(p)
    assert (u > upto[tokens] - p[tokens] - 1e-12).all()
    assert (u < upto[tokens] + 1e-12).all()


def test_float32_logits_are_summed_in_float64() -> None:
    size = 128_000
    logits = torch.zeros(1, size, dtype=torch.float32)
    picks = pick(
        logits, Decoding(), np.zeros(1, np.int64), np.array([0.5]), (np.zeros(1), np.ones(1, int))
    )
    assert abs(picks.model_logprob[0] + np.log(size)) < 1e-12


def test_adaptive_temperature_switches_strictly_above_the_threshold() -> None:
    logits = torch.log(torch.tensor([[0.8, 0.2], [0.8, 0.2]], dtype=torch.float64))
    u = np.array([0.99, 0.99])
    rows = np.array([0, 1])
    # row 0: mean (0.9 + 0.8) / 2 = 0.85; row 1: mean (0.7 + 0.8) / 2 = 0.75
    confidence = (np.array([0.9, 0.7]), np.array([2, 2]))
    picks = pick(logits, Decoding(adaptive_temperature=0.8), rows, u, confidence)
    assert picks.tokens.tolist() == [0, 1]
    assert picks.logprob[0] == 0
    assert np.isclose(picks.logprob[1], np.log(0.2))
    at = pick(logits, Decoding(adaptive_temperature=1.0), rows, u, confidence)
    assert at.tokens.tolist() == [1, 1]
    coin = torch.zeros(1, 2, dtype=torch.float64)  # its p_max is 0.5 to the last bit
    even = pick(
        coin, Decoding(adaptive_temperature=0.5), rows[:1], u[:1], (np.zeros(1), np.ones(1, int))
    )
    assert even.tokens.tolist() == [1]


def test_adaptive_temperature_judges_the_untruncated_model_at_temperature_one() -> None:
    logits = torch.log(torch.tensor([[0.6, 0.4]], dtype=torch.float64))
    decoding = Decoding(temperature=0.01, top_p=0.5, adaptive_temperature=0.7)
    picks = pick(logits, decoding, np.array([0]), np.array([0.5]), (np.zeros(1), np.ones(1, int)))
    assert np.isclose(picks.p_max[0], 0.6)


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ([0.0, float("nan")], True),
        ([0.0, float("inf")], True),
        ([-float("inf")] * 2, True),
        ([0.0, -float("inf")], False),
    ],
)
def test_unusable_logits_are_told(row: list[float], broken: bool) -> None:
    logits = torch.tensor([[0.0, 1.0], row], dtype=torch.float64)
    rows = np.array([0, 1])
    picks = pick(logits, Decoding(), rows, np.full(2, 0.9), (np.zeros(2), np.ones(2, int)))
    assert picks.broken.tolist() == [False, broken]
    if not broken:
        assert picks.tokens[1] == 0
