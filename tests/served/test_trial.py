"""The trial of a server: it refuses copied outputs, and accepts every server that draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product

import pytest
from scipy.stats import binom

from leakbound.served import trial
from leakbound.served.trial import Draw, find_fault, prompt_of
from suites import slow_but

WORDS = [str(i) for i in range(50)]


One = Callable[[str, int, int, float], Sequence[str]]
"""(prompt, number of the request, outputs, temperature) -> the texts of one request."""


def each(one: One) -> Draw:
    return lambda prompt, numbers, choices, t: [one(prompt, i, choices, t) for i in numbers]


def drawing(seed: object, likeliest: float = 0.0, rounding: float = 0.0) -> One:
    """Draw two words; one text has its own chance, greedy answers differ sometimes."""
    rng = random.Random(f"{seed}")

    def draw(prompt: str, number: int, choices: int, temperature: float) -> list[str]:
        if not temperature:
            return ["greedy" if rng.random() >= rounding else "nearly"] * choices
        return [
            "likely" if rng.random() < likeliest else " ".join(rng.choices(WORDS, k=2))
            for _ in range(choices)
        ]

    return draw


def changed(change: Callable[[Sequence[str]], Sequence[str]]) -> One:
    true = drawing("changed")
    return lambda prompt, number, choices, t: change(true(prompt, number, choices, t))


def fixed(varies: Callable[[str, int], object]) -> One:
    """Return texts that are a function of (prompt, number of the request)."""

    def draw(prompt: str, number: int, choices: int, temperature: float) -> Sequence[str]:
        return drawing(varies(prompt, number))(prompt, number, choices, temperature)

    return draw


LIES: dict[str, tuple[One, str]] = {
    "greedy": (lambda prompt, *_: ["x"] * _[1], "equal"),
    "mostly greedy": (drawing(0, likeliest=0.99), "equal"),
    "copies of one draw": (changed(lambda texts: [texts[0]] * len(texts)), "one draw"),
    "pairs of one draw": (changed(lambda texts: [texts[i // 2] for i in range(len(texts))]),
                          "one draw"),
    "one answer a prompt": (fixed(lambda prompt, _: prompt), "one answer"),
    "two answers by turns": (fixed(lambda prompt, i: (prompt, i % 2)), "one answer"),
    "never greedy": (lambda prompt, n, k, t: drawing(n)(prompt, n, k, 1.0), "temperature"),
}  # fmt: skip


ONE_IS_ENOUGH = ("greedy", "mostly greedy", "one answer a prompt", "never greedy")


@pytest.mark.parametrize(
    ("name", "choices"), [*product(LIES, [4, 16]), *product(ONE_IS_ENOUGH, [1])]
)
def test_a_server_that_does_not_draw_is_refused(name: str, choices: int) -> None:
    draw, fault = LIES[name]
    got = find_fault(each(draw), choices, "key")
    assert got.name == fault or choices == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choices", "likeliest"), slow_but([(1, 0.0), (16, 0.5)], product([1, 3, 16], [0.0, 0.5]))
)
def test_a_server_that_draws_is_not_refused(choices: int, likeliest: float) -> None:
    """Even if one output is as likely as the conditions allow, and greedy answers vary."""
    for seed in range(40):
        assert find_fault(each(drawing(seed, likeliest, 0.01)), choices, "key") is None


@pytest.mark.parametrize("lost", slow_but([0.5], [0.1, 0.5]))
def test_what_did_not_arrive_looks_like_no_copy(lost: float) -> None:
    """Missing outputs are last in their row, which leaves few places for the received texts."""
    true, rng = drawing(0, likeliest=0.5), random.Random(0)

    def draw(prompt: str, numbers: range, choices: int, t: float) -> list[list[str | None]]:
        table = each(true)(prompt, numbers, choices, t)
        came = [[text for text in row if rng.random() > lost * (t > 0)] for row in table]
        return [[*row, *[None] * (choices - len(row))] for row in came]

    assert [find_fault(draw, 16, f"{i}") for i in range(8)] == [None] * 8


def test_a_fault_counts_once_it_is_seen_twice() -> None:
    first = prompt_of("key 1")
    honest = drawing(0)

    def draw(prompt: str, number: int, choices: int, temperature: float) -> Sequence[str]:
        if prompt == first:
            return ["x"] * choices
        return honest(prompt, number, choices, temperature)

    assert find_fault(each(draw), 16, "key") is None


def test_false_alarms_are_as_rare_as_stated() -> None:
    alike = 2 * max(
        binom.sf(round(trial._EQUAL * n + 0.4999) - 1, n, 0.5) for n in range(trial._DRAWS, 65)
    )
    waver = binom.sf(trial._GREEDY - trial._AGREEING, trial._GREEDY, 0.01)
    once = [alike, waver, trial._FRACTION, trial._FRACTION]
    assert alike < 2e-7
    assert waver < 1.3e-8
    assert sum(chance**2 for chance in once) < trial.FALSE_ALARM
