"""Find the best of many candidates with a limited number of draws (successive halving).

Karnin et al. (2013), `Almost optimal exploration in multi-armed bandits`. Every round draws equally
from the remaining candidates and keeps the better half. There are two departures from the paper.
The draws of a candidate add up over the rounds. Candidates are ranked by a lower bound (a
confidence bound or a proved bound), so a candidate is kept only for observed or proved results.

The winner is selected by these bounds, so they are not valid for the winner. Valid bounds need
draws that the search did not use.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

FIRST = 8
"""The minimum number of draws per candidate in the first round."""

LEAST_BUDGET = 2 * FIRST
"""The cost of one round of two candidates."""

C = TypeVar("C", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The results of a candidate after a round, from all draws so far.

    `lower` is a lower confidence bound on the quantity to maximise, and `value` is its point
    estimate; both are from `draws`. `proved` is a lower bound without sampling error, from
    `forwards` forward passes and these draws.
    """

    draws: int
    lower: float
    value: float
    forwards: int = 0
    proved: float = 0.0

    @property
    def floor(self) -> float:
        """The number by which candidates are ranked: the larger of the two lower bounds."""
        return max(self.lower, self.proved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner(Generic[C]):
    """The last remaining candidate, with its results after each round in which it was drawn."""

    candidate: C
    standings: tuple[Standing, ...]


Draw = Callable[[int, Mapping[C, int]], Mapping[C, Standing]]
"""(round from 1, draws of each candidate) -> the results of each; failed candidates are absent.

The function may spend the cost of these draws on other computations instead."""


def most_candidates(budget: int) -> int:
    """Return the number of candidates that a budget allows, with `FIRST` first draws each."""
    number = 1
    while (number + 1) * number.bit_length() * FIRST <= budget:
        number += 1
    return number


def rounds(candidates: int, budget: int) -> tuple[int, ...]:
    """Return the draws per candidate in each round. All rounds get equal parts of `budget`."""
    sizes = []
    while candidates > 1:
        sizes.append(candidates)
        candidates = _half(candidates)
    return tuple(budget // (len(sizes) * size) for size in sizes)


def halve(fields: Mapping[str, Sequence[C]], budget: int, draw: Draw[C]) -> dict[str, Winner[C]]:
    """Return the winner of each set of candidates. Each set gets `budget` draws.

    All sets run round by round. In a tie, the candidate with the higher rank after the previous
    round wins; in the first round, the earlier candidate wins. If all remaining candidates of a set
    fail in one round, the first of these candidates wins.
    """
    left = {name: list(field) for name, field in fields.items()}
    plans = {name: rounds(len(field), budget) for name, field in fields.items()}
    seen: dict[C, list[Standing]] = {c: [] for field in fields.values() for c in field}
    for number in range(max(map(len, plans.values()), default=0)):
        racing = {name for name, p in plans.items() if number < len(p) and len(left[name]) > 1}
        draws = {c: plans[name][number] for name in left if name in racing for c in left[name]}
        standings = draw(number + 1, draws) if draws else {}
        for c, standing in standings.items():
            seen[c].append(standing)
        for name in racing:
            there = [c for c in left[name] if c in standings]
            there.sort(key=lambda c: (standings[c].floor, standings[c].value), reverse=True)
            left[name] = there[: _half(len(left[name]))] or left[name][:1]
    return {
        name: Winner(candidate=field[0], standings=tuple(seen[field[0]]))
        for name, field in left.items()
    }


def _half(number: int) -> int:
    return (number + 1) // 2
