"""A folder of runs as one finds it after weeks, and the page over it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from shelves import engine

from leakbound.evaluation import evaluate
from leakbound.viewing import pages, serving
from leaky import benchmark
from shared import keep


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for what they show, however slow the machine is."""
    monkeypatch.setattr(pages, "WAIT", 60.0)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two complete runs, one of them below another folder; no test may change them."""
    folder = tmp_path_factory.mktemp("kept") / "shelf"
    for name, leaks in (("full", 0.6), ("npo/run", 0.01)):
        evaluate(engine(leaks, name), benchmark(), out=folder / name, n=2048)
    return keep(folder)


@pytest.fixture
def shelf(kept: Path, tmp_path: Path) -> Path:
    """The same, for a test to change."""
    return Path(shutil.copytree(kept, tmp_path / "shelf"))


@pytest.fixture(scope="session")
def page(kept: Path) -> Iterator[str]:
    """The address of the page over the complete runs."""
    with serving(kept) as address:
        yield address
