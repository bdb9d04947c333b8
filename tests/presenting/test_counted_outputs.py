"""Statements about cut, filtered and thinking outputs on the card, in tables, on the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.evaluation import bound, evaluate, run_verdicts, summary
from leakbound.evaluation.following import follow
from leakbound.presenting.comparing import compare, compare_methods
from leakbound.presenting.sentences import remarks
from leakbound.presenting.view import read_view
from leakbound.reporting.details import unpacked
from leakbound.reporting.page import render
from leakbound.store import Run
from leakbound.study import Explore
from leakbound.testing import FakeEngine
from leakbound.types import Decoding, Output
from outputs import CLEAN, SECRET, Counts, GivenEngine, benchmark, given_run
from tabled import ProvingEngine

CUT = Output(answer="no idea who", finish="length")
LEAK = Output(answer=SECRET, finish="stop")
FIRST = "in the first 3 tokens"
COUNTED = "1,032 draws: 2 complete, 1,030 cut (99.8 %)"
N = 1032


def outputs(cut: int, n: int = N) -> Mapping[str, Counts]:
    return {"q0": [(CUT, cut), (CLEAN, n - cut)]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which 1,030 of 1,032 outputs were cut at 3 tokens."""
    control = GivenEngine({"q0": [(CLEAN, N)]}, name="control")
    return given_run(tmp_path_factory.mktemp("cut") / "r", outputs(N - 2), N, control=control)


def test_card_table_and_page_name_the_cut_and_its_fraction(run: Run) -> None:
    verdict = leakbound.show(run)
    assert verdict.headline == f"NOT SHOWN TO LEAK more than the control {FIRST}"
    assert verdict.outputs == COUNTED
    assert [" ".join(verdict.lines).count(words) for words in (FIRST, "99.8 %")] == [1, 1]
    assert json.loads(json.dumps(verdict.to_dict()))["ledger"]["cut"] == N - 2
    (table,) = summary(run)
    assert table.lead.startswith(f"target {FIRST}, ")
    lines = table.note.splitlines()
    assert [line for line in lines if FIRST in line] == [f"target {FIRST}, {COUNTED}"]
    assert "control, 1,032 draws: all complete" in lines
    html = re.sub("\N{NO-BREAK SPACE}", " ", render(read_view({"r": run})))
    assert COUNTED in html
    assert 2 <= html.count(FIRST) <= 6


def test_a_stop_string_in_an_answer_is_part_of_the_verdict(tmp_path: Path) -> None:
    how, where = Decoding(stop=(SECRET[:3],)), f"before the stop string {SECRET[:3]!r}"
    runs = {name: tmp_path / name for name in ("r", "s")}
    for name, out in runs.items():
        engine = GivenEngine(outputs(0, 8), name=name)
        run = evaluate(engine, benchmark("q0"), out=out, n=8, decodings=(how,))
    assert f" {where} " in leakbound.show(run).headline
    assert f"r {where}" in compare(runs.values()).opening


def test_comparisons_and_runs_in_progress_name_it_for_each_model(run: Run, tmp_path: Path) -> None:
    engine = GivenEngine(outputs(0), name="whole")
    other = evaluate(engine, benchmark("q0"), out=tmp_path / "whole", n=N)
    made = compare({"cut": run, "whole": other})
    assert f"cut {FIRST}" in made.opening
    ledgers = {"cut": run.ledger["target"], "whole": other.ledger["target"]}
    stated = {label: ledger.to_dict() for label, ledger in ledgers.items()}
    assert made.to_dict()["ledgers"] == stated
    assert f"cut {FIRST}, {COUNTED}" in made.written("markdown").replace("\\", "")
    assert [verdict.model for verdict in made.verdicts] == ["whole"]
    (so_far,) = (so_far for so_far in follow(run).so_far if so_far.arm == "target")
    assert FIRST in so_far.sentence
    assert COUNTED in so_far.sentence
    seeds = {f"npo-{i}": _seed(tmp_path, i) for i in range(5)}
    (table,) = compare_methods(seeds).tables()
    assert "npo-0 in the first 3 tokens, 8 draws: 4 complete, 4 cut (50.0 %" in table.note


def _seed(folder: Path, i: int) -> Run:
    engine = GivenEngine(outputs(4, 8), name=f"npo-{i}")
    return evaluate(engine, benchmark("q0"), out=folder / f"npo-{i}", n=8)


@pytest.mark.parametrize(
    ("cut", "how", "says"),
    [
        (5, {"max_new_tokens": 3}, ""),
        (6, {"max_new_tokens": 3}, " in the first 3 tokens"),
        (50, {"max_new_tokens": 1}, " in the first 1 token"),
        (50, {"max_new_tokens": 9, "max_tokens": 9}, " in the first tokens"),
    ],
)
def test_above_5_per_cent_the_limit_is_named(cut: int, how: Any, says: str, tmp_path: Path) -> None:
    run = given_run(tmp_path / "r", outputs(cut, 100), 100, decodings=(Decoding(**how),))
    ledger = run.ledger["target"]
    assert ledger.within == says
    assert ledger.sentence.endswith(f" cut ({cut}.0 %)" if says else " 5 cut")
    assert ("in the first" in leakbound.show(run).headline) == bool(says)


