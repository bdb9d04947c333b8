from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_data_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come from where a test says."""
    monkeypatch.delenv("LEAKBOUND_DATA", raising=False)
