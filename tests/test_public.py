"""What leakbound gives in Python: every verb, explained; and remedies that install."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pydoc
import re
import tomllib
from keyword import iskeyword
from pathlib import Path

import pytest

import leakbound
from leakbound import stats
from leakbound.cli import COMMANDS

# `leakbound.demo` and `leakbound.stress` are packages; the others are for the command line only.
NONE = {"demo", "stress", "completion", "more"}
VERBS = {f"{name}_run" if iskeyword(name) else name for name in COMMANDS.keys() - NONE}


def test_every_verb_of_the_command_line_is_a_function_of_that_name() -> None:
    assert set(leakbound.__all__) >= VERBS
    assert set(dir(leakbound)) == set(leakbound.__all__)


def test_only_public_names_of_stats_are_listed() -> None:
    source = ast.parse(inspect.getsource(stats)).body
    imported = [line for line in source if isinstance(line, ast.ImportFrom)]
    assert set(dir(stats)) == {e.asname for line in imported for e in line.names if e.asname}


def test_help_on_evaluate_fits_a_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(leakbound.evaluate))
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines()[3:])) <= 104


FAMILIES = ("benchmarks", "engines", "losses", "objective", "scorers", "stats", "testing")


@pytest.mark.parametrize("face", ["", *FAMILIES, "certificate", "study", "types", "unlearning"])
def test_help_describes_every_argument_and_field(face: str) -> None:
    module = pydoc.locate(f"leakbound.{face}".rstrip("."))
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        if not getattr(value, "__module__", "").startswith(module.__name__):
            continue  # another package's
        # getdoc takes the indentation of sections away; what stays indented is a line of one
        text, wanted = inspect.getdoc(value), set[str]()
        if dataclasses.is_dataclass(value) and isinstance(value, type):
            wanted = {f.name for f in dataclasses.fields(value) if not f.name.startswith("_")}
            bases = filter(dataclasses.is_dataclass, value.__mro__)
            text = "\n".join(str(inspect.getdoc(base)) for base in bases)  # of inherited fields too
        elif inspect.isfunction(value) and not name.startswith("_"):
            wanted = set(inspect.signature(value).parameters)
        assert text, name
        lines = re.findall(r"^ {4,}(\*{0,2}\w+(?:, \w+)*): ", text, re.M)
        described = {word.strip("*") for line in lines for word in line.split(", ")}
        assert wanted <= described, (name, sorted(wanted - described))


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
