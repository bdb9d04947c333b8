"""Help texts, examples and completion; slow modules load only when needed."""

from __future__ import annotations

import re
import shlex
from inspect import signature
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import click
import pytest
from click.shell_completion import BashComplete
from commands import done, leakbound, python

from leakbound.cli import COMMANDS, EXAMPLES, MAIN, OTHERS, group
from leakbound.cli.help import MOST
from leakbound.engines.classify import CLASSIFIERS
from leakbound.engines.loading import DTYPES, Checkpoint, load_model
from leakbound.engines.models import OpenModels
from leakbound.formats.catalogue import FORMATS
from leakbound.study import ModelSettings
from leakbound.types import Thinking
from leakbound.types.decoding import FilterRule
from leakbound.unlearning import TrainingSettings
from leakbound.unlearning.settings import Schedule

LONG = ("evaluate", "stress", "unlearn", "finetune")


def examples(text: str) -> list[str]:
    shown = re.search(r"^Examples:\n((?:  .*\n)+)", text, re.M)
    assert shown, text
    joined = shown[1].replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines()]


def command_of(name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return command


def parsed(arguments: list[str]) -> click.Context:
    """Parse these arguments without running the command."""
    parent = click.Context(group, **group.context_settings)  # it caches its first help option
    return command_of(arguments[0]).make_context(arguments[0], arguments[1:], parent)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_valid_command_line(name: str) -> None:
    for line in examples(done(name, "--help").out):
        inner = re.search(r"\$\((.*)\)", line)
        words = shlex.split(inner[1] if inner else line, comments=True)
        words = words[: words.index(">")] if ">" in words else words
        assert words[:2] == ["leakbound", name]
        assert parsed(words[1:]).params or name == "more"
    first = examples(done("--help").out)
    assert first == list(EXAMPLES)
    assert all(line.endswith("--help") or parsed(shlex.split(line)[1:]) for line in first)


@pytest.mark.parametrize("width", [60, 140])
@pytest.mark.parametrize("name", COMMANDS)
def test_lines_fit_a_terminal(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = done(name, "--help-all" if name in LONG else "--help").out.splitlines()
    free = width if width >= 80 else 82  # examples stay unchanged, and long names whole
    assert max(map(len, lines)) <= max(free, 80)


def listed(text: str) -> list[str]:
    return re.findall(r"^  (-\S+?),? ", text.partition("Examples:")[2], re.M)


@pytest.mark.parametrize("name", LONG)
def test_the_first_screen_has_common_options(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, every = done(name, "--help").out, listed(done(name, "--help-all").out)
    assert len(text.splitlines()) <= 36
    assert len(listed(text)) <= 14
    assert listed(text)[-1] == "--help-all"
    assert {"--benchmark", "--out"} < set(listed(text)) < set(every)
    assert f"all {len(every) - 2} options" in text  # except for the two helps


HEAVY = ("torch", "transformers", "scipy", "numpy", "pyarrow", "rich")
SPY = """
import sys
from leakbound.cli import group, run
def loaded(*commands):
    for command in commands:
        status = run(lambda: group(command, standalone_mode=False))
        assert status == 0, command
    print("loaded:", *(name for name in {heavy!r} if name in sys.modules))
loaded(["--help"], ["--version"], ["evaluate", "--help"], ["unlearn", "-h"], ["plan", "-h"])
from leakbound.reporting import figures
figures.figures_of = lambda *args: []  # drawing takes seconds
import leakbound.plotting.charts
loaded(
    ["score", {run!r}, "--scorer", "contains"],
    ["bound", {run!r}, "--scorer", "contains"],
    ["report", {run!r}],
    ["plan", "--epsilon", "0.01"],
)
"""


def test_help_lists_every_command() -> None:
    text = done("--help").out
    listed = [line.split()[0] for line in text.partition("Commands:")[2].splitlines()[1:]]
    assert listed == list(MAIN)
    assert len(listed) <= 13
    more = done("more").out
    assert all(f"  {name} " in more for name in OTHERS)
    assert "Exit status: 0 success" in text
    for name in COMMANDS:
        text = done(name, "--help").out
        assert text.startswith("Usage:")
        assert "--json" in text or "--help-all" in text or name == "more"
        command = command_of(name)
        if sum(isinstance(p, click.Option) for p in command.params) < MOST:
            assert "Options:" in text  # few options need no headings
        devices = (option.get_default(click.Context(group)) for option in command.params
                   if option.name == "device")  # fmt: skip
        assert not {*devices} & {"cpu", "cuda"}


def test_helps_load_nothing_heavy_and_commands_without_a_model_no_torch(run: Path) -> None:
    result = python("-c", SPY.format(heavy=HEAVY, run=str(run)))
    assert result.returncode == 0, result.stderr
    printed = [line for line in result.stdout.splitlines() if line.startswith("loaded:")]
    helps, others = (set(line.split()[1:]) for line in printed)
    assert helps == set()
    assert "scipy" in others  # so that the next line can fail
    assert not others & {"torch", "transformers"}


def test_the_package_runs_as_a_module() -> None:
    wrong = python("-m", "leakbound", "evalute")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "No such command 'evalute'. Did you mean 'evaluate'?" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("evaluate --benchm", "plain,--benchmark"),
        ("evaluate m --device c", "plain,cpu plain,cuda"),
        ("report ", "dir,"),
    ],
)
def test_a_shell_completes_options_choices_and_paths(words: str, completed: str) -> None:
    line = {"COMP_WORDS": f"leakbound {words}", "COMP_CWORD": str(len(words.split(" ")))}
    complete = BashComplete(group, {}, "leakbound", "_LEAKBOUND_COMPLETE")
    with patch.dict("os.environ", line):
        assert complete.complete().split() == completed.split()


def test_python_and_the_command_line_use_the_same_device() -> None:
    got = [settings().device for settings in (ModelSettings, TrainingSettings, OpenModels)]
    loaders = (load_model, Checkpoint.open, *CLASSIFIERS.values())
    got += [signature(load).parameters["device"].default for load in loaders]
    assert set(got) == {"auto"}


def test_names_of_a_family_equal_its_table() -> None:
    """The table of options repeats the names, so that no help loads their modules."""
    for command, option, family in (
        ("evaluate", "thinking", get_args(Thinking)),
        ("evaluate", "filter", get_args(FilterRule)),
        ("evaluate", "dtype", DTYPES),
        ("unlearn", "schedule", get_args(Schedule)),
        ("import", "form", FORMATS),
    ):
        (param,) = (param for param in command_of(command).params if param.name == option)
        assert isinstance(param.type, click.Choice)
        assert set(param.type.choices) == set(family)


def test_the_near_name_of_a_folder_is_suggested_on_its_way(tmp_path: Path) -> None:
    on_the_way = tmp_path.with_name(f"{tmp_path.name}x") / "run"
    assert f"Did you mean `{tmp_path}`?" in leakbound("report", on_the_way).err
    assert "Did you mean" not in leakbound("report", tmp_path / "quite-another-name").err
