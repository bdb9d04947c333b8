"""What a shell completes, asked as a shell asks; and that a key press need not wait."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
from commands import done, leakbound
from test_startup import HEAVY

ASKS = "import sys; from leakbound.cli import main; sys.argv[0] = 'leakbound'; main()"


def completed(*words: str) -> list[str]:
    """What bash is told of the last of these words."""
    asked = {"COMP_WORDS": " ".join(["leakbound", *words]), "COMP_CWORD": str(len(words))}
    environment = os.environ | asked | {"_LEAKBOUND_COMPLETE": "bash_complete"}
    told = subprocess.run(
        [sys.executable, "-c", ASKS], env=environment, capture_output=True, text=True, check=True
    )
    return told.stdout.splitlines()


def test_a_shell_is_told_commands_options_choices_and_paths() -> None:
    assert completed("ev") == ["plain,evaluate"]
    assert completed("evaluate", "--benchm") == ["plain,--benchmark"]
    assert completed("evaluate", "m", "--explore", "h") == ["plain,hybrid"]
    assert completed("report", "") == ["dir,"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_leakbound(shell: str) -> None:
    assert f"_LEAKBOUND_COMPLETE={shell}_complete" in done("completion", shell).out


def test_bash_takes_the_script_and_offers_what_leakbound_says() -> None:
    """`env` is a function here, as no program in the path need be called leakbound."""
    asks = f'env() {{ command env "${{@:1:3}}" {shlex.join([sys.executable, "-c", ASKS])}; }}\n'
    asked = "COMP_WORDS=(leakbound pl); COMP_CWORD=1; _leakbound_completion leakbound\n"
    script = asks + done("completion", "bash").out + asked + 'echo "${COMPREPLY[@]}"'
    ran = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("plan\n", "")


def test_another_shell_is_refused() -> None:
    assert leakbound("completion", "tcsh").status == 2


def test_completing_loads_nothing_heavy() -> None:
    code = "import sys; from leakbound.cli import evaluate, unlearn; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    assert not {*HEAVY} & {*loaded.stdout.split()}
