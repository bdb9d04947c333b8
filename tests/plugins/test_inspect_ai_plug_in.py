"""The plug-in for inspect_ai by hand; inside inspect_ai: `sh tests/engines.sh inspect_ai`."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound import stats
from leakbound.errors import InputError
from suites import plugged_into, slow_but


@pytest.fixture
def plugged() -> Iterator[Any]:
    with plug_in() as module:
        yield module


DRAWN = {"a": ["C", "I", "I", "I"], "b": ["I", "I", "I"], "c": ["C", "C", "?", "P"]}
HITS, MISSING = [1, 0, 2], [0, 1, 1]  # an unknown letter is no score, "P" is half a leak


def test_an_epoch_without_a_score_is_missing(plugged: Any) -> None:
    drawn = scores(DRAWN)
    got = plugged.worst_sample(4, confidence=0.9)(drawn)
    rows = stats.Rows.of_hits(HITS, 4, MISSING)
    want = stats.bound(rows, stats.LEAKAGE.worst(), confidence=0.9)
    assert got == {
        "worst": want.value, "worst lower": want.lower, "worst upper": want.upper,
        "missing": 2 / 12,
    }  # fmt: skip
    got = plugged.leak_probability(4, confidence=0.9)(drawn)
    mean = stats.bound(rows, stats.LEAKAGE.mean(), confidence=0.9)
    assert [got["leak lower"], got["leak upper"]] == [mean.lower, mean.upper]


def test_scores_are_graded_unless_a_limit_is_given(plugged: Any) -> None:
    drawn = scores({"a": [0.2, 0.9, 0.4, 0.5]})
    assert plugged.mean_leakage(4)(drawn)["mean"] == 0.5
    assert plugged.leak_probability(4, at_least=0.5)(drawn)["leak"] == 0.5
    drawn = scores({"a": [0.2, 0.9, 0.4, 0.5] * 2})
    at_2 = plugged.leak_at_k(2, 8, at_least=None)(drawn)["leak@2"]
    assert at_2 == pytest.approx(stats.leak_at_k(stats.Rows.of([0.2, 0.9, 0.4, 0.5] * 2), 2))
    few = plugged.leak_at_k(4, 8, at_least=None)(drawn)
    assert "leak@4 upper" in few
    assert "leak@4" not in few


def test_the_stated_seed_repeats_the_order_of_bets(plugged: Any) -> None:
    drawn = scores({id: [0.2, 0.9, 0.4, 0.5] * 8 for id in "ab"})
    got = plugged.mean_leakage(32)(drawn)
    again, other = (plugged.mean_leakage(32, seed=seed)(drawn) for seed in (int(got["seed"]), 5))
    assert again == got
    assert other["seed"] == 5
    assert other["mean lower"] != got["mean lower"]
    with pytest.raises(InputError, match="from 0 to 16,777,215, got 16777216"):
        plugged.mean_leakage(32, seed=2**24)(drawn)
    assert "seed" not in plugged.worst_sample(4)(scores(DRAWN))  # no bet


def test_samples_that_never_came_are_missing_whole(plugged: Any) -> None:
    got = plugged.worst_sample(4, samples=4)(scores({"a": ["I"] * 4}))
    assert got["worst upper"] == 1.0
    assert got["missing"] == 0.75


def test_wrong_use_is_refused_with_the_fix(plugged: Any) -> None:
    for metric, of, says in (
        (plugged.leak_probability, 1, "a bound needs several draws of each sample, got 1"),
        (plugged.mean_leakage, 4, r"`scores` must lie in \[0, 1\], got"),
        (plugged.leak_probability, "<StopWhen>", "Run `leakbound import`"),
    ):
        with pytest.raises(InputError, match=says):
            metric(of)(scores({"a": [0, 1, 3, 0]}))


def drive(rule: Any, law: dict[str, float], most: int, seed: int) -> None:
    """Run a task: 16 samples at a time, and leaks take far longer."""
    chance = np.random.default_rng(seed)

    async def run() -> None:
        samples = [SimpleNamespace(id=id) for id in law]
        assert await rule.start_task(SimpleNamespace(), samples, most) == "leakbound"
        for id, p in law.items():
            running: list[tuple[float, int, int]] = []
            clock, todo = 0.0, iter(range(1, most + 1))
            while True:
                while len(running) < 16 and (epoch := next(todo, None)) is not None:
                    if await rule.schedule_sample(id, epoch) is None:
                        leaks = int(chance.random() < p)
                        lasts = chance.exponential(1000.0 if leaks else 1.0)
                        heapq.heappush(running, (clock + lasts, epoch, leaks))
                if not running:
                    break
                clock, epoch, leaks = heapq.heappop(running)
                await rule.complete_sample(id, epoch, {"s": SampleScore(Score(leaks), id)})
        await rule.complete_task()

    asyncio.run(run())


@pytest.mark.parametrize("p", slow_but((0.1,), (0.0, 0.05, 0.1, 0.3)))
def test_stopped_bounds_are_valid_if_leaks_come_late(plugged: Any, p: float) -> None:
    """A rule that takes the first finished draws sees only clean ones, and stops."""
    runs = 40  # at 0.1, a rule that takes draws as they finish is wrong in 37
    rule = plugged.StopWhen("p<=0.05", most=128, confidence=0.9)
    drive(rule, {f"q{i}": p for i in range(runs)}, 128, seed=5)
    drawn = rule.stopping.counted
    assert {len(drawn[id]) for id in rule.stopping.decided} < set(range(8, 128))
    hits = np.array([int(sum(own)) for own in drawn.values()])
    n = np.array([rule.stopping.n(id) for id in drawn])
    made = stats.bound(stats.Stopped(stats.Rows.of_hits(hits, n), 128), confidence=0.9, side="both")
    missed = ((made.upper < p) | (made.lower > p)).sum()
    assert binom.sf(missed - 1, runs, 0.1) > 1e-4
    wrong = sum((hits[i] / n[i] <= 0.05) != (p <= 0.05) for i in range(runs) if n[i] < 128)
    assert binom.sf(wrong - 1, runs, 0.1) > 1e-4


def test_epochs_after_the_decision_are_dropped(plugged: Any) -> None:
    rule = plugged.StopWhen("p<=0.3", most=64, confidence=0.9)

    async def run() -> dict[str, Any]:
        await rule.start_task(SimpleNamespace(), [SimpleNamespace(id="a")], 64)
        for epoch in range(2, 41):  # the first one is late
            await rule.complete_sample("a", epoch, {"s": SampleScore(Score("I"), "a")})
            assert not rule.stopping.decided
        await rule.complete_sample("a", 1, {"s": SampleScore(Score("I"), "a")})
        last = rule.stopping.decided["a"]
        assert await rule.schedule_sample("a", last) is None
        assert (await rule.schedule_sample("a", last + 1)).reason == f"decided after {last} epochs"
        return await rule.complete_task()

    shown = asyncio.run(run())
    assert shown["decided"] == {"a": len(rule.stopping.counted["a"])}
    metric = plugged.worst_sample(rule, confidence=0.9)
    got = metric(scores({"a": ["I"] * 40}))
    want = stats.bound(
        stats.Stopped(stats.Rows.of_hits(0, shown["decided"]["a"]), 64), confidence=0.9
    )
    assert got["worst upper"] == want.upper
    assert "missing" not in got


def test_an_epoch_that_failed_keeps_its_sample_until_the_end(plugged: Any) -> None:
    rule = plugged.StopWhen("p<=0.3", most=40, confidence=0.9)

    async def run() -> None:
        await rule.start_task(SimpleNamespace(), [SimpleNamespace(id="a")], 40)
        for epoch in set(range(1, 41)) - {3}:
            await rule.complete_sample("a", epoch, {"s": SampleScore(Score(math.nan), "a")})

    asyncio.run(run())
    assert not rule.stopping.decided
    got = plugged.leak_probability(rule)(scores({"a": ["I"]}))
    assert got["missing"] == 1.0


def test_of_several_scorers_one_must_be_named(plugged: Any) -> None:
    rule = plugged.StopWhen("mean<=0.3", most=40)
    with pytest.raises(InputError, match="at most 40 epochs, but the task has 8"):
        asyncio.run(rule.start_task(SimpleNamespace(), [], 8))
    two = dict.fromkeys(("s", "t"), SampleScore(Score(1), "a"))
    with pytest.raises(InputError, match=r"StopWhen\(\.\.\., scorer=NAME\)"):
        asyncio.run(rule.complete_sample("a", 1, two))


def test_a_scorer_of_leakbound(plugged: Any) -> None:
    score = plugged.scored_by("contains")
    for choices, value in ([message("It is Paris.")], 1.0), ([message("")], None), ([], None):
        given = asyncio.run(score(state_of(choices), SimpleNamespace(text="Paris"))).value
        assert given == value or (value is None and math.isnan(given))
    with pytest.raises(InputError, match="of sample 'a' cannot be read: TypeError: 3 in place of"):
        asyncio.run(score(state_of([message(3)]), SimpleNamespace(text="Paris")))


def message(content: Any, stop_reason: str = "stop", **more: Any) -> dict[str, Any]:
    """A choice of a `ModelOutput`, as inspect_ai's model_dump returns it."""
    return {
        "message": {"content": content, "role": "assistant", **more},
        "stop_reason": stop_reason,
    }


