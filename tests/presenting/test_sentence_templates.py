"""Templates of sentences: the text of a field, and omitted parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import leakbound.presenting
from leakbound.presenting.templates import TEMPLATES, parts, say

BY_CLASS = {"FixedDraws", "StoppedDraws", "ExploredDraws", "ImportedDraws"}


def test_every_template_is_used() -> None:
    folder = Path(leakbound.presenting.__file__).parent
    code = "\n".join(file.read_text() for file in folder.glob("*.py"))
    literal = {*re.findall(r"""["']([a-z ]+)["']""", code)}
    unused = {name for name in TEMPLATES if name not in literal | BY_CLASS}
    assert {name.partition(" ")[0] for name in unused} == {"difference", "reading"}  # by prefix


@pytest.mark.parametrize(
    ("missing", "says"),
    [(3, "2 of 0 draws leak (3 draws without a score)"),
     (0, "2 of 0 draws leak (0 draws without a score)"),
     (None, "2 of 0 draws leak"), ("", "2 of 0 draws leak"), (False, "2 of 0 draws leak")],
)  # fmt: skip
def test_a_part_in_brackets_is_left_out_without_its_value(missing: object, says: str) -> None:
    assert say("seen", leaks="2", rows=[], verb="leak", missing=missing) == says
    assert parts("seen", missing=missing) == ([says[17:]] if says[17:] else [])


def test_braces_and_brackets_of_values_are_text() -> None:
    assert say("chat", system="[{x}]").endswith("with the system message [{x}]")
