"""Call the command line within the test's process, as a user would from a shell."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leakbound.cli import group, run
from leakbound.store import LOCK

Words = tuple[object, ...]
StandardError = io.StringIO  # a test may put a terminal here
SMALL = ("-n", 16, "--max-new-tokens", 4)
SAMPLE, MEASURE = ("--only", "sample"), ("--only", "metrics")


@dataclass(frozen=True)
class Result:
    """The output and exit status of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def estimates(self, **wanted: Any) -> list[dict[str, Any]]:
        """Select the estimates with these fields; a tuple lists alternatives."""
        choices = {k: v if isinstance(v, tuple) else (v,) for k, v in wanted.items()}
        return [r for r in self.json["estimates"] if all(r[k] in v for k, v in choices.items())]


def leakbound(*arguments: object) -> Result:
    """Run `leakbound ARGUMENTS`; unexpected errors propagate to the test."""
    out, err = io.StringIO(), StandardError()
    with redirect_stdout(out), redirect_stderr(err):
        status = run(lambda: group([str(a) for a in arguments], standalone_mode=False))
    return Result(status, out.getvalue(), err.getvalue())


def done(*arguments: object) -> Result:
    result = leakbound(*arguments)
    assert result.status == 0, result.err
    return result


def refused(result: Result, *named: str, status: int = 2) -> None:
    """Require a refusal with this status: one message that contains these words, and no output."""
    assert result.status == status
    assert result.out == ""
    for text in named:
        assert text in result.err, result.err
    assert "Traceback" not in result.err


def python(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another process and return its output."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder except locks, by its relative path."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != LOCK)
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def arguments_of(monkeypatch: pytest.MonkeyPatch, verb: str, *command: object) -> dict[str, Any]:
    """Return the arguments that `leakbound VERB` passes to the training verb, which is not run."""
    seen: dict[str, Any] = {}

    def spy(*given: Any, **rest: Any) -> None:
        seen.update(rest, given=given)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"leakbound.unlearning.{verb}", spy)
    assert leakbound(verb, *command).status == 3
    return seen
