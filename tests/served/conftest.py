"""Shared fixtures of the server tests."""

from __future__ import annotations

import pytest

from leakbound.served import trial


@pytest.fixture(autouse=True)
def _trials_are_short_where_they_are_not_tested(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.path.stem != "test_trial":
        monkeypatch.setattr(trial, "_ARRANGEMENTS", 9)
