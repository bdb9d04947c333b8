"""What a shell sees first: helps and examples, completion; nothing heavy loads before its time."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import get_args

import click
import pytest
from commands import done, leakbound

from leakbound.cli import COMMANDS, EXAMPLES, group
from leakbound.cli.help import MOST
from leakbound.cli.options import OneOf
from leakbound.engines.classify import CLASSIFIERS
from leakbound.engines.loading import DTYPES, Checkpoint, load_model
from leakbound.engines.models import OpenModels
from leakbound.formats.catalogue import FORMATS
from leakbound.inputs.ids import Criterion
from leakbound.stats import Design
from leakbound.study import ModelSettings
from leakbound.types import ExploreMode
from leakbound.types.decoding import AdaptiveMode
from leakbound.unlearning import TrainingSettings
from leakbound.unlearning.settings import Schedule

LONG = ("evaluate", "sample", "unlearn", "finetune")


def examples(text: str) -> list[str]:
    """The command lines that a help shows."""
    shown = re.search(r"^Examples:\n((?:  .*\n)+)", text, re.M)
    assert shown, text
    joined = shown[1].replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines()]


def parsed(arguments: list[str]) -> click.Context:
    """What the command line makes of these arguments; nothing is run."""
    command = group.get_command(click.Context(group), arguments[0])
    assert command is not None
    return command.make_context(arguments[0], arguments[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_line_that_is_understood(name: str) -> None:
    for line in examples(done(name, "--help").out):
        inner = re.search(r"\$\((.*)\)", line)
        words = shlex.split(inner[1] if inner else line, comments=True)
        words = words[: words.index(">")] if ">" in words else words
        assert words[:2] == ["leakbound", name]
        assert parsed(words[1:]).params


def test_the_first_help_has_examples_too() -> None:
    shown = examples(done("--help").out)
    assert shown == list(EXAMPLES)
    for line in shown:
        words = shlex.split(line)[1:]
        assert words[-1] == "--help" or parsed(words)


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_a_terminal(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = done(name, "--help-all" if name in LONG else "--help").out.splitlines()
    free = width if width >= 80 else 82  # an example is copied as it is, and long names are whole
    assert max(map(len, lines)) <= max(free, 80)


def listed(text: str) -> list[str]:
    """The options that a help lists."""
    return re.findall(r"^  (-\S+?),? ", text.partition("Examples:")[2], re.M)


@pytest.mark.parametrize("name", LONG)
def test_the_first_screen_has_examples_and_the_options_people_use(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = done(name, "--help").out
    assert len(text.splitlines()) <= 40
    assert len(listed(text)) <= 14
    assert listed(text)[-1] == "--help-all"
    assert {"--benchmark", "--out"} < set(listed(text)) < set(listed(done(name, "--help-all").out))
    assert f"all {len(listed(done(name, '--help-all').out)) - 2} options" in text  # but for helps


@pytest.mark.parametrize("name", LONG)
def test_many_options_stand_under_headings_each_in_one(name: str) -> None:
    text = done(name, "--help-all").out
    headings = re.findall(r"^(\S.*):$", text, re.M)
    assert "Options" not in headings
    assert headings[0] == "Examples"
    assert headings[-1] == "Output"
    assert len(headings) == len(set(headings)) > 5
    command = group.get_command(click.Context(group), name)
    assert command is not None
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    for option in options:
        assert listed(text).count(option.opts[0]) == 1
    output = text.partition("Output:\n")[2]
    assert re.findall(r"^  (\S+)", output, re.M)[-3:] == ["--json", "-h,", "--help-all"]
    assert len(re.findall(r"^  -", output, re.M)) <= 5  # nothing has fallen in there


def test_few_options_need_no_headings() -> None:
    for name in COMMANDS:
        text = done(name, "--help").out
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if sum(isinstance(p, click.Option) for p in command.params) < MOST:
            assert "Options:" in text


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
    assert completed("evaluate", "m", "--design", "fr") == ["plain,fresh"]
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


def test_python_takes_the_gpu_that_the_command_line_takes() -> None:
    found = [settings().device for settings in (ModelSettings, TrainingSettings, OpenModels)]
    loaders = (load_model, Checkpoint.open, *CLASSIFIERS.values())
    found += [signature(load).parameters["device"].default for load in loaders]
    assert set(found) == {"auto"}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_says_otherwise(name: str) -> None:
    context = click.Context(group)
    command = group.get_command(context, name)
    assert command is not None
    options = (option for option in command.params if option.name == "device")
    assert not {option.get_default(context) for option in options} & {"cpu", "cuda"}


@pytest.mark.parametrize(
    ("command", "option", "family"),
    [
        ("evaluate", "explore", get_args(ExploreMode)),
        ("evaluate", "adaptive_mode", get_args(AdaptiveMode)),
        ("evaluate", "design", get_args(Design)),
        ("evaluate", "ids_criterion", get_args(Criterion)),
        ("evaluate", "dtype", DTYPES),
        ("unlearn", "schedule", get_args(Schedule)),
        ("import", "form", FORMATS),
    ],
)
def test_names_of_a_family_are_those_of_its_own_table(
    command: str, option: str, family: tuple[str, ...]
) -> None:
    found = group.get_command(click.Context(group), command)
    assert found is not None
    (param,) = (param for param in found.params if param.name == option)
    names = param.type.choice if isinstance(param.type, OneOf) else param.type
    assert set(names.choices) == set(family)
