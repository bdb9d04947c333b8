"""Whoever reads `help` of a public name finds every argument and field of it there."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import leakbound

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
