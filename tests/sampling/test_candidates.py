"""Candidates against a heap that contains all of them, and their positions in leads, one by one."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from leakbound.sampling.model import Ending, Ids
from leakbound.sampling.prove import Hunt
from leakbound.sampling.search import BestFirst, Brood, Candidate
from sampling_tables import unsettled

LEAD = (3, 1, 3, 2, 2, 0, 1, 1, 4, 1, 3, 3)


def prefixes(rng: np.random.Generator, first: int = 9) -> list[Candidate]:
    """Prefixes of all lengths; some begin others, and some have no lead."""
    start = Candidate.prompt().brood
    paths = {(first, *rng.integers(0, 3, rng.integers(0, 4)).tolist()) for _ in range(6)}
    got = []
    for path in sorted(paths):
        at, left = rng.integers(0, len(LEAD) + 1, 2).tolist()
        got.append(Candidate(start, 0, path, 0.0, LEAD if rng.random() < 0.7 else None, at, left))
    return got


def brood_of(some: list[Candidate], rng: np.random.Generator) -> Brood:
    row, token = np.indices((len(some), 5)).reshape(2, -1)
    token = rng.permuted(token.reshape(-1, 5), axis=1).ravel()
    sums = rng.integers(-3, 0, (4, len(row))).astype(float)
    waits = rng.random(len(row)) < 0.7
    hunt = Hunt(number=0, ending=Ending(frozenset(), 9, None), settle=unsettled, most=1)
    places = hunt.along(some, row, token)
    return Brood(some, range(len(some)), row, token, sums, *places, waits)


@pytest.mark.parametrize("seed", range(15))
def test_candidates_leave_in_the_order_of_a_heap(seed: int) -> None:
    """Worth is one of four values, so most are tied; some taken candidates return."""
    rng = np.random.default_rng(seed)
    frontier, plain = BestFirst(), list[tuple[float, Ids]]()
    for depth in range(4):
        brood = brood_of(prefixes(rng, depth), rng)
        paths = brood.paths(np.flatnonzero(brood.waits))
        worths = rng.integers(1, 5, len(paths)) / 4
        frontier.push_all(brood, worths)
        for path, worth in zip(paths, worths.tolist(), strict=True):
            heapq.heappush(plain, (-worth, path))
        for _ in range(4):
            assert frontier.best == (-plain[0][0] if plain else 0.0)
            most, least = int(rng.integers(1, 9)), float(rng.integers(1, 5)) / 4
            taken, expected = frontier.take(most, least), list[Ids]()
            while plain and len(expected) < most and -plain[0][0] >= least:
                expected.append(heapq.heappop(plain)[1])
            assert [each.path for each in taken] == expected
            for each in taken[::2]:
                frontier.push(each, 0.5)
                heapq.heappush(plain, (-0.5, each.path))
    waiting = [each for brood in frontier.broods for each in brood.open_waiting()]
    left = [each.path for each in (*frontier.candidates, *waiting)]
    assert sorted(left) == sorted(path for _, path in plain)


@pytest.mark.parametrize("seed", range(5))
def test_a_child_is_at_the_nearest_of_its_token_in_the_lead(seed: int) -> None:
    rng = np.random.default_rng(seed)
    brood = brood_of(some := prefixes(rng), rng)
    for place in range(len(brood.row)):
        child, parent = brood.open(place), some[brood.row[place]]
        if (lead := parent.lead) is None:
            continue
        near = range(max(parent.at - 2, 0), min(parent.at + 8, len(lead)))
        got = [i for i in near if lead[i] == child.path[-1]]
        nearest = min(got, key=lambda i: (abs(i - parent.at), i), default=-1)
        ahead = min(parent.at + 1, len(lead))
        expected = (nearest + 1, nearest + 1) if got else (ahead, parent.left)
        assert (child.at, child.left) == expected
