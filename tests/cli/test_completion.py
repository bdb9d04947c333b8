"""What a shell completes, asked as a shell asks; and that a key press need not wait."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from commands import done, leakbound
from test_startup import HEAVY

from leakbound.benchmarks import BENCHMARKS, PROFILES
from leakbound.benchmarks.tofu import SPLITS
from leakbound.cli import COMMANDS, completing
from leakbound.engines import ENGINES
from leakbound.evaluation.planning.metrics import METRICS
from leakbound.inputs import INPUTS
from leakbound.objective import OBJECTIVES
from leakbound.scorers import SCORERS

FAMILIES: Mapping[str, Mapping[str, object]] = {
    "benchmark": BENCHMARKS,
    "profile": PROFILES,
    "scorer": SCORERS,
    "objective": OBJECTIVES,
    "engine": ENGINES,
    "input": INPUTS,
    "metric": METRICS,
}
ASKS = "import sys; from leakbound.cli import main; sys.argv[0] = 'leakbound'; main()"


def completed(*words: str) -> list[str]:
    """What bash is told of the last of these words."""
    asked = {"COMP_WORDS": " ".join(["leakbound", *words]), "COMP_CWORD": str(len(words))}
    environment = os.environ | asked | {"_LEAKBOUND_COMPLETE": "bash_complete"}
    told = subprocess.run(
        [sys.executable, "-c", ASKS], env=environment, capture_output=True, text=True, check=True
    )
    return told.stdout.splitlines()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_of_a_family_is_completed_and_nothing_else(family: str) -> None:
    assert sorted(completing.names_of(family)) == sorted(FAMILIES[family])


def test_splits_are_completed_behind_their_benchmark() -> None:
    complete = completing.completes("benchmark", files=True)
    found = complete(None, None, "tofu:")  # type: ignore[arg-type]
    assert {one.value for one in found if one.type == "plain"} == {f"tofu:{s}" for s in SPLITS}
    assert [one.value for one in found if one.type == "file"] == ["tofu:"]


def test_one_of_several_is_completed_behind_the_others() -> None:
    complete = completing.completes("objective", between="+")
    found = complete(None, None, "npo+en")  # type: ignore[arg-type]
    assert [one.value for one in found] == ["npo+entropy"]


def test_a_shell_is_told_commands_options_and_names() -> None:
    assert completed("ev") == ["plain,evaluate"]
    assert completed("evaluate", "--benchm") == ["plain,--benchmark"]
    assert completed("evaluate", "m", "--scorer", "cont") == ["plain,contains"]
    assert completed("report", "") == ["dir,"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_leakbound(shell: str) -> None:
    script = done("completion", shell).out
    assert f"_LEAKBOUND_COMPLETE={shell}_complete" in script


def test_bash_takes_the_script() -> None:
    script = done("completion", "bash").out
    taken = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p leakbound"],
        capture_output=True,
        text=True,
    )
    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.strip().endswith("leakbound")


def test_another_shell_is_refused() -> None:
    assert leakbound("completion", "tcsh").status == 2


def test_completing_loads_nothing_heavy() -> None:
    asked = "from leakbound.cli.completing import names_of; names_of('objective')"
    code = f"import sys; from leakbound.cli import evaluate, unlearn; {asked}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    assert not {*HEAVY} & {*loaded.stdout.split()}
    assert "evaluate" in COMMANDS