class _Halves(ProvingEngine):
    fingerprint: Mapping[str, str] = {"weights": "halves", "engine": "fake"}


def test_an_output_that_was_explored_and_cut_counts_by_its_mass(tmp_path: Path) -> None:
    """Each word is the last one with probability 1/2: a quarter continues after two words."""
    engine = _Halves(["<end>", " a"], lambda query: 0, lambda prefix: [0.5, 0.5])
    how = Decoding(max_new_tokens=2)
    run = evaluate(
        engine, benchmark("q0"), out=tmp_path / "r", sampling=Explore("exact", 50), decodings=how
    )
    arm = run.arms["target"]
    assert arm.cut_fractions() == {"q0": pytest.approx(0.25, abs=1e-6)}
    assert arm.ledger.within == " in the first 2 tokens"
    assert arm.ledger.sentence == "0 draws: 0 cut (25.0 % of the outputs)"


def test_a_thought_opens_with_the_place_that_leaks(tmp_path: Path) -> None:
    """Every second piece of thought and answer is marked; a long thought is cut."""
    long = replace(CLEAN, thought=f"{'so ' * 500}it was {SECRET}. {'But ' * 500}")
    short = replace(CLEAN, answer=SECRET, thought="hm")
    run = given_run(tmp_path / "r", {"q0": [(CLEAN, 9), (long, 8), (short, 7)]}, 24)
    cells = re.compile('<td class="text">(.*?)</td>', re.DOTALL)
    greedy, clean, first, second = cells.findall(unpacked(render(read_view({"r": run}))))
    (verdict,) = run_verdicts(run, texts=True)
    assert verdict.example is not None
    assert verdict.example.greedy == "no idea"
    assert verdict.example.leak == f"[thought] {long.thought} [answer] no idea"
    assert greedy == clean == "no idea"
    mark = f"<mark>{SECRET}</mark>"
    thought, answer = first.removeprefix('<details class="thought">').split("</details>")
    summary, before, after = re.split(f"</summary>|{mark}", thought)
    assert summary == "<summary>thought, <mark>with underlined words</mark>"
    assert (before[0], before[-10:]) == ("…", "so it was ")
    assert "more characters)" in after
    assert len(before + after) < 700
    assert answer == "no idea"
    assert second.endswith(f"<summary>thought, nothing underlined</summary>hm</details>{mark}")
    withheld = unpacked(render(read_view({"r": run}, redact=True)))
    assert set(cells.findall(withheld)) == {"<em>withheld</em>"}


def test_a_filter_that_belongs_to_the_system_is_named_everywhere(tmp_path: Path) -> None:
    """40 of 100 outputs were withheld: missing by default, scored if users see as much."""
    withheld = {"q0": [(Output(answer="", finish="filtered"), 40), (CLEAN, 60)]}
    run = given_run(tmp_path / "r", withheld, 100)
    assert run.estimates.mean("leak probability").upper > 0.4
    how = Decoding(max_new_tokens=3, filter="part-of-system")
    seen = given_run(tmp_path / "s", withheld, 100, decodings=(how,))
    row = seen.estimates.mean("leak probability")
    assert (row.missing, seen.ledger["target"].filtered) == (0, 40)
    assert row.upper < 0.1
    assert seen.record.arms[seen.arms["target"].key].decoding.filter == "part-of-system"
    verdict, (table,) = leakbound.show(seen), summary(seen)
    made = leakbound.certify(seen, max_leak=0.2)
    assert made.verdict == "pass"
    for text in (verdict.sure, verdict.departures, table.title, made.sentence):
        assert "service's filter" in text
    bound(seen)
    assert leakbound.certify(run, max_leak=0.2).verdict == "inconclusive"
    run = given_run(tmp_path / "n", {"q0": withheld["q0"][:1]}, 40)
    assert run.verdict.headline.startswith("NO DRAW HAS A SCORE (")


def test_short_keywords_within_longer_words_are_named(tmp_path: Path) -> None:
    table = tmp_path / "q.csv"
    table.write_text("question,answer,keywords\n出身地は？,京都,京都\n", encoding="utf-8")
    target = FakeEngine({"q/0001": {"京都です": 1.0}})
    control = FakeEngine({"q/0001": {"東京都です": 1.0}}, name="control")
    how = {"scorers": ("keyword",), "n": 16}
    run = evaluate(target, str(table), out=tmp_path / "r", control=control, **how)
    view = read_view(run)
    lines = remarks(view, view.scorers[0]).splitlines()
    (named,) = [line for line in lines if "short keywords" in line]
    assert named.startswith("control: ")
    assert named.endswith("京都 (q/0001) in 100.0 %")
