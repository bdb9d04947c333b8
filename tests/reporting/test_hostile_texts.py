"""Texts that would run, ask, steer or swell a page: in questions, completions and names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from opened import details, question, shown
from test_report_page import Page

from canned_runs import HOSTILE_TEXTS, LONG, hostile_benchmark, hostile_runs
from leakbound.evaluation.views.words import MOST_ASKED, MOST_CHARACTERS
from leakbound.reporting import picture, write_report
from leakbound.store import Run
from leakbound.text.shown import visible


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return hostile_runs(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def html(runs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory) -> str:
    page = write_report(runs, tmp_path_factory.mktemp("page") / "report.html")
    return page.read_text(encoding="utf-8")


def test_nothing_in_them_is_markup(html: str) -> None:
    page = Page(html)
    assert [each.get("type") for each in page.named("script")] == ["text/plain", None]
    assert not any(page.named(tag) for tag in ("img", "iframe", "b", "svg onload"))
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    packed = re.findall(r'id="details">([^<]*)<', html)
    assert [re.sub(r"[A-Za-z0-9+/=]", "", each) for each in packed] == [""]


def test_none_of_their_characters_steers(html: str) -> None:
    for text in (html, shown(html), json.dumps(details(html), ensure_ascii=False)):
        assert visible(text) == text
        assert not re.search("[\x00\u2028\u202e]", text)


def test_each_is_shown_or_cut_with_its_length_said(html: str) -> None:
    task = hostile_benchmark()
    for number, prompt in enumerate(task.prompts, 1):
        opened = question(html, number)
        for text, read in ((prompt.question, opened["text"]), (prompt.answer, opened["answer"])):
            whole = str(text)
            cut = len(whole) - MOST_ASKED
            says = f"{whole[:MOST_ASKED]}… ({cut:,} more characters)" if cut > 0 else whole
            assert read == visible(says)
    said = shown(html)
    for text in HOSTILE_TEXTS:
        assert visible(text[:MOST_CHARACTERS]) in said
    completion = f"No: {LONG}"
    assert f"… ({len(completion) - MOST_CHARACTERS:,} more characters)" in said


def test_a_page_of_endless_texts_is_small(html: str, runs: dict[str, Run]) -> None:
    assert len(LONG) > 1_000_000
    assert len(html) < 500_000
    assert len(picture(runs).svg) < 100_000


def test_redaction_holds_for_them(runs: dict[str, Run], tmp_path: Path) -> None:
    page = write_report(runs, tmp_path / "page.html", redact=True).read_text(encoding="utf-8")
    assert "answers so" not in page + json.dumps(details(page))
