"""Shared fixtures of the engine tests."""

from __future__ import annotations

import pytest

from leakbound.engines import hf


@pytest.fixture(autouse=True)
def _margins_are_measured_where_they_are_tested(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skip the measurement, which takes a quarter of a second for each engine."""
    if request.path.stem not in ("test_hf_explore", "test_margin", "test_gpu"):
        monkeypatch.setattr(hf, "shape_margin", lambda *_: 1e-5)
