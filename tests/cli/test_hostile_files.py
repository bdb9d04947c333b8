"""Hostile models and logs at the command line: named in a message, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile import logs, models

QUICK = ("10^9 layers", "an end token that is text", "generation settings cut short")


@pytest.mark.parametrize("name", logs.LOGS)
def test_a_hostile_log_is_refused_by_name_and_makes_no_run(name: str, tmp_path: Path) -> None:
    kind, why = logs.outcome(name, tmp_path)
    assert kind == ("same" if name in logs.TAKEN else "refused"), why


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in models.MODELS]
)
def test_a_hostile_model_is_refused_by_name_and_runs_no_code(name: str, tmp_path: Path) -> None:
    kind, why = models.outcome(name, tmp_path)
    assert kind == ("same" if name in models.TAKEN else "refused"), why
