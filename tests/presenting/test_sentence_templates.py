"""Templates of sentences: what a field shows, and which parts are left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import leakbound.presenting
from leakbound.presenting.templates import TEMPLATES, say

BY_CLASS = {"FixedDraws", "StoppedDraws", "ExploredDraws", "ImportedDraws"}


def test_every_template_is_said_and_no_other() -> None:
    folder = Path(leakbound.presenting.__file__).parent
    code = "\n".join(file.read_text() for file in folder.glob("*.py"))
    said = set(re.findall(r'\b(?:say|of)\(\s*"([a-z ]+)"', code)) | {"below", "limit"} | BY_CLASS
    assert said == {name for name in TEMPLATES if not name.startswith("difference ")} | {
        name for name in said if name.startswith("difference ")
    }


@pytest.mark.parametrize(
    ("missing", "says"),
    [(3, "2 of 0 draws leak (3 without a score)"), (0, "2 of 0 draws leak (0 without a score)"),
     (None, "2 of 0 draws leak"), ("", "2 of 0 draws leak"), (False, "2 of 0 draws leak")],
)  # fmt: skip
def test_a_part_in_brackets_is_left_out_without_its_value(missing: object, says: str) -> None:
    assert say("seen", leaks="2", rows=[], verb="leak", missing=missing) == says


def test_braces_and_brackets_of_values_are_text() -> None:
    assert say("chat", system="[{x}]").endswith("with the system message [{x}]")
