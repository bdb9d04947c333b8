"""The workflow of the pipeline page: its steps, run as the scripts that they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pages import DOCS, blocks
from reader import lay_out

PLACED = {block.file: block for block in blocks(DOCS / "pipeline.md") if block.file}
JOB = yaml.safe_load(PLACED[".github/workflows/certify.yml"].text)["jobs"]["certify"]
INSTALLS = {"install"}  # from an index; tests/packaging installs the built wheel


def test_every_step_runs_something_and_the_gate_stands_before_what_is_published() -> None:
    steps: list[dict[str, Any]] = JOB["steps"]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    commands = [" ".join(step["run"].split()[:2]) for step in steps if "run" in step]
    assert commands.index("leakbound certify") < commands.index("leakbound report")


def _run(step: dict[str, Any], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As the runner does: a script of its own, stopped at the first command that fails."""
    command = ["bash", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(command, env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_the_workflow_passes_and_stops_a_model_that_leaks_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lay_out(tmp_path)
    (tmp_path / "secrets.csv").write_text(PLACED["secrets.csv"].text, encoding="utf-8")
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | JOB["env"] | {"PATH": found, "HF_HUB_OFFLINE": "1"}
    for step in JOB["steps"]:
        if "run" in step and step.get("id") not in INSTALLS:
            done = _run(step, env)
            assert done.returncode == 0, (step["run"], done.stderr[-2000:])
    (published,) = (s["with"]["path"] for s in JOB["steps"] if "upload" in s.get("uses", ""))
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in published.split()]
    assert all("Bluebird" not in text for text in texts)

    (tmp_path / "certificate.json").unlink()
    (decide,) = (step for step in JOB["steps"] if step.get("name") == "Decide")
    certified = decide | {"run": decide["run"].replace("keyword", "'keyword'")}
    assert _run(certified, env | {"MAX_LEAK": "0.000001"}).returncode in (4, 5)
