"""The page as a reader and a browser see it, and the details of its questions."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from opened import Page, charts, details, question

from canned_runs import (
    HOSTILE,
    HOSTILE_TEXTS,
    LONG,
    SECRET,
    CannedEngine,
    benchmark,
    hostile_benchmark,
    laws,
)
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import evaluate
from leakbound.presenting import verdict
from leakbound.presenting.sentences import MOST_CHARACTERS, MOST_OTHER
from leakbound.presenting.table import interval
from leakbound.presenting.verdict import verdicts
from leakbound.presenting.view import View, read_view
from leakbound.reporting.details import unpacked
from leakbound.reporting.page import picture, render
from leakbound.store import Run
from leakbound.text.shown import visible


def test_the_page_requests_nothing(page: Page, html: str) -> None:
    for read in (html, unpacked(html)):
        named = read.replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
        assert not re.search(r"https?:|url\(|@import|src=", named)
    assert not page.named("link")
    assert not page.named("img")
    targets = [a["href"] or "" for a in page.named("a")]
    assert targets
    assert all(target.startswith(("#", "data:text/csv;")) for target in targets)
    assert any("default-src 'none'" in (m.get("content") or "") for m in page.named("meta"))


def test_the_page_is_well_formed_and_every_text_is_text(page: Page, html: str) -> None:
    page.require_well_formed()
    assert not details(html).unclosed
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert HOSTILE in details(html).body
    for text in ("<em>of the & series</em>", "Leaks & <bounds>", "<full>"):
        assert text in page.body


def test_every_question_and_answer_is_there(page: Page, html: str, runs: dict[str, Run]) -> None:
    questions = page.named("tr", "question")
    assert len(questions) == len(runs["full"].queries) * len(runs["full"].estimates.scorers)
    for number, prompt in enumerate(runs["full"].prompts, 1):
        assert prompt.question in page.body
        opened = question(html, number).body
        assert f"question{prompt.question}true answer{prompt.answer}" in opened
    assert "Find in questions and in the texts shown" in page.body
    assert "up to 8 other completions with the highest scores by" in page.body


@pytest.mark.usefixtures("undrawn")
def test_each_card_comes_first(page: Page, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    first = page.body.partition("by question (keyword)")[0].replace("\N{NO-BREAK SPACE}", " ")
    for got in verdicts(view):
        assert got.number is not None
        assert got.example is not None
        for line in (got.model, got.word, got.where, interval(got.number), got.sure):
            assert line in first
        assert str(got.example.leak) in first
    assert len([a for a in page.named("span") if "word" in str(a.get("class")).split()]) == 2
    assert "no control" not in first.lower()
    assert "sampled at T=1" not in page.body  # no paragraph repeats it
    monkeypatch.setattr(verdict, "certificate", lambda run: f"certificate of <{run.path.name}>")
    html = render(view)
    assert html.count("certificate of &lt;npo&gt;") == 1
    cards = html.partition('class="verdicts')[2].partition("</ol>")[0].split("<li")
    assert "certificate of &lt;npo&gt;" in cards[2]


def test_a_control_of_two_runs_is_listed_once(runs: dict[str, Run], view: View) -> None:
    assert [m.label for m in view.models] == ["full", "NPO", "control"]
    assert [m.control for m in view.models] == ["control", "control", None]
    assert [m.is_control for m in view.models] == [False, False, True]
    control = Run.open(runs["full"].path.parent / "control")
    whole = read_view({**runs, "never saw it": control})
    assert [m.label for m in whole.models] == ["full", "NPO", "never saw it"]
    assert whole.models[0].control == "never saw it"


@pytest.mark.usefixtures("undrawn")
def test_failures_are_listed_and_no_claim_is_made(tmp_path: Path) -> None:
    task = benchmark()
    known = {k: v for k, v in laws(task, 0.5).items() if k != "author-01"}
    with pytest.raises(IncompleteError):
        evaluate(CannedEngine("half", known), task, out=tmp_path / "run", n=64)
    runs = {"half": Run.open(tmp_path / "run")}
    html = render(read_view(runs))
    body = Page(html).body
    assert re.search(r"NO VERDICT\s+1 question could not be sampled", body)
    assert "1 of 3 questions could not be sampled, so the report makes no statement" in body
    assert "author-01 (NaN logits" in body
    assert "Not sampled: NaN logits" in details(html).body
    redacted = render(read_view(runs, redact=True))
    assert SECRET not in redacted + unpacked(redacted)


def test_refused_views(runs: dict[str, Run], explored: dict[str, Run]) -> None:
    with pytest.raises(InputError, match="at least one run"):
        read_view({})
    with pytest.raises(MixError, match="'explored' is on"):
        read_view(runs | explored)


@pytest.fixture(scope="module")
def swollen(hostile: dict[str, Run]) -> str:
    """A page of texts that try to run, request, control or enlarge something."""
    return render(read_view(hostile))


def test_hostile_texts_are_no_markup_and_steer_nothing(swollen: str) -> None:
    page = Page(swollen)
    assert [each.get("type") for each in page.named("script")] == ["text/plain", None]
    packed = re.findall(r'id="details">([^<]*)<', swollen)
    assert [re.sub(r"[A-Za-z0-9+/=]", "", each) for each in packed] == [""]
    assert not details(swollen).named("script")
    for read in (page, details(swollen)):
        assert not any(read.named(tag) for tag in ("img", "iframe", "b", "svg onload"))
        assert not any(n.startswith("on") for _, attributes in read.elements for n in attributes)
    for text in (swollen, unpacked(swollen), *map(str, charts(swollen).values())):
        assert visible(text) == text
        assert not re.search("[\x00\u2028\u202e]", text)


def test_a_long_text_is_cut_and_its_length_stated(swollen: str, hostile: dict[str, Run]) -> None:
    for number, prompt in enumerate(hostile_benchmark().prompts, 1):
        for text in (prompt.question, str(prompt.answer)):
            cut = len(text) - MOST_OTHER
            says = f"{text[:MOST_OTHER]}… ({cut:,} more characters)" if cut > 0 else text
            assert visible(says) in question(swollen, number).body
    shown = details(swollen).body
    for text in HOSTILE_TEXTS:
        assert visible(text[:MOST_CHARACTERS]) in shown
    assert f"… ({len(f'No: {LONG}') - MOST_CHARACTERS:,} more characters)" in shown
    assert len(LONG) > 1_000_000
    assert len(swollen) < 500_000
    assert len(picture(hostile).svg) < 100_000


def test_a_question_opens_to_its_bounds_and_leaking_words(view: View, html: str) -> None:
    shown = question(html, 2).body.replace("\N{NO-BREAK SPACE}", " ")
    for scorer in view.scorers:
        for row in view.models[0].where(scorer, "author-01", quantity=("leak@k", "tail")):
            name = "leak@{:,.0f}" if row.quantity == "leak@k" else "Pr[X > {:g}]"
            assert f"{name.format(row.parameter)} {interval(row)}" in shown
    marks = re.findall("<mark>([^<]*)</mark>", unpacked(html).split('<div class="detail">')[1])
    assert set(marks) == {"Ossian Quill"}
