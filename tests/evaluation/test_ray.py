"""Workers of a real Ray cluster: nothing is lost or changed if nodes join or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contents import contents
from leakbound.engines.ray_workers import RayWorkers
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Headway
from tiny import sequence_classifier, tiny_model_folder

pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.slow, pytest.mark.fault]

N, LENGTH = 3000, 8
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
RAY = ("--ray", "local,most=2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ray")
    tiny_model_folder(folder / "model")
    sequence_classifier(folder / "harm")
    words = ["who", "wrote", "red", "blue", "green", "sky"]
    rows = [f"{word} {other},Ann" for word, other in zip(words, words[::-1], strict=True)]
    (folder / "mine.csv").write_text("question,answer\n" + "\n".join(rows) + "\n")
    return folder


@pytest.fixture(scope="module")
def command(place: Path) -> list[str]:
    how = ["--benchmark", "mine.csv", "-n", N, "--max-new-tokens", LENGTH, "--device", "cpu"]
    how += ["--scorer", "contains"]
    return [sys.executable, "-m", "leakbound", "evaluate", "model", *map(str, how), "--out"]


@pytest.fixture(scope="module")
def whole(place: Path, command: list[str]) -> Run:
    return finished([*command, "whole"], place)


def finished(command: list[str], place: Path) -> Run:
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    return Run.open(place / command[command.index("--out") + 1])


def stored(out: Path) -> dict[Path, int]:
    files = sorted(out.glob("arms/*/completions/part-*.parquet"))
    return {file: file.stat().st_mtime_ns for file in files}


def begun(command: list[str], place: Path) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=place, env=ONE_THREAD)


def wait_for(ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    while not ready():
        assert process.poll() is None, "it ended too early"
        time.sleep(0.005)


def workers_of(process: subprocess.Popen[bytes]) -> list[Any]:
    """Return the worker processes that the cluster of this test started."""
    mine = psutil.Process(process.pid).children(recursive=True)
    return [each for each in mine if "ray::Worker" in each.name() + "".join(each.cmdline()[:1])]


def test_two_workers_equal_one_process(place: Path, command: list[str], whole: Run) -> None:
    run = finished([*command, "two", *RAY], place)
    assert contents(run) == contents(whole)
    assert sum(len(arm.parts) for arm in run.arms.values()) >= 6
    for arm in run.arms.values():
        assert arm.spec.machine["device"] == "cpu"
        assert arm.spec.machine["threads"] == 1
    few = [*command, "few", "-n", "16", "--scorer", "classifier:harm"]
    one = contents(finished(few, place))
    few[few.index("few")] = "shared"
    assert contents(finished([*few, *RAY], place)) == one


def test_a_killed_worker_loses_only_its_part(place: Path, command: list[str], whole: Run) -> None:
    with begun([*command, "killed", *RAY], place) as process:
        wait_for(lambda: len(stored(place / "killed")) >= 3, process)
        before = stored(place / "killed")
        victims = workers_of(process)
        assert len(victims) == 2
        victims[0].send_signal(signal.SIGKILL)
    assert process.returncode == 0
    assert contents(Run.open(place / "killed")) == contents(whole)
    assert before.items() <= stored(place / "killed").items()


@pytest.mark.parametrize("goes_on", [(), RAY], ids=["alone", "with workers"])
def test_a_killed_driver_resumes(
    place: Path, command: list[str], whole: Run, goes_on: tuple[str, ...]
) -> None:
    out = f"resumed{len(goes_on)}"
    with begun([*command, out, *RAY], place) as process:
        wait_for(lambda: len(stored(place / out)) >= 3, process)
        workers = workers_of(process)
        process.kill()
    before = stored(place / out)
    assert len(before) < sum(len(arm.parts) for arm in whole.arms.values())
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive, "a worker outlives its driver"
    run = finished([*command, out, *goes_on], place)
    assert contents(run) == contents(whole)
    assert before.items() <= stored(place / out).items()


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster on this machine without room for a worker; tests add nodes."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20}
    started = Cluster(initialize_head=True, head_node_args=head)
    yield started
    started.shutdown()


def test_work_moves_to_a_machine_that_joins(
    place: Path, whole: Run, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    nodes = [cluster.add_node(**node)]

    def progress(now: Headway) -> None:
        if now.phase == "sampling target" and now.done > 1000 and len(nodes) == 1:
            nodes.append(cluster.add_node(**node))
            cluster.remove_node(nodes[0])

    monkeypatch.chdir(place)
    run = evaluate(
        "model",
        "csv:mine.csv",
        n=N,
        decodings=Decoding(max_new_tokens=LENGTH),
        scorers="contains",
        settings=ModelSettings(device="cpu"),
        out="moved",
        progress=progress,
        workers=RayWorkers(cluster.address),
    )
    assert len(nodes) == 2
    assert contents(run) == contents(whole)
