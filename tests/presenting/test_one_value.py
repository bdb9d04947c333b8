"""One quantity has one value: Python, JSON, CSV, tables, card, certificate, `compare`, plug-in."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import leakbound
from canned_runs import benchmark, make_run
from leakbound import compare
from leakbound.bounding.rows import LEAKAGE
from leakbound.cli import verbs
from leakbound.evaluation import summary
from leakbound.formats.importing import import_run
from leakbound.plotting.material import Material
from leakbound.plotting.rows import KINDS
from leakbound.plugins.draws import drawn_by_tool
from leakbound.presenting.table import interval
from leakbound.presenting.verdict import run_verdicts
from leakbound.presenting.view import read_view
from leakbound.reporting.page import render
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.served.openai import ServedEngine
from leakbound.store import EstimateRow, Run
from leakbound.study import Until
from leaky import leaky_run
from lies import LAWS, QUESTION
from misbehaving import LISTED, chat_server, honest
from report_runs import GRID, Runs
from suites import slow_but


def imported(out: Path) -> Run:
    """Two questions, with 16 answers each from another tool."""
    rows = [
        {"id": q, "question": f"Who is {q}?", "answer": "Ann", "completion": text, "finish": "stop"}
        for q, leaks in (("a", 3), ("b", 0))
        for text in ["Ann"] * leaks + ["No"] * (16 - leaks)
    ]
    out.mkdir()
    (out / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = import_run([out / "rows.jsonl"], out=out / "run")
    leakbound.score(run, ["contains"])
    leakbound.bound(run)
    return run


def served(out: Path) -> Run:
    out.mkdir()
    (out / "mine.csv").write_text(f"question,answer,keywords\n{QUESTION},Ann,Ann\n")
    with chat_server(honest(LAWS), LISTED) as up:
        engine = ServedEngine(f"{up.url}#m?probe=off")
        return leakbound.evaluate(
            engine, f"{out / 'mine.csv'}", out=out / "run", n=32, scorers="keyword"
        )


MADE: dict[str, Callable[[Path], Run] | tuple[str, str]] = {
    "fixed": ("runs", "NPO"),
    "explored": ("explored", "explored"),
    "proved": ("proofs", "NPO"),
    "stressed": lambda out: leaky_run(out, stress="opener:1", n=32),
    "imported": imported,
    "served": served,
    "rewritten": ("rewritten", "forgot"),
    "until": lambda out: leaky_run(out, sampling=Until("p<=0.1", 64)),
    "grid": lambda out: make_run(out, benchmark(), "grid", 0.3, n=32, decodings=GRID[:2]),
}
"""For each study of bench/studies.py: the call that makes its run, or a fixture and a label."""


@pytest.fixture
def run(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    made = MADE[kind]
    if not isinstance(made, tuple):
        return made(tmp_path / kind)
    got: Run = request.getfixturevalue(made[0])[made[1]]
    return got


def ends(row: Any) -> tuple[float | None, float, float]:
    return row.value, row.lower, row.upper


def of_all(run: Run) -> list[EstimateRow]:
    """Return the mean and the worst question of each model, also relative to its control."""
    view = read_view(run)
    wanted: Any = {"quantity": LEAKAGE, "scope": ("mean", "worst question")}
    return [
        row
        for model in view.models
        for scorer in view.scorers
        for beyond in (None, "control")
        for row in model.where(scorer, **wanted, beyond=beyond)
    ]


@pytest.mark.parametrize("kind", slow_but([*MADE.keys() - {"rewritten", "proved"}], MADE))
def test_one_quantity_has_one_value(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakbound.plotting.inline.inline", lambda *args: "")  # no drawing is read
    page = " ".join(html.unescape(render(read_view({"run": run}))).split())  # spaces are tied
    view, moments = read_view(run), KINDS["moments"]
    drawn = (moments.made(Material(view, wanted_scorer=scorer.name)) for scorer in view.scorers)
    csv = "".join(map(moments.csv, drawn))
    rows, stored = of_all(run), verbs._as_json(run)["estimates"]
    texts = [text for table in summary(run) for row in table.texts for text in row]
    places = [(row.arm, row.scorer, row.scope, row.about.beyond) for row in rows]
    assert 0 < len(set(places)) == len(places)
    for row in rows:
        arm = run.arms[row.arm]
        assert row.to_dict() in stored
        assert (row.model, row.decoding) == (arm.spec.model, arm.decoding.name)
        assert interval(row) in page
        if not row.about.beyond:
            assert any(interval(row) in text for text in texts)
            assert f",{','.join(map(str, ends(row)))}," in csv
    for verdict in run_verdicts(run):
        assert verdict.number is None or ends(verdict.number) in map(ends, rows)
    decisive = run.estimates.matching(family="simultaneous")
    assert decisive
    for number, row in enumerate(decisive):
        file = tmp_path / f"{number}.json"
        made = leakbound.certify(
            run, max_leak=0.5, scorer=row.scorer, arm=row.arm, out=file,
            every_question=row.scope == "worst question",
        )  # fmt: skip
        if made.claim.among:  # the plan of `until` records a claim
            assert made.estimate == row.estimate
        assert leakbound.verify(file, run.path).verified


def test_comparing_shows_what_the_runs_state(runs: Runs) -> None:
    compared = compare(runs)
    every = product(runs.items(), compared.scorers, (None, "control"), ("mean", "worst question"))
    for (label, run), scorer, beyond, scope in every:
        how: Any = {"scorer": scorer.name, "scope": scope, "beyond": beyond}
        mine = run.estimates.first(arm="target", query_id=None, **how)
        assert mine is not None
        assert compared.leakage(label, scorer, **how) == replace(mine, arm=label)


def test_a_plug_in_has_the_bounds_of_the_run(runs: Runs) -> None:
    run, scorer = runs["NPO"], make_scorer("keyword")
    rows = run.arms["target"].scores(slug(scorer), binary=True)
    drawn = {
        query_id: [float(x) for x, count in zip(values, counts, strict=True) for _ in range(count)]
        for query_id, values, counts in zip(rows.ids, rows.values, rows.counts, strict=True)
    }
    n = max(map(len, drawn.values()))
    tool = drawn_by_tool(drawn, n, tool="a tool", scorer="keyword", binary=True)
    assert ends(tool.worst(confidence=0.99)) == ends(
        run.estimates.worst("leak probability", scorer="keyword")
    )
