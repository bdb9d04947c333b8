"""Real processes: what a shell sees, and that nothing heavy loads before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from commands import done

from leakbound.cli import COMMANDS

HEAVY = ("torch", "transformers", "scipy", "numpy", "pyarrow", "rich")
SPY = """
import sys
from leakbound.cli import group, run
for command in {commands!r}:
    status = run(lambda: group(command, standalone_mode=False))
    assert status == 0, command
print("loaded:", *(name for name in {heavy!r} if name in sys.modules))
"""


def shell(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leakbound", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def loaded_by(*commands: list[str]) -> set[str]:
    """Which heavy libraries these commands load."""
    code = SPY.format(commands=commands, heavy=HEAVY)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.splitlines()[-1].split()[1:])


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    result = shell("--help")
    assert result.returncode == 0
    listed = [line.split()[0] for line in result.stdout.partition("Commands:")[2].splitlines()[1:]]
    assert listed == list(COMMANDS)
    assert "Exit status: 0 done" in result.stdout
    assert loaded_by(["--help"], ["--version"], ["evaluate", "--help"], ["plan", "-h"]) == set()


def test_every_command_has_help_of_its_own() -> None:
    for name in COMMANDS:
        text = done(name, "--help").out
        assert text.startswith("Usage:")
        assert "--json" in text or "--help-all" in text or name == "completion"


def test_commands_that_run_no_model_load_no_torch(run: Path) -> None:
    loaded = loaded_by(
        ["score", str(run), "--scorer", "contains"],
        ["bound", str(run), "--scorer", "contains"],
        ["report", str(run)],
        ["plan", "--epsilon", "0.01"],
    )
    assert "scipy" in loaded  # so that the next line can fail
    assert not loaded & {"torch", "transformers"}


def test_a_refusal_is_one_message_and_a_status(tmp_path: Path) -> None:
    result = shell("report", tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"leakbound: `{tmp_path}` is no run directory")
