"""The coverage benches judge misses by an exact binomial test, all rows at one rate of alarms."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from scipy.stats import binom

BENCH = Path(__file__).parents[1] / "bench"
ALPHA = 0.01


@pytest.fixture(scope="module")
def verdict() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(BENCH / "runner.py")))


@pytest.mark.parametrize(("trials", "rows"), [(1, 1), (6, 480), (400, 37), (2_000, 480)])
def test_correct_rows_alarm_once_in_a_thousand_runs(
    verdict: SimpleNamespace, trials: int, rows: int
) -> None:
    most = verdict.most_misses(trials, rows, ALPHA)
    each = binom.sf(most, trials, ALPHA)
    assert rows * each <= verdict.FALSE_ALARM
    assert rows * binom.sf(most - 1, trials, ALPHA) > verdict.FALSE_ALARM or most == 0
    counted = [(most, trials)] + (rows - 1) * [(0, trials)]
    assert verdict.too_often(range(rows), counted, ALPHA) == []
    if most < trials:
        counted[0] = (most + 1, trials)
        assert verdict.too_often(range(rows), counted, ALPHA) == [0]


def test_rows_of_different_trials_are_each_judged_by_their_own(verdict: SimpleNamespace) -> None:
    counted = [(3, 3), (3, 300), (0, 0)]
    assert verdict.too_often(["void", "fine", "never made"], counted, ALPHA) == ["void"]
    assert verdict.p_value(3, 3, ALPHA) == pytest.approx(1e-6)


@pytest.mark.slow
def test_every_row_of_the_coverage_bench_runs_with_few_repetitions() -> None:
    done = subprocess.run(
        [sys.executable, BENCH / "coverage.py", "--trials", "2", "--n", "16"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leak@2, that k" in done.stdout
