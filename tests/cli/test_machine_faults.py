"""Foreseeable faults of the machine, such as a full disk: status 3, nothing lost."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import torch
from commands import done, leakbound, python, refused
from safetensors import SafetensorError

from leakbound import cli
from leakbound.engines.loading import load_model

WHOLE = "only part of a file was written ("
FAULTS: dict[str, tuple[BaseException, str]] = {
    "full": (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "m"), "no space is left"),
    "quota": (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "quota"),
    "read-only": (OSError(errno.EROFS, os.strerror(errno.EROFS), "m"), "read-only"),
    "rights": (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "m"), "refuses access"),
    "disk": (OSError(errno.EIO, os.strerror(errno.EIO), "m"), "a disk or its connection fails"),
    "files": (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "ulimit -n"),
    "stale": (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "network file system"),
    "safetensors": (SafetensorError("I/O error: Input/output error (os error 5)"), "a disk or"),
    "quoted": (RuntimeError("[enforce fail]: write failed: Read-only file system"), "read-only"),
    "arrow": (pa.ArrowMemoryError("malloc of size 9 failed"), "memory ran out"),
    "memory": (MemoryError(), "memory ran out"),
    "gpu": (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"), "memory ran"),
    "archive": (RuntimeError("[enforce fail at inline_container.cc] . unexpected pos 64"), WHOLE),
    "torch": (RuntimeError("PytorchStreamWriter failed writing file data/1: failed"), WHOLE),
    "cpu": (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "memory ran"),
}


def chained(cause: BaseException) -> Exception:
    try:
        raise ValueError("cannot write the header") from cause
    except ValueError as error:
        return error


def while_handled(cause: BaseException) -> Exception:
    """As torch closes its archive over a failed write."""
    try:
        try:
            raise cause
        finally:
            raise RuntimeError("PytorchStreamWriter failed writing file: unexpected pos 64 vs 0")
    except RuntimeError as error:
        return error


def raises(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_machine_is_a_message(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, says = FAULTS[name]
    for met in (error, chained(error), while_handled(error)):
        assert cli.run(raises(met)) == 3
        shown = capsys.readouterr().err
        assert says in shown
        assert "run the same command again: finished parts are kept" in shown


ALONE = chained(FAULTS["full"][0])
ALONE.__cause__, ALONE.__suppress_context__ = None, True
OURS = [KeyError("m"), RuntimeError("shape"), OSError(None, "odd"), ALONE]


@pytest.mark.parametrize("error", OURS)
def test_an_error_of_our_own_stays_one(error: Exception) -> None:
    with pytest.raises(type(error)):
        cli.run(raises(error))


def test_a_training_meets_a_fault_as_it_saves(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, words = FAULTS["safetensors"]
    out = tmp_path / "m"
    how = ("--benchmark", questions, "--epochs", 2, "--batch-size", 2, "--device", "cpu")
    command = ("finetune", model, *how, "--out", out)
    kind = type(load_model(str(model)).model)
    with monkeypatch.context() as failing:
        failing.setattr(kind, "save_pretrained", lambda *_, **__: raises(error)())
        refused(leakbound(*command), words, "run the same command again", status=3)
    assert not out.exists()
    done(*command)
    assert (out / "model.safetensors").exists()


SIGNALLED = """
import os, signal
from leakbound import cli

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
    cli.group = lambda **_: (os.kill(os.getpid(), number), print("it continued"))
    try:
        cli.main()
    except SystemExit as ended:
        print(number.name, ended.code, signal.getsignal(number) is signal.SIG_DFL)
"""


def test_a_signal_to_end_is_a_message() -> None:
    """In another process, which an unhandled signal would end."""
    ended = python("-c", SIGNALLED)
    assert ended.stdout.splitlines() == ["SIGTERM 3 True", "SIGHUP 3 True"]
    assert ended.stderr.count("stopped. Run the same command again") == 2


def test_a_hangup_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under nohup."""
    monkeypatch.setattr(cli, "group", lambda **_: os.kill(os.getpid(), signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.value.code == 0
