"""Successive halving, driven by a table of probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest

from leakbound.inputs.halving import (
    FIRST,
    LEAST_BUDGET,
    Standing,
    halve,
    most_candidates,
    rounds,
)

Asked = Mapping[str, int]


class Table:
    """Candidates that leak with given probabilities; keeps what was drawn."""

    def __init__(self, leaks: Mapping[str, float], broken: Mapping[str, int] | None = None) -> None:
        self.leaks, self.broken = leaks, broken or {}
        self.rng = np.random.default_rng(0)
        self.asked: list[dict[str, int]] = []
        self.drawn: dict[str, tuple[int, int]] = {}

    def draw(self, number: int, asked: Asked) -> dict[str, Standing]:
        self.asked.append(dict(asked))
        found = {}
        for one, n in asked.items():
            hits, total = self.drawn.get(one, (0, 0))
            hits, total = hits + int(self.rng.binomial(n, self.leaks[one])), total + n
            self.drawn[one] = hits, total
            value = hits / total
            lower = max(0.0, value - math.sqrt(math.log(10) / (2 * total)))
            if number < self.broken.get(one, 99):
                found[one] = Standing(draws=total, lower=lower, value=value)
        return found


@pytest.mark.parametrize("budget", [16, 100, 777, 2_000, 20_000])
def test_it_spends_equal_shares_and_never_more_than_the_budget(budget: int) -> None:
    number = most_candidates(budget)
    assert number >= 2
    table = Table({f"c{i}": i / number for i in range(number)})
    halve({"q": list(table.leaks)}, budget, table.draw)
    sizes = [len(asked) for asked in table.asked]
    assert sizes[0] == number
    assert all(after == -(-before // 2) for before, after in pairwise(sizes))
    assert sizes[-1] == 2
    assert all(len(set(asked.values())) == 1 for asked in table.asked)
    assert min(table.asked[0].values()) >= FIRST
    costs = [sum(asked.values()) for asked in table.asked]
    assert budget - sum(sizes) < sum(costs) <= budget
    more = number + 1
    assert rounds(more, budget)[0] < FIRST or more * len(rounds(more, budget)) * FIRST > budget


def test_the_least_budget_is_one_round_of_two() -> None:
    assert most_candidates(LEAST_BUDGET) == 2
    assert most_candidates(LEAST_BUDGET - 1) == 1
    assert rounds(2, LEAST_BUDGET) == (FIRST,)
    assert rounds(1, LEAST_BUDGET) == ()


def test_it_finds_what_leaks_most() -> None:
    table = Table({f"c{i}": 0.9 if i == 17 else 0.2 for i in range(32)})
    winner = halve({"q": list(table.leaks)}, 2_000, table.draw)["q"]
    assert winner.candidate == "c17"
    draws = [standing.draws for standing in winner.standings]
    assert draws == list(np.cumsum(rounds(32, 2_000)))


def test_fields_of_all_sizes_advance_in_step_with_a_budget_each() -> None:
    fields = {"a": [f"a{i}" for i in range(9)], "b": ["b0", "b1"], "c": ["c0"]}
    leaks = {"a8": 0.9, "b1": 0.9}
    table = Table({one: leaks.get(one, 0.0) for field in fields.values() for one in field})
    found = halve(fields, 400, table.draw)
    assert {name: winner.candidate for name, winner in found.items()} == {
        "a": "a8", "b": "b1", "c": "c0",
    }  # fmt: skip
    assert list(found) == list(fields)
    assert len(table.asked) == 4
    assert sum(n for asked in table.asked for one, n in asked.items() if one[0] == "a") <= 400
    assert {one: n for asked in table.asked for one, n in asked.items() if one[0] == "b"} == {
        "b0": 200, "b1": 200,
    }  # fmt: skip
    assert found["c"].standings == ()


def test_a_lower_bound_decides_before_the_value_and_ties_go_to_the_earlier() -> None:
    table = {
        "sure": Standing(draws=8, lower=0.4, value=0.5),
        "wild": Standing(draws=8, lower=0.1, value=0.9),
        "tied": Standing(draws=8, lower=0.4, value=0.6),
        "last": Standing(draws=8, lower=0.4, value=0.6),
    }
    found = halve({"q": list(table)}, 64, lambda number, asked: {c: table[c] for c in asked})
    assert found["q"].candidate == "tied"
    same = Standing(draws=8, lower=0.0, value=0.0)
    found = halve({"q": list(table)}, 64, lambda number, asked: dict.fromkeys(asked, same))
    assert found["q"].candidate == "sure"


def test_what_fails_is_out() -> None:
    leaks = {"c0": 0.0, "c1": 0.99, "c2": 0.4, "c3": 0.1}
    table = Table(leaks, broken={"c1": 2})
    assert halve({"q": list(leaks)}, 400, table.draw)["q"].candidate == "c2"
    table = Table(leaks, broken=dict.fromkeys(leaks, 1))
    winner = halve({"q": list(leaks)}, 400, table.draw)["q"]
    assert (winner.candidate, winner.standings) == ("c0", ())
    assert len(table.asked) == 1
