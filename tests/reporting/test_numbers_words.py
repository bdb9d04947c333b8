"""Numbers agree with their words on a page: 0, 1 and many."""

from __future__ import annotations

import re
from pathlib import Path

from opened import details
from test_report_page import Page

from canned_runs import benchmark, make_run
from leakbound.evaluation.views.read import read_view
from leakbound.reporting.page import render


def disagreeing(text: str) -> list[str]:
    """Plurals that 1 stands before."""
    nouns = "questions|draws|times|prefixes|completions|queries|models|scorers|characters|tokens"
    return re.findall(rf"(?<![\d.,@])1 (?:more )?(?:distinct )?(?:{nouns})\b", text)


def test_a_page_of_one_question_and_one_draw_has_no_plural_of_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", benchmark(1), "full", 0.9, n=1)
    html = render(read_view({"full": run}))
    said = Page(html).body + str(details(html))
    assert "1 question" in said
    assert "1 draw of every question" in said
    assert disagreeing(said.replace("\N{NO-BREAK SPACE}", " ")) == []
