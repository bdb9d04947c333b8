"""One run that no test may change, and copies of it that they may."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leakbound.store import Run, load
from leaky import leaky_run
from shared import keep


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scorers = ["keyword", "rouge-l-recall"]
    return keep(leaky_run(tmp_path_factory.mktemp("leaky") / "run", scorers=scorers).path)


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Run:
    return load(shutil.copytree(pristine, tmp_path / "run"))
