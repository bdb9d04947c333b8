"""Intervals of other tools beside those of our plug-ins there: how often each misses the truth.

    python bench/plugins.py --tool inspect_ai|lm_eval [--runs N] [--json FILE]

Run it where the tool is installed: with `.engines/inspect_ai/bin/python`, after `sh
tests/engines.sh inspect_ai`. One sample is drawn 1,024 times, a draw leaks with
probability p, and both metric functions are called on the very same scores at 99 %. A cell is
"misses of the runs, and how many of them say [0, 0] or [1, 1]". What is due is 1 %.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

from runner import keep, markdown, options

N, CONFIDENCE = 1024, 0.99
LAWS = (0.0, 0.0005, 0.003, 0.01, 0.3, 1.0)
Interval = Callable[[np.ndarray], tuple[float, float]]


def of_inspect_ai() -> dict[str, Interval]:
    """By the metrics, as inspect_ai calls them with the scores of all epochs."""
    from inspect_ai.scorer import SampleScore, Score, ci

    from leakbound.plugins.inspect_ai import leak_probability, mean_leakage

    one = {x: SampleScore(score=Score(value=x), sample_id="q") for x in (0.0, 1.0)}

    def called(metric: Any, lower: str, upper: str) -> Interval:
        def interval(drawn: np.ndarray) -> tuple[float, float]:
            found = metric([one[x] for x in drawn.tolist()])
            return found[lower], found[upper]

        return interval

    return {
        "ci(.99)": called(ci(CONFIDENCE), "lower", "upper"),
        "leak_probability": called(leak_probability(N), "leak lower", "leak upper"),
        "mean_leakage": called(mean_leakage(N), "mean lower", "mean upper"),
    }


def of_lm_eval() -> dict[str, Interval]:
    """By the aggregations, theirs with its standard error at the quantile of 99 %."""
    from lm_eval.api.metrics import mean, mean_stderr

    from leakbound.plugins import lm_eval

    def theirs(drawn: np.ndarray) -> tuple[float, float]:
        scores = drawn.tolist()
        half = norm.ppf((1 + CONFIDENCE) / 2) * mean_stderr(scores)
        return mean(scores) - half, mean(scores) + half

    def ours(binary: bool) -> Interval:
        def interval(drawn: np.ndarray) -> tuple[float, float]:
            item = {
                "scores": drawn.tolist(), "scorer": "s", "binary": binary, "confidence": CONFIDENCE,
            }  # fmt: skip
            return lm_eval.lower([item]), lm_eval.upper([item])

        return interval

    return {"mean ± 2.58 stderr": theirs, "binary": ours(True), "graded": ours(False)}


def main() -> None:
    asked = options(__doc__, runs=2_000, tool=str)
    intervals = {"inspect_ai": of_inspect_ai, "lm_eval": of_lm_eval}[asked.tool]()
    rows: list[dict[str, Any]] = []
    for p in LAWS:
        chance = np.random.default_rng(round(p * 1e6))
        missed, point = dict.fromkeys(intervals, 0), dict.fromkeys(intervals, 0)
        for _ in range(asked.runs):
            drawn = (chance.random(N) < p).astype(float)
            for name, interval in intervals.items():
                low, high = interval(drawn)
                missed[name] += not low <= p <= high
                point[name] += low == high
        rows.append({"p": p} | {n: f"{missed[n]:,} ({point[n]:,})" for n in intervals})
        print(rows[-1], file=sys.stderr, flush=True)
    print(markdown(rows))
    keep(asked.json, rows)


if __name__ == "__main__":
    main()
