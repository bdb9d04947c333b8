"""The page as a reader and as a browser gets it, from runs that the real pipeline made."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from opened import details, question, shown

from canned_runs import HOSTILE, SCORERS, SECRET, CannedEngine, benchmark, laws, make_run
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import evaluate
from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views import grids
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import Table, interval
from leakbound.evaluation.views.verdict import verdicts
from leakbound.evaluation.views.words import model_name, named
from leakbound.reporting import write_report
from leakbound.reporting.page import TERMS, render, terms_of
from leakbound.store import Run
from leakbound.text.figures import tied
from leakbound.types import Decoding

VOID = {"meta", "input", "path", "circle", "rect", "polygon", "polyline"}


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: Counter[str] = Counter()
        self.body = ""
        self._open: list[str] = []
        self.unclosed: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in ("script", "style"):
            self.body += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html(runs: dict[str, Run]) -> str:
    table = Table.plain("Training & cost", ("model", "minutes"), [("<full>", "3")], "On a laptop.")
    return render(read_view(runs), title="Leaks & <bounds>", more=[table])


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_the_page_asks_for_nothing(page: Page, html: str) -> None:
    named = html.replace('"http://www.w3.org/2000/svg"', "")  # a name, not an address
    assert not re.search(r"https?:|url\(|@import|src=", named)
    assert not page.named("link")
    assert not page.named("img")
    targets = [a["href"] or "" for a in page.named("a")]
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert any("default-src 'none'" in (m.get("content") or "") for m in page.named("meta"))


def test_hostile_text_stays_text(page: Page, html: str) -> None:
    assert [s.get("type") for s in page.named("script")] == ["text/plain", None]
    assert not page.named("b")
    assert "<script>alert" not in html
    assert HOSTILE in shown(html)
    assert "<em>of the & series</em>" in page.body
    assert "Leaks & <bounds>" in page.body
    assert "<full>" in page.body


def test_the_page_is_well_formed(page: Page) -> None:
    assert not page.unclosed
    assert not [i for i, n in Counter(a.get("id") for _, a in page.elements).items() if i and n > 1]
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert all((a["href"] or "")[1:] in ids for a in page.named("a"))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_question_and_answer_is_there(page: Page, html: str, runs: dict[str, Run]) -> None:
    questions = [a for a in page.named("tr") if a.get("class") == "question"]
    assert len(questions) == len(runs["full"].queries) * len(runs["full"].estimates.scorers)
    for number, prompt in enumerate(runs["full"].prompts, 1):
        assert prompt.question in page.body
        assert question(html, number)["text"] == prompt.question
        assert question(html, number)["answer"] == str(prompt.answer)


def test_the_numbers_are_the_estimates(page: Page, runs: dict[str, Run]) -> None:
    shown = {
        float(value)
        for tag, attributes in page.elements
        if tag == "td" and (value := attributes.get("data-value"))
    }
    for run in runs.values():
        for quantity in (*LEAKAGE, "greedy score"):
            for row in run.estimates.plain(quantity=quantity, scope=("query", "mean")):
                assert row.value in shown, row


def test_the_card_of_each_target_stands_before_all_else(page: Page, runs: dict[str, Run]) -> None:
    first = page.body.partition("greedy answer\n")[0].replace("\N{NO-BREAK SPACE}", " ")
    for found in verdicts(read_view(runs)):
        assert found.number is not None
        for line in (found.model, found.word, found.where, interval(found.number), found.sure):
            assert line in first
        assert found.example is not None
        assert str(found.example.leak) in first
    assert len([a for a in page.named("span") if "word" in str(a.get("class")).split()]) == 2
    assert "sampled at T=1" not in page.body  # no paragraph says it all again


def test_what_a_certificate_says_stands_on_its_runs_card(runs: dict[str, Run]) -> None:
    html = render(read_view(runs), certificates={"NPO": "certificate.json: pass, p<=1"})
    assert html.count("certificate.json: pass, p&lt;=1") == 1
    cards = html.partition('class="verdicts')[2].partition("</ol>")[0].split("<li")
    assert "certificate.json" in cards[2]


def test_words_in_headings_are_explained_below_their_table(page: Page) -> None:
    assert len(terms_of(["leak@8", "ED, mean"])) == len(TERMS)
    for meant in TERMS.values():
        assert page.body.count(meant) == len(SCORERS)  # once a table of models
    assert "which may exceed 1" in page.body


def test_times_and_costs_come_last(html: str) -> None:
    """And what another table of the caller says."""
    order = [html.index(text) for text in ('id="reading"', 'id="cost"', "Training &amp; cost")]
    assert order == sorted(order)
    assert html.index("Prefix saving") > order[1]


def test_a_control_stands_once_beside_both(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    assert [m.label for m in view.models] == ["full", "NPO", "control"]
    assert [m.control for m in view.models] == ["control", "control", None]
    assert [m.is_control for m in view.models] == [False, False, True]


def test_a_control_that_is_a_run_of_its_own_is_not_shown_twice(runs: dict[str, Run]) -> None:
    control = Run.open(runs["full"].path.parent / "control")
    view = read_view({**runs, "never saw it": control})
    assert [m.label for m in view.models] == ["full", "NPO", "never saw it"]
    assert view.models[0].control == "never saw it"


def test_redaction_leaves_no_secret(runs: dict[str, Run], tmp_path: Path) -> None:
    out = write_report(runs, tmp_path / "report.html", redact=True)
    html = out.read_text(encoding="utf-8")
    for read in (html, json.dumps(details(html))):
        assert SECRET not in read
        assert "Quill" not in read
        assert "other people" not in read
    assert "withheld" in html
    assert {(q.answer, q.keywords) for q in read_view(runs, redact=True).questions} == {(None, ())}
    assert SECRET in shown(write_report(runs, out).read_text(encoding="utf-8"))


def test_failures_are_listed_and_no_claim_is_made(tmp_path: Path) -> None:
    task = benchmark()
    known = {k: v for k, v in laws(task, 0.5).items() if k != "author-01"}
    with pytest.raises(IncompleteError):
        evaluate(CannedEngine("half", known), task, out=tmp_path / "run", n=64)
    runs = {"half": Run.open(tmp_path / "run")}
    html = render(read_view(runs))
    body = Page(html).body
    assert re.search(r"NO VERDICT\s+1 question could not be sampled", body)
    assert "1 of 3 questions could not be sampled, and no statement" in body
    assert "author-01 (NaN logits" in body
    assert "Not sampled: NaN logits" in shown(html)
    redacted = render(read_view(runs, redact=True))
    assert SECRET not in redacted + shown(redacted)


def test_several_decodings_are_told_apart(tmp_path: Path) -> None:
    decodings = [Decoding(temperature=t) for t in (0.5, 1.0)]
    run = make_run(tmp_path / "run", benchmark(1), "grid", 0.5, n=32, decodings=decodings)
    labels = [model.label for model in read_view({"full": run}).models]
    assert labels == ["full, T=0.5", "full, T=1"]


def test_runs_that_cannot_be_compared_are_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one run"):
        read_view({})
    other = make_run(tmp_path / "other", benchmark(1), "other", 0.5, n=32)
    with pytest.raises(MixError, match="'other' asked"):
        read_view({**runs, "other": other})
    loose = make_run(tmp_path / "loose", benchmark(), "loose", 0.5, n=32, confidence=0.9)
    with pytest.raises(MixError, match="confidence"):
        read_view({**runs, "loose": loose})


def test_the_page_names_its_model(runs: dict[str, Run]) -> None:
    alone = render(read_view({"full": runs["full"]}))
    for tag in ("title", "h1"):
        assert f"<{tag}>What CannedEngine still leaks</{tag}>" in alone
    view = read_view(runs)
    models = tuple(
        replace(model, facts={**model.facts, "model": f"/models/{model.label}"})
        for model in view.models
    )
    page = render(replace(view, models=models))
    assert "<title>What full and NPO still leak</title>" in page
    hub = replace(view.models[0], facts={"model": "org/model-1b"})
    assert (model_name(hub), named(hub)) == ("org/model-1b", "full (org/model-1b)")
    assert named(models[0]) == "full"
    assert "<title>mine</title>" in render(view, title="mine")


def test_the_search_says_what_it_searches(page: Page, runs: dict[str, Run]) -> None:
    assert "Find in questions and in the texts shown" in page.body
    assert "at most 16 of them; what is not shown is not searched either" in page.body


def test_what_drawing_took_is_a_table_of_its_own(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    shown = grids.cost_grid(view)
    assert [row[1].value for row in shown.rows] == [m.usage.draws for m in view.models]
    assert "Draws" not in grids.summary_grid(view, view.scorers[0]).columns
    assert "What the draws took" in render(view)


def test_figures_on_the_page_stay_in_one_piece() -> None:
    """Only between their own parts: a line of other words breaks where it may."""
    space = "\N{NO-BREAK SPACE}"
    assert tied("0.500 [0.499, 0.501]") == f"0.500 [0.499,{space}0.501]"
    assert tied("0.1 (≤ 0.2) at 99 % of 3, and [so on]") == (
        f"0.1 (≤{space}0.2) at 99{space}% of 3, and [so on]"
    )
