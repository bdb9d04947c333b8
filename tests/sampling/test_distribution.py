"""Next-token distributions: floors under any logits within the margin, draws, and their keys.

Philox against Random123's known answers, and its streams against each other; descriptions of a
decoding for engines and for comparisons.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from leakbound.errors import InputError
from leakbound.sampling import philox
from leakbound.sampling.distribution import Distribution, Picks, next_distribution, pick
from leakbound.types import Decoding, Draws
from leakbound.types.decoding import CUTS
from leakbound.types.records import changed
from sampling_tables import ONE_STEP, next_law
from suites import require_fit


def law_of(
    logits: np.ndarray, decoding: Decoding, margin: float, before: float = 0.0, depth: int = 1
) -> Distribution:
    rows = torch.from_numpy(np.atleast_2d(logits))
    count = len(rows)
    confidence = np.full(count, before), np.full(count, depth, dtype=np.int64)
    return next_distribution(rows, decoding, confidence, margin)


def softmax(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max())
    return p / p.sum()


def truth(logits: np.ndarray, decoding: Decoding, greedy: bool = False) -> np.ndarray:
    return next_law(list(softmax(logits)), decoding, greedy)


def adversaries(rng: np.random.Generator, size: int) -> list[np.ndarray]:
    """Directions in [-1, 1] in which logits move: random, to corners, and token by token."""
    got = [rng.uniform(-1, 1, size) for _ in range(4)]
    got += [rng.choice([-1.0, 1.0], size) for _ in range(6)]
    for token in range(min(size, 8)):
        alone = np.ones(size)
        alone[token] = -1
        got += [alone, -alone]
    return got


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
@pytest.mark.parametrize("margin", [1e-5, 0.02, 0.3])
def test_floors_hold_for_all_logits_within_the_margin(decoding: Decoding, margin: float) -> None:
    rng = np.random.default_rng(0)
    for case in range(14):
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
def test_floors_lose_at_most_the_margin_without_doubt(decoding: Decoding) -> None:
    rng = np.random.default_rng(1)
    margin = 1e-7
    law = law_of(rng.normal(0, 2, (50, 100)), decoding, margin)
    loss = (law.logprob - law.floor)[torch.isfinite(law.logprob)]
    least = margin / decoding.temperature if not decoding.greedy else 0.0
    assert (loss >= least - 1e-12).all()
    assert (loss <= least + 1e-9).all()
    assert (torch.exp(law.floor).sum(dim=1) > 1 - 1e-6).all()


def test_doubtful_tokens_have_no_floor_and_lower_the_others() -> None:
    logits = np.log([0.4, 0.3, 0.2995, 0.0005])
    floor = law_of(logits, Decoding(top_k=2), 0.01).floor[0]
    assert np.isclose(floor[0], np.log(0.4 / 0.9995) - 0.01)
    assert (floor[1:] == -math.inf).all()
    floor = law_of(logits, Decoding(top_p=0.7), 0.01).floor[0]  # one or two tokens reach .7
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


@pytest.mark.parametrize("decoding", [d for d in ONE_STEP if not d.greedy], ids=lambda d: d.name)
def test_the_definition_is_that_of_transformers_own_sampler(decoding: Decoding) -> None:
    warpers = [TemperatureLogitsWarper(decoding.temperature)]
    warpers += [TopKLogitsWarper(decoding.top_k)] if decoding.top_k else []
    warpers += [TopPLogitsWarper(decoding.top_p)] if decoding.top_p < 1 else []
    for row in np.random.default_rng(6).normal(0, 2, (40, 12)):
        warped = torch.from_numpy(row)[None]
        for warper in warpers:
            warped = warper(None, warped)
        assert np.allclose(warped[0].softmax(dim=-1).numpy(), truth(row, decoding), atol=1e-9)


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
def test_an_endless_margin_leaves_nothing_certain(decoding: Decoding) -> None:
    adaptive = replace(decoding, adaptive_temperature=0.9)
    for each, margin in itertools.product((decoding, adaptive), (50.0, math.inf)):
        law = law_of(np.array([[3.0, 1.0, 0.0], [9.0, 0.0, 0.0]]), each, margin)
        assert (torch.exp(law.floor) < 1e-8).all()


@pytest.mark.parametrize("margin", [1e-6, 0.05])
def test_a_doubtful_adaptive_switch_takes_the_lower_floor(margin: float) -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(40):
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


def test_a_wide_margin_puts_the_lightest_tokens_in_doubt() -> None:
    """A token of weight e^-700 may follow one of e^-760, which is 0 in float64."""
    law = law_of(np.array([0.0, -700.0, -760.0]), Decoding(top_k=2), margin=200.0)
    assert torch.isfinite(law.floor[0]).tolist() == [True, False, False]


@pytest.mark.parametrize("decoding", ONE_STEP, ids=lambda d: d.name)
def test_a_draw_has_the_floor_of_its_token(decoding: Decoding) -> None:
    rng = np.random.default_rng(5)
    logits, margin = torch.from_numpy(rng.normal(0, 1.5, (30, 12))), 0.05
    rows, u = np.repeat(np.arange(30), 5), rng.random(150)
    before, depth = rng.uniform(0, 1, 30), np.full(30, 2)
    for adaptive in (None, 0.5):
        each = replace(decoding, adaptive_temperature=adaptive)
        picks = pick(logits, each, rows, u, (before, depth), margin)
        law = next_distribution(logits, each, (before, depth), margin)
        assert np.allclose(picks.floor, law.floor[rows, picks.tokens], atol=1e-12)
        assert np.allclose(picks.logprob, law.logprob[rows, picks.tokens], atol=1e-12)
        plain = pick(logits, each, rows, u, (before, depth))
        assert np.array_equal(plain.floor, plain.logprob)
        assert np.array_equal(plain.tokens, picks.tokens)


def picked(
    logits: torch.Tensor,
    decoding: Decoding,
    u: np.ndarray,
    before: float | Sequence[float] = 0.0,
    depth: int = 1,
) -> Picks:
    """Draw with these uniforms, the same number per row; `before`: confidence at this depth."""
    rows = np.repeat(np.arange(len(logits)), len(u) // len(logits))
    so_far = np.broadcast_to(np.array(before, dtype=float), len(logits))
    return pick(logits, decoding, rows, u, (so_far, np.full(len(logits), depth)))


def log_of(probabilities: Sequence[float] | np.ndarray) -> torch.Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(np.array([probabilities])))


def draw(probabilities: Sequence[float], decoding: Decoding, n: int) -> Picks:
    return picked(log_of(probabilities), decoding, (np.arange(n) + 0.5) / n)


P = [0.05, 0.3, 0.0, 0.2, 0.3, 0.15]


@pytest.mark.parametrize("decoding", [d for d in ONE_STEP if not d.greedy], ids=lambda d: d.name)
def test_evenly_spaced_uniforms_give_the_distribution(decoding: Decoding) -> None:
    n = 5_000
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


FLAT, STEP = np.ones(600), np.repeat([1.0, 2.0], [550, 50])


@pytest.mark.parametrize(
    ("weights", "decoding", "kept"),
    [
        (FLAT, Decoding(top_k=3), [0, 1, 2]),
        (FLAT, Decoding(top_p=0.5), [*range(300)]),
        (STEP, Decoding(top_k=70), [*range(20), *range(550, 600)]),
    ],
)
def test_ties_in_a_large_vocabulary_go_to_the_lowest_ids(
    weights: np.ndarray, decoding: Decoding, kept: list[int]
) -> None:
    picks = draw(list(weights / weights.sum()), decoding, 3_000)
    assert sorted(set(picks.tokens.tolist())) == kept


@pytest.mark.thorough
def test_a_large_vocabulary_follows_its_distribution() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3000, 0.05))
    for decoding in (Decoding(), Decoding(top_p=0.9), Decoding(top_k=200)):
        picks = picked(log_of(np.maximum(p, 1e-300)), decoding, rng.random(40_000))
        law = enumerate(next_law(list(p), decoding).tolist())
        require_fit(Counter(picks.tokens.tolist()), {token: mass for token, mass in law if mass})


@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_extreme_uniforms_never_draw_an_impossible_token(u: float) -> None:
    for size in (3, 255, 256, 257, 1000):
        for first in (0, 1, size // 2):
            p = np.zeros(size)
            p[first : first + 2] = [0.25, 0.75]
            for decoding in (Decoding(), Decoding(top_p=0.999)):
                assert p[picked(log_of(p), decoding, np.array([u])).tokens[0]] > 0


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
    tokens = picked(log_of(p), Decoding(), u).tokens
    assert (p[tokens] > 0).all()
    upto = np.cumsum(p)
    assert (u > upto[tokens] - p[tokens] - 1e-12).all()
    assert (u < upto[tokens] + 1e-12).all()


def test_float32_logits_are_summed_in_float64() -> None:
    size = 128_000
    logits = torch.zeros(1, size, dtype=torch.float32)
    picks = picked(logits, Decoding(), np.array([0.5]))
    assert abs(picks.model_logprob[0] + np.log(size)) < 1e-12


def test_adaptive_temperature_switches_above_its_threshold() -> None:
    logits, u = log_of([0.8, 0.2]).repeat(2, 1), np.array([0.99, 0.99])
    # row 0: mean (0.9 + 0.8) / 2 = 0.85; row 1: mean (0.7 + 0.8) / 2 = 0.75
    picks = picked(logits, Decoding(adaptive_temperature=0.8), u, [0.9, 0.7], 2)
    assert picks.tokens.tolist() == [0, 1]
    assert picks.logprob[0] == 0
    assert np.isclose(picks.logprob[1], np.log(0.2))
    at = picked(logits, Decoding(adaptive_temperature=1.0), u, [0.9, 0.7], 2)
    assert at.tokens.tolist() == [1, 1]
    coin = torch.zeros(1, 2, dtype=torch.float64)  # its p_max is 0.5 to the last bit
    even = picked(coin, Decoding(adaptive_temperature=0.5), u[:1])
    assert even.tokens.tolist() == [1]
    truncated = Decoding(temperature=0.01, top_p=0.5, adaptive_temperature=0.7)
    assert np.isclose(draw([0.6, 0.4], truncated, 1).p_max[0], 0.6)  # untruncated, at T = 1


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ([0.0, float("nan")], True),
        ([0.0, float("inf")], True),
        ([-float("inf")] * 2, True),
        ([0.0, -float("inf")], False),
    ],
)
def test_unusable_logits_are_marked(row: list[float], broken: bool) -> None:
    logits = torch.tensor([[0.0, 1.0], row], dtype=torch.float64)
    picks = picked(logits, Decoding(), np.full(2, 0.9))
    assert picks.broken.tolist() == [False, broken]
    if not broken:
        assert picks.tokens[1] == 0


def words(*values: int) -> tuple[philox.Words, ...]:
    return tuple(np.array([v], dtype=np.uint64) for v in values)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], answer: tuple[int, ...]
) -> None:
    out = philox.philox4x32(words(*counter), words(*key))  # type: ignore[arg-type]
    assert tuple(int(w[0]) for w in out) == answer


def test_streams_do_not_depend_on_their_neighbours() -> None:
    key, other = words(1, 2), words(3, 4)
    root = words(0, 0)
    both = philox.uniforms(
        (np.concatenate([key[0], other[0]]), np.concatenate([key[1], other[1]])),
        (np.zeros(2, np.uint64), np.zeros(2, np.uint64)),
        np.array([5, 3]),
    )
    alone = philox.uniforms(key, root, np.array([5]))  # type: ignore[arg-type]
    longer = philox.uniforms(key, root, np.array([9]))  # type: ignore[arg-type]
    assert np.array_equal(both[:5], alone)
    assert np.array_equal(longer[:5], alone)
    assert not np.isin(both[5:], longer).any()


def test_uniforms_are_uniform() -> None:
    u = philox.uniforms(words(7, 8), words(9, 10), np.array([200_000]))  # type: ignore[arg-type]
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest((u * 2**30) % 1, "uniform").pvalue > 1e-3  # the low bits too
    assert len(np.unique(u)) == len(u)


def test_a_seed_keeps_its_draws_from_version_to_version() -> None:
    """These draws are golden: if they change, stored runs cannot resume."""
    key = philox.stream_key(7, "score:target", "q1", 2)
    assert key == (0xD893008B, 0xDE622532)
    prefix = words(0, 0)
    for depth, token in enumerate((5, 0, 31999), 1):
        prefix = philox.extend_prefix(prefix, np.array([token]), np.array([depth]))  # type: ignore[arg-type,assignment]
    assert [int(word[0]) for word in prefix] == [0x565EC5B9, 0xABED10DD]
    u = philox.uniforms(words(*key), prefix, np.array([3]))  # type: ignore[arg-type]
    assert u.tolist() == [0.4142458850274181, 0.12302904459978492, 0.01211714851517487]


CUT = Decoding(temperature=0.7, top_k=5, top_p=0.9, max_new_tokens=9, stop=("x",))


def test_every_setting_that_truncates_is_in_the_name() -> None:
    assert not Decoding(temperature=0.3).truncated
    for cut, (label, keeps_all) in CUTS.items():
        one = Decoding(**{cut: 0.5 if isinstance(keeps_all, float) else 3})
        assert one.truncated
        assert f" {label}=" in one.name
    assert CUT.name == "T=0.7 top-k=5 top-p=0.9"


def test_the_greediest_is_as_long_and_cuts_nothing() -> None:
    greedy = Decoding(temperature=0.0, max_new_tokens=9, stop=("x",))
    assert CUT.greediest == greedy
    assert Decoding(adaptive_temperature=0.5).greediest == Decoding(temperature=0.0)


def test_what_an_engine_does_not_offer_is_named() -> None:
    assert CUT.beyond("temperature", "max_new_tokens", "stop") == ["top_p", "top_k"]
    assert CUT.beyond(*changed(CUT)) == Decoding().beyond() == []
    with pytest.raises(InputError, match="top_p"):
        Decoding(top_p=0)


def test_chunks_are_numbered_from_the_first() -> None:
    assert Draws(sizes=(4, 3), first_chunk=2).chunks("q") == [(2, 4), (3, 3)]
    own = Draws(sizes=(9,), draws_per_query={"q": 7})
    assert own.chunks("q") == [(0, 7)]
