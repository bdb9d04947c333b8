"""The bench of proofs: its beams against enumeration, and how it shares out its forwards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from leakbound.sampling import Root
from leakbound.types import Decoding
from sampling.sampling_tables import DECODINGS, ROOTS, VOCAB, Ids, enumerate_law, mass_of, table

BENCH = Path(__file__).parents[1] / "bench"
LEAK = 3
ENOUGH = VOCAB**4


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def keyword(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Token 3 leaks, wherever it occurs."""
    return [(float(LEAK in ids), float(LEAK in ids or not ended)) for ids, ended in items]


def leaking(decoding: Decoding, root: Root) -> float:
    law = enumerate_law(decoding, root.token_ids)
    return sum(p for ids, p in law.items() if LEAK in ids)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_beams_wide_enough_hold_all_leaking_mass(decoding: Decoding) -> None:
    from prove import beam_search

    for root in ROOTS:
        model = table()
        found = beam_search(model, root, decoding, width=ENOUGH, forwards=ENOUGH)
        assert found.leaks(0, keyword) == pytest.approx(leaking(decoding, root), abs=1e-12)
        assert all(ended for _, ended, _ in found.reached)
        assert model.held == 0


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("forwards", [1, 4, 12, ENOUGH])
def test_narrow_beams_know_masses_of_what_they_reach_and_count_none_twice(
    width: int, forwards: int
) -> None:
    from prove import beam_search

    decoding = Decoding(max_new_tokens=4)
    for root in ROOTS:
        law = enumerate_law(decoding, root.token_ids)
        found = beam_search(table(), root, decoding, width=width, forwards=forwards)
        assert found.forwards <= min(forwards, 3 * width)
        for ids, _, mass in found.reached:
            assert mass == pytest.approx(mass_of(law, ids), rel=1e-9)
        for one, other in pairwise(sorted(ids for ids, *_ in found.reached)):
            assert other[: len(one)] != one
        assert found.leaks(0, keyword) <= leaking(decoding, root) + 1e-12


def test_wider_beams_find_more_of_it() -> None:
    from prove import beam_search

    decoding = Decoding(max_new_tokens=4)
    mass = [
        sum(
            beam_search(table(), root, decoding, width=width, forwards=ENOUGH).leaks(0, keyword)
            for root in ROOTS
        )
        for width in (1, ENOUGH)
    ]
    assert mass[0] < 0.9 * mass[1]


def test_draws_are_as_many_as_their_forwards_allow() -> None:
    from prove import MOST_DRAWS, affordable

    costs = [(64, 100), (128, 200), (256, 300)]
    assert affordable(costs, 100) == 64
    assert 128 < affordable(costs, 250) < 256
    assert 256 < affordable(costs, 450) < 1024
    assert affordable(costs, 50) == 32
    assert affordable(costs, 1) == 1
    assert affordable([(64, 9), (128, 9)], 10**9) == MOST_DRAWS
