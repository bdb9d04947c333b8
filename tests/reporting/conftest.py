"""The runs and the pages that most tests of this folder read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from opened import Page, rendered
from shelves import fill

from leakbound.presenting.view import View, read_view
from leakbound.store import Run
from report_runs import decodings, explored, hostile, proofs, proved, rewritten, runs
from shared import keep

__all__ = ["decodings", "explored", "hostile", "proofs", "proved", "rewritten", "runs"]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave drawings out of pages, at a tenth of a second each; their rows stay."""
    monkeypatch.setattr("leakbound.plotting.inline.inline", lambda *args: "")


@pytest.fixture(scope="session")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


@pytest.fixture(scope="session")
def html(view: View) -> str:
    return rendered(view)


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two complete runs, one of them in a subfolder; no test may change them."""
    return keep(fill(tmp_path_factory.mktemp("kept") / "shelf", full=0.6, npo__run=0.01))


@pytest.fixture
def shelf(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "shelf"))
