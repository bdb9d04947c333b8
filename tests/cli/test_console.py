"""Progress as lines or a live bar, tables at any width, bold text."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from commands import Words, done, python

from leakbound.cli import console
from leakbound.cli.console import print_table
from leakbound.evaluation import Table
from leakbound.types import Headway, during


class Clock:
    """A clock that the test sets, and the lines with their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[str] = []
        self.at: list[float] = []

    def say(self, text: str, err: bool) -> None:
        self.seen.append(text)
        self.at.append(self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(console.time, "monotonic", lambda: made.now)
    monkeypatch.setattr("leakbound.cli.output.click.echo", made.say)
    return made


def test_lines_become_rarer_and_the_last_comes_once(clock: Clock) -> None:
    with console.progress_bar() as progress:
        for second in range(3601):
            clock.now = float(second)
            progress(Headway("working", second, 3600, "steps"))
        for _ in range(60):
            clock.now += 1  # after any time
            progress(Headway("working", 3600, 3600, "steps"))
    pauses = [later - earlier for earlier, later in pairwise(clock.at)]
    assert pauses[:5] == [5, 10, 20, 40, 60]
    assert set(pauses[4:-1]) == {60}
    assert len(clock.seen) < 70
    assert (clock.seen[0], clock.at[-1]) == ("working: 0/3,600 steps", 3600)
    assert all(" steps/s" in line for line in clock.seen[1:])
    assert all(" left, " in line for line in clock.seen[1:-1])


def test_a_step_without_a_measure_is_shown_while_it_lasts(clock: Clock) -> None:
    with console.progress_bar() as progress:
        with during(progress, "loading one"):
            assert clock.seen == ["loading one: …"]
        with during(progress, "loading another"):  # soon after the first
            assert clock.seen[1:] == ["loading another: …"]
            clock.now = 70.0
    assert clock.seen[2:] == ["loading another: 1 min 10 s"]  # without the phases that took no time


def test_durations_for_people() -> None:
    texts = [console.duration(s) for s in (0.4, 59, 61, 3599, 3600, 90_000)]
    assert texts == ["0 s", "59 s", "1 min 01 s", "59 min 59 s", "1 h 00 min", "25 h 00 min"]


class Terminal(io.StringIO):
    isatty = lambda _: True  # noqa: E731


def test_a_live_bar(evaluating: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commands.StandardError", Terminal)
    err = done(*evaluating, tmp_path / "run").err
    assert "sampling target" in err
    assert "32/32 draws" in err


def _figures(cell: str) -> list[str]:
    """Return the figures of a text; the bounds of an interval stay together."""
    got = re.findall(r"\[[^\]]*\]", cell)
    return got + re.sub(r"\[[^\]]*\]", " ", cell).split()


WORDS = "a long list, of, short words, here"
ENDS = "0.123 [0.100, 0.200]"
CELLS = [
    ("target T=0.5", "T=0.5, top-p=0.9", "0.125", ENDS, WORDS),
    ("control", "T=1", "–", "−0.100 [−0.100, 0.200]", ""),
]
TABLE = replace(
    Table.plain("a title", ("arm", "decoding", "greedy", "mean", "asked"), CELLS),
    lead=f"What is said first of {ENDS} and of 3 of 12 questions.",
    note="What is said last,\nin two paragraphs of which the second one is longer than a line is.",
)


def shown_at(width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    lines: list[str] = []
    print_table(TABLE, echo=lines.append)
    return "\n".join(lines)


def test_a_table_fits_and_is_whole_at_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side, in two blocks under the first column, or each row as a list of its cells."""
    forms = set()
    for width in (*range(24, 80), *range(80, 140, 7)):
        shown = shown_at(width, monkeypatch)
        assert width < 40 or all(len(line) <= width for line in shown.splitlines()), width
        assert not {"…", "..."} & {*shown.split()}
        for row in CELLS:
            assert len(re.findall(rf"^{re.escape(row[0])}\b", shown, re.M)) >= 1, width
            for cell in row[1:]:
                assert all(figure in shown for figure in _figures(cell)), (cell, width)
        assert all(word in shown for text in (TABLE.lead, TABLE.note) for word in _figures(text))
        assert "3 of 12" in shown
        forms.add(shown.count("─\n"))
    assert forms >= {0, 1, 2}
    narrow = shown_at(27, monkeypatch)
    words = r"\s+".join(map(re.escape, ENDS.split()))
    assert re.search(rf"^target T=0.5\n(  .*\n)+  mean +{words}$", narrow, re.M)


def test_in_a_pipe_sentences_are_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines: list[str] = []
    print_table(TABLE, echo=lines.append)
    assert {TABLE.lead, *TABLE.note.splitlines()} <= {*"".join(lines).splitlines()}


STYLES = re.compile(r"\x1b\[[0-9;]+m")


def at_a_terminal(*arguments: object, **more: str) -> str:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "leakbound", *map(str, arguments)]
    environment = os.environ | {"TERM": "xterm"} | more
    ends = {"stdin": follower, "stdout": follower, "stderr": follower}
    with subprocess.Popen(command, env=environment, **ends) as process:  # type: ignore[call-overload]
        os.close(follower)
        sent = b""
        with suppress(OSError):  # on Linux: no writer is left
            while part := os.read(leader, 1 << 16):
                sent += part
        assert process.wait() == 0, sent.decode()
    os.close(leader)
    return sent.decode()


def in_a_pipe(*arguments: object, **more: str) -> tuple[str, str]:
    ended = python("-m", "leakbound", *arguments, **more)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


@pytest.mark.slow
def test_bold_on_a_terminal_and_in_a_pipe_on_request(run: Path) -> None:
    assert STYLES.search(at_a_terminal("report", run))
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert not STYLES.search(at_a_terminal("report", run, **more))
    out, err = in_a_pipe("bound", run, "--confidence", 0.98)
    assert "\x1b" not in out + err
    assert "bounding: " in err
    forced, _ = in_a_pipe("report", run, FORCE_COLOR="1")
    assert STYLES.search(forced)
    assert STYLES.sub("", forced) == in_a_pipe("report", run)[0]
    assert "\x1b" not in in_a_pipe("report", run, FORCE_COLOR="1", NO_COLOR="1")[0]
