"""The page of decodings, claims, explored distributions, rewritings and attacks."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from opened import Page, details

from canned_runs import HOSTILE, REWRITINGS, SECRET, rewritten_benchmark, rewritten_engine
from leakbound.errors import IncompleteError
from leakbound.evaluation import evaluate
from leakbound.presenting.questions import leaking_most, searched_leakage, way_of
from leakbound.presenting.table import interval
from leakbound.presenting.view import View, read_view
from leakbound.reporting.page import render
from leakbound.scorers import make_scorer
from leakbound.store import Run
from leakbound.store.inputs import read_attack_queries
from leakbound.study import Rewritings
from report_runs import bound

pytestmark = pytest.mark.slow
KEYWORD = make_scorer("keyword")


@pytest.fixture(scope="module")
def view(rewritten: dict[str, Run]) -> View:
    return read_view(rewritten)


@pytest.fixture(scope="module")
def page(view: View) -> Page:
    return Page(render(view))


def test_the_queries_that_leak_most_come_with_what_leaked(view: View, page: Page) -> None:
    leaking = leaking_most(view.reworded[0])
    worst = leaking["keyword"]
    ends = [leakage.lower for _, leakage, _ in worst]
    assert ends == sorted(ends, reverse=True)
    assert {query.id for query, *_ in worst[:2]} == {"author-00~00", "author-01~00"}
    for _, leakage, (leaked,) in worst:  # the other answer does not leak
        assert leaked.count == round((leakage.value or 0) * leakage.n)
        assert SECRET in str(leaked.text)
    query, _, (leaked,) = worst[0]
    assert query.text in page.body
    assert f"{leaked.text} ({leaked.count}×)" in page.body
    *_, both = leaking["rouge-l-recall"][0]
    assert [text.scores[1] for text in both] == sorted((t.scores[1] for t in both), reverse=True)
    assert len(both) == 2


def test_an_attack_has_its_fresh_bounds(view: View, page: Page, rewritten: dict[str, Run]) -> None:
    run = rewritten["forgot"]
    stored = read_attack_queries(run.path)
    assert stored is not None
    assert len(view.attacks) == len(stored) == 3
    for row, got in zip(view.attacks, stored, strict=True):
        fresh = bound(run, got.query.prompt_id, arm=str(got.arm))
        assert searched_leakage(row, KEYWORD) == fresh
        assert row[1] == got
        assert got.query.text in page.body
        assert interval(fresh) in page.body.replace("\N{NO-BREAK SPACE}", " ")
        changed = bool(got.query.prefix or got.shots or got.query.source != "original")
        assert (way_of(*row) == f"original question, {got.decoding.name}") == (not changed)
        assert got.query.prefix in way_of(*row)
        assert way_of(*row) in page.body
    assert any(got.query.prefix for got in stored)


def test_the_page_is_well_formed_and_hostile_rewritings_stay_text(page: Page, view: View) -> None:
    page.require_well_formed()
    assert not page.named("b")
    leaking = leaking_most(view.reworded[0])["keyword"]
    assert any(HOSTILE in query.text for query, *_ in leaking)
    assert HOSTILE in page.body


def test_redaction_covers_every_text(rewritten: dict[str, Run], explored: dict[str, Run]) -> None:
    view = read_view(rewritten, redact=True)
    assert {(q.answer, q.keywords) for q in view.questions} == {(None, ())}
    page = render(view)
    html = unescape(page) + details(page).body
    assert SECRET not in html
    assert "withheld" in html
    whole = read_view(rewritten, redact=False)
    assert SECRET in details(render(whole)).body
    assert "secretp0" not in render(read_view(explored, redact=True))
    assert not any(text.partition(" the novel")[0] in html for text in REWRITINGS)
    assert "So 1:" not in html
    worst = [shown for queries in leaking_most(view.reworded[0]).values() for shown in queries]
    assert {text.text for *_, examples in worst for text in examples} == {None}
    got = read_attack_queries(rewritten["forgot"].path) or ()
    openers = [one.query.prefix for one in got if one.query.prefix]
    assert openers
    assert not any(opener in html for opener in openers)
    bare = render(read_view(rewritten, redact="questions"))
    questions = [query.text for query in rewritten["forgot"].queries]
    assert not any(text in unescape(bare) + details(bare).body for text in questions)


def test_a_failed_query_leaves_its_question_out(tmp_path: Path) -> None:
    engine, task = rewritten_engine("half", 0.1), rewritten_benchmark()
    engine.texts = {query: law for query, law in engine.texts.items() if query != "author-00~01"}
    with pytest.raises(IncompleteError):
        evaluate(engine, task, out=tmp_path / "run", n=64, rewritings=Rewritings("benchmark"))
    view = read_view({"half": Run.open(tmp_path / "run")})
    (model,) = view.reworded
    wanted = {q.id for q in view.questions if model.leakage(KEYWORD, q.id, scope="question")}
    assert wanted == {"author-01", "author-02"}
    assert model.leakage(KEYWORD, scope="mean") is None
    assert "half: 1 queries could not be sampled." in Page(render(view)).body
