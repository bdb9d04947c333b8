"""The runs that most tests of figures read."""

from __future__ import annotations

import pytest
from tides import Made, make_all


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_all(tmp_path_factory.mktemp("figures"))