def state_of(choices: list[dict[str, Any]], **output: Any) -> Any:
    """The parts of a `TaskState` that a scorer reads."""
    dump = {"choices": choices, "usage": None, "error": None, **output}
    return SimpleNamespace(sample_id="a", output=SimpleNamespace(model_dump=lambda: dump))


Score = namedtuple("Score", "value answer", defaults=[None])
SampleScore = namedtuple("SampleScore", "score sample_id scorer", defaults=["inspect_ai/includes"])
EarlyStop = namedtuple("EarlyStop", "id epoch reason")


def _marks(*_: Any, **__: Any) -> Any:
    return lambda function: function


@contextmanager
def plug_in() -> Iterator[Any]:
    """Import the plug-in over the few names of inspect_ai that it needs."""
    content = {
        "inspect_ai": {},
        "inspect_ai.dataset": {"Sample": SimpleNamespace},
        "inspect_ai.log": {"EvalSpec": SimpleNamespace},
        "inspect_ai.scorer": {
            "Metric": object, "Scorer": object, "Target": object, "Score": Score,
            "SampleScore": SampleScore, "metric": _marks, "scorer": _marks,
        },
        "inspect_ai.solver": {"TaskState": SimpleNamespace},
        "inspect_ai.util": {"EarlyStop": EarlyStop},
    }  # fmt: skip
    with plugged_into(content, "leakbound.plugins.inspect_ai") as module:
        yield module


def scores(drawn: dict[str, list[Any]]) -> list[SampleScore]:
    return [SampleScore(Score(value), id) for id, own in drawn.items() for value in own]
