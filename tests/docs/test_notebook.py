"""The notebook holds no output in the repository, and runs from its first cell to its last."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pages import DOCS

NOTEBOOK = DOCS / "story.ipynb"


def test_outputs_are_stripped() -> None:
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert cells
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in cells)


@pytest.mark.slow
def test_it_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    out = tmp_path / "story.ipynb"
    command = [sys.executable, str(DOCS / "execute.py"), str(NOTEBOOK), str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads(out.read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    printed = "".join("".join(s["text"]) for s in shown if s.get("name") == "stdout")
    assert "full  greedy leaks 24 of 24" in printed
    assert "verified: True" in printed
    assert any("image/svg+xml" in output.get("data", {}) for output in shown)
