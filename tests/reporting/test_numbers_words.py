"""Numbers agree with their words on a page: 0, 1 and many."""

from __future__ import annotations

import re
from pathlib import Path

from canned_runs import benchmark, make_run
from opened import details
from test_report_page import Page

from leakbound.evaluation.views import words
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.words import clipped
from leakbound.reporting.page import render
from leakbound.store import Run
from leakbound.text.figures import many


def disagreeing(text: str) -> list[str]:
    """Plurals that 1 stands before."""
    nouns = "questions|draws|times|prefixes|completions|queries|models|scorers|characters|tokens"
    return re.findall(rf"(?<![\d.,@])1 (?:more )?(?:distinct )?(?:{nouns})\b", text)


def test_counts_agree() -> None:
    assert [many(n, "draw") for n in (0, 1, 2, 1000)] == [
        "0 draws", "1 draw", "2 draws", "1,000 draws"
    ]  # fmt: skip
    assert clipped("abc", 2) == "ab… (1 more character)"


def test_a_page_of_one_question_and_one_draw_has_no_plural_of_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", benchmark(1), "full", 0.9, n=1)
    html = render(read_view({"full": run}))
    said = Page(html).body + str(details(html))
    assert "1 question" in said
    assert "1 draw of every question" in said
    assert disagreeing(said.replace("\N{NO-BREAK SPACE}", " ")) == []


def test_someone_who_needs_one_try_asks_once(proved: dict[str, Run]) -> None:
    view = read_view(proved)
    said = words.proved(view, view.models[0], view.scorers[0])
    assert "who asks once gets the former" in said
    assert "1 times" not in said
