"""What a shell completes, asked as a shell asks; and that a key press need not wait."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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
    assert "_LEAKBOUND_COMPLETE" in script
    assert f"{shell}_complete" in script


def test_bash_takes_the_script() -> None:
    script = done("completion", "bash").out
    taken = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p leakbound"],
        capture_output=True,
        text=True,
    )
    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.strip().endswith("leakbound")


def in_bash(line: str, words: list[str], replaced: str) -> list[str]:
    """What bash offers for the end of a line: `words` are the line's, cut where bash cuts them."""
    asked = f"leakbound() {{ {shlex.join([sys.executable, '-c', ASKS])}; }}; compopt() {{ :; }}\n"
    told = f"COMP_LINE={shlex.quote(line)}; COMP_WORDS=({shlex.join(words)})\n"
    last = f"COMP_CWORD={len(words) - 1}; _leakbound_completion leakbound {shlex.quote(replaced)}\n"
    script = (
        asked + done("completion", "bash").out + told + last + 'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_offers_names_beside_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fiction.csv").touch()
    words = ["leakbound", "evaluate", "m", "--benchmark", "fic"]
    assert in_bash(" ".join(words), words, "fic") == ["fictitious", "fiction.csv"]


def test_bash_offers_what_follows_a_colon_where_it_cuts_words() -> None:
    line = "leakbound  evaluate m --benchmark tofu:forget1"
    assert in_bash(line, [*line.split()[:-1], "tofu", ":", "forget1"], "forget1") == ["forget10"]
    line = "leakbound evaluate m --benchmark tofu:hold"
    whole = in_bash(line, line.split(), "tofu:hold")  # COMP_WORDBREAKS without a colon
    assert whole == ["tofu:holdout01", "tofu:holdout05", "tofu:holdout10"]
    assert "evaluate" in in_bash("leakbound ", ["leakbound", ""], "")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_a_zsh_that_was_never_configured_takes_the_script(tmp_path: Path) -> None:
    script = tmp_path / "completion.zsh"
    script.write_text(done("completion", "zsh").out)
    assert script.read_text().startswith("#compdef leakbound\n")  # where compinit looks
    asked = f"cd {tmp_path}; source {script}; print -r -- $_comps[leakbound]"
    ran = subprocess.run(
        ["zsh", "-f", "-c", asked],
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)},
    )
    assert (ran.stdout, ran.stderr) == ("_leakbound_completion\n", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_keeps_the_commas_of_names_and_of_what_is_said_of_them(tmp_path: Path) -> None:
    asks = f"function leakbound; {shlex.join([sys.executable])} -c {shlex.quote(ASKS)}; end\n"
    lines = ("leakbound ev", "leakbound evaluate m --metrics all,forget_q")
    asked = "".join(f"complete -C {shlex.quote(line)}\n" for line in lines)
    script = tmp_path / "asked.fish"
    script.write_text(asks.replace("'\"'\"'", "\\'") + done("completion", "fish").out + asked)
    ran = subprocess.run(
        ["fish", "--no-config", str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    command, metric = ran.stdout.splitlines()
    assert command.startswith("evaluate\tSample, score and bound")
    assert metric == "all,forget_quality"


def test_another_shell_is_refused() -> None:
    assert leakbound("completion", "tcsh").status == 2


def test_completing_loads_nothing_heavy() -> None:
    asked = "from leakbound.cli.completing import names_of; names_of('objective')"
    code = f"import sys; from leakbound.cli import evaluate, unlearn; {asked}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.returncode == 0, loaded.stderr
    assert not {*HEAVY} & {*loaded.stdout.split()}
    assert "evaluate" in COMMANDS
