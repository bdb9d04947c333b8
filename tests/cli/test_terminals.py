"""Real terminals of several widths, and pipes: bars and bold letters where they are wanted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from commands import SMALL

from suites import slow_but

STYLES = re.compile(r"\x1b\[[0-9;]+m")
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIDTHS = (60, 80, 140)
HERE = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}


def at_a_terminal(width: int, *arguments: object, **more: str) -> str:
    """All that a terminal of this width is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    command = [sys.executable, "-m", "leakbound", *map(str, arguments)]
    environment = {**HERE, "TERM": "xterm-256color", **more}
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        sent = b""
        while part := _read(leader):
            sent += part
        assert process.wait() == 0, sent.decode()
    os.close(leader)
    return sent.decode()


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 1 << 16)
    except OSError:  # Linux: nobody writes any more
        return b""


def in_a_pipe(*arguments: object, **more: str) -> tuple[str, str]:
    """What is sent to standard output and standard error that are no terminals."""
    command = [sys.executable, "-m", "leakbound", *map(str, arguments)]
    environment: Mapping[str, str] = {**HERE, **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def read_with_a_bar(width: int, out: Path, *arguments: object) -> str:
    """What a person reads at a terminal of this width: a live bar, and tables no wider than it."""
    sent = at_a_terminal(width, *arguments)
    assert "\x1b[2K" in sent  # lines are written over
    read = STEERING.sub("", sent).replace("\r", "\n").replace(str(out), "")
    assert max(map(len, read.splitlines())) <= width
    rules = [line for line in read.splitlines() if line and set(line) == {"─"}]
    assert rules
    return read


@pytest.mark.slow
@pytest.mark.parametrize("width", slow_but([80], WIDTHS))
def test_a_live_bar_and_tables_as_wide_as_the_terminal(width: int, run: Path) -> None:
    read = read_with_a_bar(width, run, "bound", run, "--confidence", 0.98)
    assert "4/4 arms × scorers" in read


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_the_bar_of_an_evaluation_is_as_wide_as_the_terminal(
    width: int, model: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    how = ("--benchmark", questions, "--out", out, *SMALL)
    read = read_with_a_bar(width, out, "evaluate", model, *how)
    assert "32/32 draws" in read
    assert "% distinct" in read or width < 80


@pytest.mark.slow
def test_no_colour_where_none_is_wanted(run: Path) -> None:
    assert STYLES.search(at_a_terminal(80, "report", run))
    assert not STYLES.search(at_a_terminal(80, "report", run, NO_COLOR="1"))
    assert not STYLES.search(at_a_terminal(80, "report", run, TERM="dumb"))


@pytest.mark.slow
def test_a_pipe_is_steered_only_where_that_is_asked_for(run: Path) -> None:
    out, err = in_a_pipe("bound", run, "--confidence", 0.98)
    assert "\x1b" not in out + err
    assert "bounding: " in err
    forced, _ = in_a_pipe("report", run, FORCE_COLOR="1")
    assert STYLES.search(forced)
    assert STYLES.sub("", forced) == in_a_pipe("report", run)[0]
    assert "\x1b" not in in_a_pipe("report", run, FORCE_COLOR="1", NO_COLOR="1")[0]
