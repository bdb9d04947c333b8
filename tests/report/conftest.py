"""The runs that most tests of the report read."""

from __future__ import annotations

import pytest
from canned_runs import benchmark, make_run

from residua.store import Run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A full and an unlearned model beside one control."""
    folder, task = tmp_path_factory.mktemp("runs"), benchmark()
    control = folder / "control"
    make_run(control, task, "control", 0.02)
    return {
        "full": make_run(folder / "full", task, "full", 0.95, control=control),
        "NPO": make_run(folder / "npo", task, "npo", 0.2, control=control),
    }
