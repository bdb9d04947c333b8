"""One run that no test may change, and copies of it that tests may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leakbound.store import Run, load
from leaky import leaky_run
from shared import keep

CLAIMS = ("0.2", "0.05", "10%", "every:0.5", "every:0.15", "every:0.3", "every:0.1")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    how = {"scorers": ["keyword", "rouge-l-recall"], "claims": CLAIMS}
    return keep(leaky_run(tmp_path_factory.mktemp("leaky") / "run", **how).path)


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Run:
    return load(shutil.copytree(pristine, tmp_path / "run"))
