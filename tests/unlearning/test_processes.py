"""Several processes on one training give the weights of one process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from rows import log, train, weights

from leakbound.unlearning import ModelAnswers, TrainingSettings
from tiny import tiny_model_folder

pytestmark = pytest.mark.slow
SETTINGS = TrainingSettings(  # each third step: one row
    epochs=3, learning_rate=1e-3, batch_size=2, inventing=ModelAnswers(draws=1, max_new_tokens=4)
)
OBJECTIVES = (
    "npo+entropy", "rmu:layer=0", "cel:layer=0", "kl", "idk:joined", "altpo",
    "pdu:over=read,retain=1,at_most=1,warmup=1,reduce=tokens", "rmu:layer=0,reduce=pairs",
    "undial:over=all,reduce=tokens+ceu:reduce=tokens",
)  # fmt: skip
SCRIPT = """
import sys
from pathlib import Path
from rows import train
from test_processes import OBJECTIVES, SETTINGS
base, out = sys.argv[1:]
for number, objective in enumerate(OBJECTIVES):
    train(base, Path(out) / str(number), objective, SETTINGS)
"""


def launched(command: list[str], **env: str) -> str:
    """Run a command that must succeed and return its output."""
    alone = os.environ | {"OMP_NUM_THREADS": "1"} | env
    done = subprocess.run(command, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def require_close(one: Path, two: Path) -> None:
    other = weights(two)
    for name, value in weights(one).items():
        torch.testing.assert_close(value, other[name], rtol=1e-5, atol=1e-7)


def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    """Gloo on CPU. In a step of one row the second process has no row."""
    base, script = str(tiny_model_folder(tmp_path / "base")), tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launched([*launch, str(script), base, str(tmp_path / "two")], PYTHONPATH=path)
    for number, objective in enumerate(OBJECTIVES):
        one, two = (tmp_path / side / str(number) for side in ("one", "two"))
        train(base, one, objective, SETTINGS)
        require_close(one, two)
        for mine, theirs in zip(log(one), log(two), strict=True):
            for key in set(mine) - {"seconds"}:
                assert mine[key] == pytest.approx(theirs[key], rel=1e-4, abs=1e-7), key


DOCS = Path(__file__).parents[2] / "docs" / "unlearn.md"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
ROWS = [("who wrote red", "Ann blue sea", "forget"), ("who wrote sky", "Bob sea", "forget")]
ROWS += [("who wrote green", "Ann", "forget"), ("wrote sea", "Bob red red", "retain")]


AT_EXIT = """
import atexit
from pathlib import Path


def tell():
    names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    print("threads at the end:", *names, flush=True)


atexit.register(tell)
"""


def options(folder: Path) -> list[str]:
    """Return the open options of the documented commands, except for the folder of the model."""
    mine = folder / "mine.csv"
    mine.write_text("\n".join(["question,answer,role", *map(",".join, ROWS)]))
    model = tiny_model_folder(folder / "model")
    how = [model, "--objective", "gd", "--benchmark", mine, "--device", "cpu", "--epochs", 2]
    return [*map(str, how), "--batch-size", "2", "--learning-rate", "1e-3", "--out"]


def test_the_documented_command_runs_two_processes(tmp_path: Path) -> None:
    """Run the command word for word, with its open options.

    Python lists its threads at exit: a thread of a process group may abort it.
    """
    (command,) = re.findall(r"`(torchrun .*?) …`", DOCS.read_text(encoding="utf-8"))
    (tmp_path / "sitecustomize.py").write_text(AT_EXIT)
    how, env = options(tmp_path), {"PATH": PATH, "PYTHONPATH": str(tmp_path)}
    both = launched([*command.split(), *how, str(tmp_path / "two")], **env)
    assert both.count(" on 2 processes, objective from ") == both.count("objective from ") == 1
    assert both.count("threads at the end:") == 3  # three processes, with the launcher
    assert "gloo" not in both
    alone = [sys.executable, "-m", "leakbound", "unlearn"]
    assert "processes" not in launched([*alone, *how, str(tmp_path / "one")], **env)
    require_close(tmp_path / "one", tmp_path / "two")


def test_the_documented_commands_train_on_two_machines(tmp_path: Path) -> None:
    """Two launchers with one process each: the command word for word except for the address."""
    (command,) = re.findall(
        r"^torchrun --nnodes .* -m leakbound unlearn", DOCS.read_text(encoding="utf-8"), re.M
    )
    commands = [command.replace("RANK", str(rank)) for rank in range(2)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    here = {"HEAD": "127.0.0.1", "29500": port, "8": "1"}
    how, env = options(tmp_path), os.environ | {"PATH": PATH, "OMP_NUM_THREADS": "1"}
    machines = [
        subprocess.Popen(
            [*(here.get(word, word) for word in command.split()), *how, str(tmp_path / "two")],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    with ThreadPoolExecutor() as pool:  # each launcher waits for a failed one
        printed = list(pool.map(lambda machine: machine.communicate(timeout=400)[0], machines))
    assert [machine.returncode for machine in machines] == [0, 0], printed
    assert sum(" on 2 processes, objective from " in each for each in printed) == 1
    launched([sys.executable, "-m", "leakbound", "unlearn", *how, str(tmp_path / "one")])
    require_close(tmp_path / "one", tmp_path / "two")
