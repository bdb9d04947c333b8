"""--help: examples that can be run as they stand, and headings by which an option is found."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from commands import done

from leakbound.cli import COMMANDS, EXAMPLES, group
from leakbound.cli.help import MOST

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
