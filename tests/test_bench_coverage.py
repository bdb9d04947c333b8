"""bench/coverage.py goes through every bound that `stats` lists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"


def test_no_listed_bound_is_left_out() -> None:
    code = "import coverage; print(sorted(coverage.not_simulated()))"
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(BENCH)!r}); {code}"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_new_bound_is_missed_until_it_has_a_row() -> None:
    code = (
        "import coverage; coverage.LISTED = {**coverage.LISTED, 'new': "
        "coverage.LISTED['worst question']}; print(sorted(coverage.not_simulated()))"
    )
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(BENCH)!r}); {code}"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "['new']\n"
