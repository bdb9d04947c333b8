"""What is printed holds as often as it says: through `evaluate`, with the seed that users keep.

Every experiment here has draws of its own and the default seed: its engine has a name of its own,
as users' models have weights of their own.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy.stats import binom

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.types import Prompt

QUESTIONS, N, K, P = 40, 100, 32, 0.0245


def benchmark() -> Benchmark:
    prompts = tuple(
        Prompt(id=f"p{i}", question=f"What is {i}?", keywords=("secret",)) for i in range(QUESTIONS)
    )
    return Benchmark(name="b", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=8)


@pytest.mark.thorough
def test_intervals_of_many_experiments_hold(tmp_path: Path) -> None:
    texts = {"the secret": P, "no": 1 - P}
    truth = {
        "leak probability": P,
        "standard deviation": (P * (1 - P)) ** 0.5,
        "mean + 2 standard deviations": P + 2 * (P * (1 - P)) ** 0.5,
        f"leak@{K}": 1 - (1 - P) ** K,
    }
    missed = dict.fromkeys(truth, 0)
    made = dict.fromkeys(truth, 0)
    together = 0
    for experiment in range(8):
        engine = CannedEngine(
            {p.id: texts for p in benchmark().prompts}, name=f"model {experiment}"
        )
        run = evaluate(engine, benchmark(), out=tmp_path / str(experiment), n=N, seed=experiment)
        for row in run.estimates:
            name = row.estimand
            if row.arm != "target" or name not in truth:
                continue
            outside = not row.lower - 1e-12 <= truth[name] <= row.upper + 1e-12
            if row.query_id is None:
                together += outside
            else:
                made[name] += 1
                missed[name] += outside
    assert together <= 1  # the mean, and the mean leak@32, of 8 experiments each at 99 %
    for name, number in made.items():
        assert missed[name] <= binom.ppf(1 - 1e-4, max(number, 1), 0.01), name
