"""The runs that most tests of figures read."""

from __future__ import annotations

import pytest
from tides import Made, make_all

from shared import keep


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("figures")
    made = make_all(folder)
    keep(folder)
    return made
