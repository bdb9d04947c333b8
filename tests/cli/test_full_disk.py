"""A full disk, wherever a run is written: one message, exit status 3, and nothing lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound.cli import group
from leakbound.cli import run as call
from leakbound.store import Run

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")


@pytest.fixture(autouse=True)
def _names_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.store.files.token_hex", lambda _: "0")


def partial_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}-0.partial")


def fill(file: Path) -> Path:
    partial_of(file).symlink_to("/dev/full")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("what", ["completions", "scores", "estimates", "report"])
def test_each_file_of_a_run(what: str, run: Path, finished: Path, model: Path) -> None:
    """Really full: the file's bytes go to /dev/full."""
    places = {
        "completions": next((run / "arms" / "target" / "completions").iterdir()),
        "scores": next((run / "arms" / "target" / "scores").iterdir()),
        "estimates": run / "estimates.parquet",
        "report": run / "report.html",
    }
    for name in list(places)[list(places).index(what) :]:
        places[name].unlink()
    if what == "scores":
        places[what] = fill(next(iter((finished / "arms/target/scores").iterdir())))
        partial_of(places[what]).unlink()
        for file in (run / "arms" / "target" / "scores").iterdir():
            file.unlink()
        places[what] = run / "arms" / "target" / "scores" / places[what].name
    file = fill(places[what])
    command = ("evaluate", model, "--like", run, "--out", run)
    result = leakbound(*command)
    assert result.status == 3, result.err
    assert f"cannot write `{file}`: no space is left on its disk" in result.err
    assert "run the same command again" in result.err
    assert "Traceback" not in result.err
    done(*command)
    assert Run.open(run).estimates == Run.open(finished).estimates


def test_a_run_that_cannot_begin(model: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    file = fill(out / "prompts.parquet")
    how = ("--benchmark", questions, "--out", out, *SMALL)
    refused(leakbound("evaluate", model, *how), f"cannot write `{file}`: no space", status=3)
    done("evaluate", model, *how)


def test_a_library_that_finds_the_disk_full(capsys: pytest.CaptureFixture[str]) -> None:
    class LibraryError(Exception):
        """As that of safetensors, which is no OSError."""

    for error in (
        OSError(errno.ENOSPC, "No space left on device", "model"),
        LibraryError("I/O error: No space left on device (os error 28)"),
    ):

        def fails(error: Exception = error) -> None:
            raise error

        assert call(fails) == 3
        said = capsys.readouterr().err
        assert "no space is left on a disk" in said
        assert "run the same command again" in said
    with pytest.raises(ZeroDivisionError):
        call(lambda: 1 // 0)
    assert group is not None
