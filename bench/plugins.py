"""Intervals of other tools beside those of our plug-ins there: how often each misses the truth.

    python bench/plugins.py --tool inspect_ai|lm_eval|stop_when [--runs N] [--json FILE]

Run it where the tool is installed: with `.engines/inspect_ai/bin/python`, after `sh
tests/engines.sh inspect_ai`. One sample is drawn 1,024 times, a draw leaks with
probability p, and both metric functions are called on the very same scores at 99 %, under a seed of
the order of bets that each run has of its own, as each process of a user has. A cell is "misses of
the runs, and how many of them say [0, 0] or [1, 1]". What is due is 1 %.

`stop_when` runs inspect_ai itself: RUNS samples that `StopWhen` stops, 20 a task and sixteen epochs
of each at a time, whose answers take 20 times as long where they leak. Beside its rule stands the
same one reading epochs as they finish. Bounds and verdicts hold at 90 %.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from runner import keep, markdown, options

N, CONFIDENCE = 1024, 0.99
LIMIT, MOST = 0.2, 48
LAWS = (0.0, 0.0005, 0.003, 0.01, 0.3, 1.0)
Interval = Callable[[np.ndarray, int], tuple[float, float]]  # of the draws, under a seed


def of_inspect_ai() -> dict[str, Interval]:
    """By the metrics, as inspect_ai calls them with the scores of all epochs."""
    from inspect_ai.scorer import SampleScore, Score, ci

    from leakbound.plugins.inspect_ai import leak_probability, mean_leakage

    one = {x: SampleScore(score=Score(value=x), sample_id="q") for x in (0.0, 1.0)}

    def called(metric: Callable[[int], Any], lower: str, upper: str) -> Interval:
        def interval(drawn: np.ndarray, seed: int) -> tuple[float, float]:
            found = metric(seed)([one[x] for x in drawn.tolist()])
            return found[lower], found[upper]

        return interval

    leaks, mean = partial(leak_probability, N), partial(mean_leakage, N)
    return {
        "ci(.99)": called(lambda _: ci(CONFIDENCE), "lower", "upper"),
        "leak_probability": called(lambda s: leaks(seed=s), "leak lower", "leak upper"),
        "mean_leakage": called(lambda s: mean(seed=s), "mean lower", "mean upper"),
    }


def of_lm_eval() -> dict[str, Interval]:
    """By the aggregations, theirs with its standard error at the quantile of 99 %."""
    from lm_eval.api.metrics import mean, mean_stderr

    from leakbound.plugins import lm_eval

    def theirs(drawn: np.ndarray, _: int) -> tuple[float, float]:
        scores = drawn.tolist()
        half = norm.ppf((1 + CONFIDENCE) / 2) * mean_stderr(scores)
        return mean(scores) - half, mean(scores) + half

    def ours(binary: bool) -> Interval:
        def interval(drawn: np.ndarray, seed: int) -> tuple[float, float]:
            item = {
                "scores": drawn.tolist(), "scorer": "s", "binary": binary, "confidence": CONFIDENCE,
                "seed": seed,
            }  # fmt: skip
            return lm_eval.lower([item]), lm_eval.upper([item])

        return interval

    return {"mean ± 2.58 stderr": theirs, "binary": ours(True), "graded": ours(False)}


def late(p: float, seed: int) -> Any:
    """A solver that leaks with probability p, and takes its time over it."""
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    @solver(name="late")
    def made() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            chance = np.random.default_rng([seed, int(state.sample_id), state.epoch])
            leaks = chance.random() < p
            await asyncio.sleep(chance.exponential(2.0 if leaks else 0.1))
            state.output = ModelOutput.from_content("known", "leak" if leaks else "clean")
            return state

        return solve

    return made()


def stopped(p: float, seed: int) -> tuple[Any, Any, Any]:
    """What was drawn of 20 samples, by `StopWhen`, as they finished; and the bounds of each."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import includes

    from leakbound import stats
    from leakbound.plugins.draws import Stopping
    from leakbound.plugins.inspect_ai import StopWhen

    samples = [Sample(id=i, input="q", target="leak") for i in range(20)]

    came: Counter[str] = Counter()

    class Watched(StopWhen):
        async def complete_sample(self, id: Any, epoch: int, scores: Any) -> None:
            came[str(id)] += 1
            (one,) = scores.values()
            first.take(str(id), came[str(id)], float(one.score.value == "C"))
            await super().complete_sample(id, epoch, scores)

    rule = Watched(f"p<={LIMIT}", MOST, confidence=0.9)
    first = Stopping(rule.looks, [str(sample.id) for sample in samples])
    task = Task(
        dataset=MemoryDataset(samples), solver=late(p, seed), scorer=includes(), epochs=MOST,
        early_stopping=rule, metrics=[],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(
            task, model="mockllm/model", max_samples=320, log_dir=folder, display="none",
            log_realtime=False,
        )  # fmt: skip
    assert log.status == "success"
    counted = rule.stopping.counted
    bounds = stats.stopped_proportion_bound(
        [int(sum(own)) for own in counted.values()], [rule.stopping.n(id) for id in counted], MOST,
        confidence=0.9, side="both",
    )  # fmt: skip
    return rule.stopping, first, bounds


def stop_when(samples: int) -> list[dict[str, Any]]:
    """How often `StopWhen` and the order in which epochs finish lead to what is wrong."""
    rows = []
    for p in (0.02, 0.3, 0.5):
        found = dict.fromkeys(("stopped", "epochs", "missed", "wrong", "wrong as they finish"), 0)
        for seed in range(samples // 20):
            ours, first, bounds = stopped(p, seed)
            found["stopped"] += len(ours.decided)
            found["epochs"] += sum(map(ours.n, ours.counted))
            found["missed"] += int(((bounds.lower > p) | (bounds.upper < p)).sum())
            for name, rule in (("wrong", ours), ("wrong as they finish", first)):
                said = {id: np.mean(rule.counted[id]) <= LIMIT for id in rule.decided}
                found[name] += sum(bool(holds != (p <= LIMIT)) for holds in said.values())
        rows.append({"p": p, **found})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    asked = options(__doc__, runs=2_000, tool=str)
    if asked.tool == "stop_when":
        rows = stop_when(asked.runs)
        print(markdown(rows))
        keep(asked.json, rows)
        return
    intervals = {"inspect_ai": of_inspect_ai, "lm_eval": of_lm_eval}[asked.tool]()
    rows: list[dict[str, Any]] = []
    for p in LAWS:
        chance = np.random.default_rng(round(p * 1e6))
        missed, point = dict.fromkeys(intervals, 0), dict.fromkeys(intervals, 0)
        alike: dict[tuple[str, float], tuple[float, float]] = {}  # these have no order
        for _ in range(asked.runs):
            drawn, seed = (chance.random(N) < p).astype(float), int(chance.integers(2**24))
            for name, interval in intervals.items():
                same = (name, drawn[0]) if drawn.min() == drawn.max() else None
                low, high = alike[same] if same in alike else interval(drawn, seed)
                if same is not None:
                    alike[same] = low, high
                missed[name] += not low <= p <= high
                point[name] += low == high
        rows.append({"p": p} | {n: f"{missed[n]:,} ({point[n]:,})" for n in intervals})
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(rows))
    keep(asked.json, rows)


if __name__ == "__main__":
    main()
