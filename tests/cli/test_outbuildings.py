"""`leakbound figures` and `leakbound view`: what a shell sees."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import done, leakbound, refused

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.types import Prompt


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two questions."""
    out = tmp_path_factory.mktemp("command") / "run"
    prompts = [Prompt(id=f"q{i}", question=f"Who {i}?", answer=f"Ossian Quill {i}") for i in (0, 1)]
    task = Benchmark(
        name="two", prompts=tuple(prompts), scorers=("rouge-l-recall",), max_new_tokens=8, origin=""
    )
    laws = {p.id: {"nobody": 0.7, "Ossian": 0.2, str(p.answer): 0.1} for p in prompts}
    evaluate(CannedEngine(laws), task, out=out, n=64)
    return out


NO_GRID = "no run has a grid of temperatures and top-p (lists of --temperature and --top-p)"


def test_the_list_says_what_a_run_can_give(run: Path) -> None:
    table = done("figures", run, "--list", "--json").json
    given = {row["figure"]: row["given"] for row in table}
    assert given["tail"] == "yes"
    assert given["grid"] == f"no: {NO_GRID}"
    plain = done("figures", "--list").out
    assert all(name in plain for name in given)


def test_wrong_use_is_refused_in_one_message(run: Path, tmp_path: Path) -> None:
    refused(leakbound("figures", run), "--out")
    refused(leakbound("figures", "--out", tmp_path / "out"), "no run was given")
    wrong = leakbound("figures", run, "--out", tmp_path / "out", "--only", "tial")
    refused(wrong, "Did you mean 'tail'")
    refused(leakbound("view", tmp_path / "rnus"), "is no folder", "Name one that runs lie in")
    refused(leakbound("view", tmp_path, "--port", 99999), "99999")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_quietly(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "leakbound", "view", str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # what a shell starts in the background ignores it, and so do its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            assert urlsplit(address).hostname == "127.0.0.1"
            with urllib.request.urlopen(address) as page:
                assert f"Runs in {tmp_path.name}" in page.read().decode()
            running.send_signal(number)
            out, err = running.communicate()
        finally:
            running.kill()
    assert (running.returncode, out, err) == (0, "", "")
