"""What the tests of engines share."""

from __future__ import annotations

import pytest

from leakbound.engines import hf, trial


@pytest.fixture(autouse=True)
def _margins_and_trials_are_short_where_they_are_not_tested(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To measure a margin takes a quarter of a second; no honest server fails a short trial."""
    if request.path.stem not in ("test_hf_explore", "test_margin", "test_gpu"):
        monkeypatch.setattr(hf, "shape_margin", lambda *_: 1e-5)
    if request.path.stem != "test_trial":
        monkeypatch.setattr(trial, "_ARRANGEMENTS", 9)
