"""What `import leakbound` gives: every verb of the command line, and what says what is asked."""

from __future__ import annotations

import inspect
import pydoc
import re
from keyword import iskeyword

import pytest

import leakbound
from leakbound.cli import COMMANDS

NONE = {"demo", "completion"}  # `leakbound.demo` is its package; a shell alone completes
VERBS = {f"{name}_run" if iskeyword(name) else name for name in COMMANDS.keys() - NONE}


def test_every_verb_of_the_command_line_is_a_function_of_that_name() -> None:
    assert set(leakbound.__all__) >= VERBS
    assert set(dir(leakbound)) == set(leakbound.__all__)


@pytest.mark.parametrize("name", sorted(VERBS))
def test_its_docstring_has_a_line_for_every_argument(name: str) -> None:
    verb = getattr(leakbound, name)
    assert inspect.isfunction(verb)
    told = set(re.findall(r"^ +((?:\w+, )*\w+): ", inspect.getdoc(verb) or "", re.M))
    said = {word for names in told for word in names.split(", ")}
    same_as = re.search(r"arguments|as for `", inspect.getdoc(verb) or "")
    assert same_as or said >= set(inspect.signature(verb).parameters)
    assert len(inspect.signature(verb).parameters) <= 8


@pytest.mark.parametrize("name", sorted(set(leakbound.__all__) - {"__version__"}))
def test_every_name_loads_and_is_explained(name: str) -> None:
    assert inspect.getdoc(getattr(leakbound, name))


def test_help_on_evaluate_fits_a_screen() -> None:
    text = pydoc.plain(pydoc.render_doc(leakbound.evaluate))
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines()[3:])) <= 104
    for name in ("model", "study", "out", "control", "progress", "fields"):
        assert f"        {name}: " in text
