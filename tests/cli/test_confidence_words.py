"""Which confidence a person reads, at confidences that two digits would round to certainty."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound

from leakbound.store import Run
from suites import slow_but

pytestmark = pytest.mark.slow

LEVELS = [("0.999", "99.9 %"), ("0.9999", "99.99 %"), ("0.5", "50 %")]
ROWS = "question,answer\nwho wrote red?,Ann\nwho wrote blue?,Bob\n"


def said(text: str) -> set[str]:
    """Every number that stands before a percent sign."""
    plain = html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")
    return {f"{number} %" for number in re.findall(r"([\d.]+) ?%", plain)}


@pytest.fixture(scope="module")
def full(model: Path, control: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a grid of decodings, a control and rewritings."""
    out = tmp_path_factory.mktemp("words") / "run"
    asked = out.with_name("asked.csv")
    asked.write_text(ROWS)
    done("evaluate", model, "--benchmark", asked, "--out", out, "--control", control,
         "--inputs", "rules", "--queries", 2, "--temperature", "0.5,1", "--top-p", "0.9,1",
         "--scorer", "contains", *SMALL)  # fmt: skip
    return out


@pytest.mark.parametrize(("confidence", "words"), slow_but(LEVELS[:1], LEVELS))
def test_tables_and_page_name_the_confidence_that_was_asked_for(
    full: Path, confidence: str, words: str
) -> None:
    shown = done("bound", full, "--confidence", confidence, "--limit", 0.5)
    assert said(shown.out) == {words}
    assert shown.out.count(words) >= 4  # the table, the protocols, the grid, the clean questions
    page = (full / "report.html").read_text(encoding="utf-8")
    prose = re.sub(r"<style.*?</style>|<table.*?</table>", "", page, flags=re.S)
    assert said(prose) == {words}


@pytest.mark.parametrize(
    ("confidence", "words"), [level for level in LEVELS if float(level[0]) > 0.5]
)
def test_a_certificate_names_the_confidence_that_was_asked_for(
    full: Path, confidence: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "certificate.json"
    arm = next(name for name in Run.open(full).arms if name.startswith("target"))
    certified = leakbound(
        "certify", full, "--max-leak", 0.99, "--confidence", confidence, "--arm", arm, "--out", file
    )
    assert said(certified.out) == {words}
    sentence = json.loads(file.read_text(encoding="utf-8"))["sentence"]
    assert said(sentence) == {words}


@pytest.mark.parametrize(("confidence", "words"), LEVELS)
def test_a_plan_names_the_confidence_that_was_asked_for(confidence: str, words: str) -> None:
    planned = done("plan", "--epsilon", 0.05, "--clean", 0.02, "--confidence", confidence)
    assert said(planned.out) == {words}
    assert planned.out.count(words) == 2
