"""The check for copied outputs: exact error rates by enumeration, power, and false alarms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from leakbound.errors import InputError
from leakbound.stats import check_independence, require_independent

TESTS = ("text", "copies", "chunks")


def compositions(n: int, d: int) -> list[tuple[int, ...]]:
    """Yield all counts of d texts that add up to n."""
    return [c for c in itertools.product(range(n + 1), repeat=d) if sum(c) == n]


def p_values(counts: Any, logprobs: Any, **kwargs: Any) -> dict[str, float]:
    got = check_independence(counts, logprobs, **kwargs)
    return {name: getattr(got, name) for name in TESTS}


LAWS: dict[str, Callable[[], np.ndarray]] = {
    "60 texts": lambda: np.random.default_rng(1).dirichlet(np.full(60, 0.5)),
    "Zipf": lambda: 1 / np.arange(1, 5_001) / (1 / np.arange(1, 5_001)).sum(),
}


def drawn(p: np.ndarray, n: int, seed: int, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    counts = times * np.random.default_rng(seed).multinomial(n // times, p)
    return counts, np.log(p)


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.9, 0.1), (0.6, 0.3, 0.1), (0.3, 0.05, 0.05)])
def test_error_rates_by_enumeration(p: tuple[float, ...]) -> None:
    """Over all samples of 12: a p-value below t has probability at most t, at every t.

    The last distribution has unlisted texts: each draw of one is a separate text.
    """
    n, listed = 12, len(p)
    law = np.array([*p, max(0.0, 1 - sum(p))])
    chance, got = [], []
    for counts in compositions(n, len(law)):
        chance.append(multinomial.pmf(counts, n, law))
        surprises = [1] * counts[-1]
        logp = np.log([*p, *[1e-40] * counts[-1]])
        got.append(p_values([*counts[:listed], *surprises], logp, copies=(2, 3)))
    weight = np.array(chance)
    assert weight.sum() == pytest.approx(1)
    for name in ("text", "copies"):
        values = np.array([each[name] for each in got])
        for t in np.unique(values[weight > 0]):
            assert weight[values <= t].sum() <= t + 1e-9


def test_two_chunks_by_enumeration() -> None:
    n, p = 6, np.array([0.5, 0.3, 0.2])
    chunks = compositions(n, 3)
    values, weight = [], []
    for pair in itertools.product(chunks, repeat=2):
        values.append(p_values(pair, np.log(p))["chunks"])
        weight.append(np.prod(multinomial.pmf(pair, n, p)))
    for t in np.unique(values):
        assert np.array(weight)[np.array(values) <= t].sum() <= t + 1e-9
    assert min(values) == pytest.approx(multinomial.pmf([0, 0, 6], n, p))


def test_the_ratio_compares_the_two_distributions() -> None:
    p, counts = np.array([0.5, 0.3, 0.2]), np.array([6, 12, 6])
    under_copies = multinomial.pmf(counts // 6, 4, p)
    ratio = under_copies / multinomial.pmf(counts, 24, p)
    got = p_values(counts, np.log(p), copies=(6,))
    assert got["copies"] == pytest.approx(min(1, 1 / ratio))
    two = p_values(counts, np.log(p), copies=(5, 6))
    assert two["copies"] == pytest.approx(min(1, 2 / ratio))
    assert p_values(counts, np.log(p), copies=(5,))["copies"] == 1


def test_a_text_too_often() -> None:
    counts, p = np.array([9, 1, 90]), np.array([0.01, 1e-30, 0.9])
    tail = binom.sf(7, 99, 0.01)
    assert p_values(counts, np.log(p))["text"] == pytest.approx(tail * 100 / 9)
    assert check_independence([40, 60], np.log([0.01, 0.9])).verdict == "copies"


def test_a_rambling_model_is_not_refused() -> None:
    """Texts of probability e^-300, each seen once: each is surprising, none is suspicious."""
    got = check_independence(np.ones(1024), np.full(1024, -300.0))
    assert got.verdict == "no objection"
    assert binom.sf(0, 1024, math.exp(-300)) < 1e-9 / 1024  # the tail at its count would refuse it
    assert check_independence([2, *np.ones(1022)], np.full(1023, -300.0)).verdict == "copies"


@pytest.mark.parametrize(("law", "times"), [("60 texts", 4), ("Zipf", 2), ("Zipf", 3)])
def test_copies_are_refused(law: str, times: int) -> None:
    for seed in range(20):
        counts, logp = drawn(LAWS[law](), 255 // times * times, seed, times)
        got = check_independence(counts, logp)
        assert (got.verdict, got.n) == ("copies", 255 // times * times)
        with pytest.raises(InputError, match=r"query 'q7' are not independent.*request id"):
            require_independent(counts, logp, where="query 'q7'")
    assert check_independence(counts, logp, level=1e-300).verdict == "no objection"


def test_a_repeated_chunk_is_refused() -> None:
    p = LAWS["60 texts"]()
    chunks = np.random.default_rng(0).multinomial(64, p, size=4)
    assert check_independence(chunks, np.log(p)).verdict == "no objection"
    chunks[3] = chunks[1]
    got = check_independence(chunks, np.log(p))
    assert (got.verdict, got.seen[:23]) == ("copies", "every text occurs equal")
    assert got.chunks == pytest.approx(6 * multinomial.pmf(chunks[1], 64, p), rel=1e-9, abs=0)
    peaked = check_independence([[64, 0], [64, 0]], np.log([0.999, 0.001]))
    assert peaked.verdict == "no objection"


@pytest.mark.parametrize(
    ("counts", "logprobs", "seen"),
    [
        ([5, 5], [None, -1.0], "1 of 2 texts"),
        ([5, 5], [np.nan, -np.inf], "2 of 2 texts"),
        ([5, 5], None, "2 of 2 texts"),
        ([5, 5], [-0.1, -0.1], "add up to 1.80967"),
        ([5], [900.0], "add up to"),
        ([], [], "no draws"),
        ([0, 0], [-1.0, -1.0], "no draws"),
    ],
)
def test_not_checkable(counts: Any, logprobs: Any, seen: str) -> None:
    got = require_independent(counts, logprobs)
    assert got.verdict == "not checkable"
    assert seen in got.seen


def test_rounding_and_padding() -> None:
    got = check_independence([500, 500], np.log([0.5, 0.5]) + 1e-6)
    assert got.verdict == "no objection"
    assert p_values([8], [1e-7]) == dict.fromkeys(TESTS, 1.0)
    padded = check_independence([3, 0, 4], [-1.0, np.nan, -0.5])
    assert padded == check_independence([3, 4], [-1.0, -0.5])
