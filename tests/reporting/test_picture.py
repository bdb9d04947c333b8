"""`leakbound.picture`: one drawing of a run that stands alone."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import leakbound
from leakbound.errors import InputError
from leakbound.store import Run

SVG = "{http://www.w3.org/2000/svg}"


def test_every_question_of_every_target_has_its_bar(runs: dict[str, Run]) -> None:
    drawn = leakbound.picture(runs)
    root = ElementTree.fromstring(drawn.svg)
    bars = [e for e in root.iter(f"{SVG}rect") if e.get("class") == "bar"]
    assert len(bars) == sum(len(run.questions) for run in runs.values())
    lanes = [e.text for e in root.iter(f"{SVG}text") if e.get("class") == "mid"]
    assert lanes == list(runs)  # the control has none


def test_it_stands_alone_and_is_written_whole(runs: dict[str, Run], tmp_path: Path) -> None:
    run = next(iter(runs.values()))
    drawn = leakbound.picture(run)
    file = drawn.save(tmp_path / "leaks.svg")
    assert file.read_text(encoding="utf-8") == drawn.svg == drawn._repr_svg_()
    assert "--card" in drawn.svg  # the style sheet is in it
    assert not re.search(r"(?:href|src|url\()", drawn.svg.replace('href="#', ""))
    assert drawn.svg != leakbound.picture(run, scorer=run_scorers(run)[-1]).svg


def run_scorers(run: Run) -> list[str]:
    return list(run.estimates.scorers)


def test_an_unknown_scorer_is_named_with_those_there_are(runs: dict[str, Run]) -> None:
    with pytest.raises(InputError, match=r"`scorer` must be one .*keyword.* got 'nobody'"):
        leakbound.picture(runs, scorer="nobody")
