"""What leakbound gives in Python: every verb, explained; and remedies that install."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
import tomllib
from keyword import iskeyword
from pathlib import Path

import pytest

import leakbound
from leakbound.cli import COMMANDS

# `leakbound.demo` and `leakbound.stress` are packages, `stress` is `evaluate`; a shell completes.
NONE = {"demo", "stress", "completion"}
VERBS = {f"{name}_run" if iskeyword(name) else name for name in COMMANDS.keys() - NONE}


def test_every_verb_of_the_command_line_is_a_function_of_that_name() -> None:
    assert set(leakbound.__all__) >= VERBS
    assert set(dir(leakbound)) == set(leakbound.__all__)


def test_help_on_evaluate_fits_a_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(leakbound.evaluate))
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines()[3:])) <= 104
    for name in ("model", "study", "out", "control", "progress", "fields"):
        assert f"        {name}: " in text


NAMES = [name for name in leakbound.__all__ if not name.startswith("__")]
SPARED = {"self", "cls"}


def described(text: str) -> set[str]:
    """The names that begin a line of a section of arguments or attributes, or stand in `ticks`."""
    lines = re.findall(r"^ {4,}(\w+(?:, \w+)*): ", text, re.M)
    return {name for line in lines for name in line.split(", ")} | set(re.findall(r"`(\w+)`", text))


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_every_argument_and_field(name: str) -> None:
    value = getattr(leakbound, name)
    text = inspect.getdoc(value) or ""
    # getdoc takes the indentation of sections away; what stays indented is a line of one
    if dataclasses.is_dataclass(value):
        wanted = {
            field.name for field in dataclasses.fields(value) if not field.name.startswith("_")
        }
    elif callable(value) and not isinstance(value, type):
        wanted = set(inspect.signature(value).parameters) - SPARED
    else:
        wanted = set()
    assert text
    assert wanted <= described(text), sorted(wanted - described(text))


PACKAGE = Path(leakbound.__file__).parent
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
INSTALLS = re.compile(r"""(?:install|needing)\((?:.+, )?['"](\w+)['"][,)]""")


def test_every_extra_that_a_message_names_exists_and_every_one_is_named() -> None:
    extras = set(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])
    texts = [file.read_text() for file in PACKAGE.rglob("*.py")]
    named = {extra for text in texts for extra in INSTALLS.findall(text)}
    assert named <= extras
    assert {"embed", "judge", "lora", "models"} <= named
    assert not any("pip install sentence" in text or "'leakbound[" in text for text in texts)
