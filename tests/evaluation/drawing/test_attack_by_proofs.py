"""The search for worst-case inputs where leaks are rare, on an engine whose law is a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from asked import AskedEngine
from estimates import rows
from leakbound.evaluation import evaluate, summary
from leakbound.evaluation.drawing.prove import why_unproved
from leakbound.evaluation.drawing.search import FORWARDS
from leakbound.evaluation.views.asked import found_grid
from leakbound.evaluation.views.read import read_view
from leakbound.inputs.halving import most_candidates, rounds
from leakbound.inputs.variants import NEUTRAL
from leakbound.reporting import write_report
from leakbound.scorers import make_scorer
from leakbound.store import Run
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.study import Attack
from leakbound.testing import FakeScorer
from leakbound.types import Decoding, Query
from suites import slow_but
from tabled import TableEngine, benchmark, exact

OPENER = NEUTRAL[1]
SELDOM, NEXT_TO_NEVER = 1e-4, 1e-7
BUDGET = 256
HOW: dict[str, Any] = {"n": 64, "scorers": ["keyword"]}
ATTACK = Attack(BUDGET, temperatures=(1.0,), top_ps=(1.0,))
WORD = Decoding(max_new_tokens=4)


def seldom(query: Query) -> float:
    """A model that leaks once in 10,000 answers after one opener, and else next to never."""
    return SELDOM if query.prefix == OPENER else NEXT_TO_NEVER


def found_in(run: Run) -> tuple[AttackQuery, ...]:
    found = read_attack_queries(run.path)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that no test may change."""
    out = tmp_path_factory.mktemp("attack") / "r"
    control = TableEngine(lambda query: NEXT_TO_NEVER, name="control")
    return evaluate(
        TableEngine(seldom), benchmark(), out=out, attack=ATTACK, control=control, **HOW
    )


@pytest.mark.slow
def test_proofs_find_what_draws_cannot_tell(whole: Run, tmp_path: Path) -> None:
    assert {one.query.prefix for one in found_in(whole)} == {OPENER}
    tried = Run.open(whole.path / "attack" / "search")
    assert {query.prefix for query in tried.queries} > {OPENER}
    assert all(not arm.parts for arm in tried.arms.values())
    blind = TableEngine(seldom, margin=math.inf)
    run = evaluate(blind, benchmark(), out=tmp_path / "r", attack=ATTACK, **HOW)
    assert {one.query.prefix for one in found_in(run)} == {""}
    assert {one.query.text for one in found_in(run)} == {q.text for q in run.questions}


def test_a_round_of_proofs_costs_what_its_draws_would(whole: Run) -> None:
    usage = whole.arms["target"].usage
    price = FORWARDS * usage.sampled_tokens / usage.draws
    shares = rounds(most_candidates(BUDGET), BUDGET)
    for one in found_in(whole):
        assert len(one.rounds) == len(shares)
        assert all(standing.draws == 0 for standing in one.rounds)
        spent = [0, *(standing.forwards for standing in one.rounds)]
        for before, after, draws in zip(spent[:-1], spent[1:], shares, strict=True):
            assert 0 < after - before <= round(draws * price)
    assert whole.record.attack is not None
    assert whole.record.attack.forwards_per_token == FORWARDS
    entry, _ = json.loads((whole.path / "attack" / "found.json").read_text())["found"]
    assert entry["rounds"][-1]["proved"] == pytest.approx(SELDOM, rel=0.1)


def test_what_is_proved_of_the_found_is_stated_and_never_too_much(whole: Run) -> None:
    def leaks(text: str) -> float:
        return float("hush" in text)

    for one in found_in(whole):
        for arm, leak in ((one.arm, SELDOM), (one.arm.control, NEXT_TO_NEVER)):
            (row,) = rows(
                whole, arm=str(arm), query_id=one.query.id, estimand="proved leak probability"
            )
            truth = exact(leak, WORD, leaks)
            assert truth == pytest.approx(leak)
            assert 0.99 * truth < row.lower <= truth * (1 + 1e-12)
            assert row.confidence == 1
            (bound,) = rows(whole, arm=str(arm), query_id=one.query.id, estimand="leak probability")
            assert bound.lower <= row.lower


def test_console_and_page_show_it_beside_the_bound(whole: Run, tmp_path: Path) -> None:
    attacked = summary(whole)[-1]
    assert attacked.columns == (
        "Question", "In its own words", "Found", "Proved", "Control", "Control, proved",
        "Lower end in the search", "Asked",
    )  # fmt: skip
    assert {row[3] for row in attacked.texts} == {"1.0e−4"}
    assert {row[5] for row in attacked.texts} == {"1.0e−7"}
    assert "256 draws a question, or proofs that cost as much, steered by" in attacked.note
    view = read_view({"r": whole})
    wide = found_grid(view, view.scorers[0])
    assert "Forwards in the search" in wide.columns
    page = write_report({"r": whole}, tmp_path / "report.html").read_text()
    assert "1.0e−4" in page
    assert "What is proved rests on no draw" in page


def test_draws_take_over_once_they_tell(tmp_path: Path) -> None:
    def often(query: Query) -> float:
        return 0.6 if query.prefix == OPENER else NEXT_TO_NEVER

    run = evaluate(TableEngine(often), benchmark(1), out=tmp_path / "r", attack=ATTACK, **HOW)
    (found,) = found_in(run)
    assert found.query.prefix == OPENER
    assert [bool(standing.draws) for standing in found.rounds] == [
        False, *(True for _ in found.rounds[1:]),
    ]  # fmt: skip
    assert len({standing.forwards for standing in found.rounds}) == 1
    assert found.rounds[-1].lower > 0.3
    assert found.lower == max(found.rounds[-1].lower, found.rounds[-1].proved)


def test_a_question_that_leaks_in_its_own_words_is_drawn_from_at_once(tmp_path: Path) -> None:
    run = evaluate(
        TableEngine(lambda query: 0.5), benchmark(1), out=tmp_path / "r", attack=ATTACK, **HOW
    )
    (found,) = found_in(run)
    assert {standing.forwards for standing in found.rounds} == {0}
    assert found.rounds[0].draws >= 8
    assert found.rounds[-1].proved > 0


def test_scores_between_0_and_1_prove_a_mean(tmp_path: Path) -> None:
    run = evaluate(
        TableEngine(seldom), benchmark(1), out=tmp_path / "r", attack=ATTACK,
        **{**HOW, "scorers": ["rouge-l-recall"]},
    )  # fmt: skip
    (found,) = found_in(run)
    (row,) = rows(run, arm=str(found.arm), query_id="p0", estimand="proved mean leakage")
    truth = exact(
        seldom(found.query), WORD, lambda text: len({"It", "hush"} & set(text.split())) / 2
    )
    assert 0 < row.lower <= truth * (1 + 1e-12)


def test_who_cannot_prove_draws_as_before_and_it_is_said(tmp_path: Path) -> None:
    engine = TableEngine(seldom, margin=math.inf)
    run = evaluate(engine, benchmark(1), out=tmp_path / "r", attack=ATTACK, **HOW)
    (note,) = [note for note in run.notes if "searches by draws alone" in note]
    assert "half precision" in note
    assert run.record.attack is not None
    assert run.record.attack.forwards_per_token is None
    assert not any(how == "proof" for how, *_ in engine.asked)
    (found,) = found_in(run)
    assert {(one.forwards, one.proved) for one in found.rounds} == {(0, 0.0)}
    assert "proofs that cost as much" not in summary(run)[-1].note


def test_what_a_search_can_do_without_proofs_is_named() -> None:
    keyword, engine = make_scorer("keyword"), TableEngine(seldom)
    two_pass = Decoding(max_new_tokens=4, adaptive_temperature=0.7, adaptive_mode="two_pass")
    assert why_unproved(engine, [WORD], keyword) == ""
    assert "no `bounds`" in why_unproved(engine, [WORD], FakeScorer({}))
    assert "two passes" in why_unproved(engine, [WORD, two_pass], keyword)
    assert "finds no rare leaks" in why_unproved(AskedEngine(lambda q, d: 0.1), [WORD], keyword)


def test_a_control_without_probabilities_is_not_proved(tmp_path: Path) -> None:
    control = TableEngine(lambda query: NEXT_TO_NEVER, name="control", margin=math.inf)
    run = evaluate(
        TableEngine(seldom), benchmark(1), out=tmp_path / "r", attack=ATTACK, control=control, **HOW
    )
    (found,) = found_in(run)
    assert any("'control attack'" in note and "half precision" in note for note in run.notes)
    assert found.query.prefix == OPENER


class Measured(TableEngine):
    """Remembers after which queries its margin was measured last, and what it then proved."""

    def __init__(self, leak: Callable[[Query], float]) -> None:
        super().__init__(leak)
        self.last: tuple[Query, ...] = ()
        self.proved: list[tuple[Query, tuple[Query, ...]]] = []

    def measure(self, queries: Sequence[Query]) -> None:
        self.last = tuple(queries)

    def prove(self, asked: Any, *how: Any) -> Any:
        self.proved += [(query, self.last) for query, _ in asked]
        return super().prove(asked, *how)


def test_the_margin_is_measured_after_what_was_found(tmp_path: Path) -> None:
    engine = Measured(seldom)
    run = evaluate(engine, benchmark(2), out=tmp_path / "r", attack=ATTACK, **HOW)
    found = tuple(one.query for one in found_in(run))
    assert {query: after for query, after in engine.proved if query in found} == dict.fromkeys(
        found, found
    )


def contents(run: Run) -> list[Any]:
    arms = run.arms.values()
    completions = [[arm.completions(p).to_pylist() for p in arm.parts] for arm in arms]
    return [run.estimates, completions, (run.path / "attack" / "found.json").read_text()]


def grows(query: Query) -> float:
    """A model whose questions are searched by proofs alone, by both, and by draws alone."""
    if query.prompt_id == "p2":
        return 0.4
    return 0.3 if query.prompt_id == "p1" and query.prefix == OPENER else seldom(query)


STOPPED: dict[str, Any] = {**HOW, "attack": Attack(48, (1.0,), (1.0,))}


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, TableEngine]:
    engine, out = TableEngine(grows), tmp_path_factory.mktemp("attack") / "whole"
    return evaluate(engine, benchmark(3), out=out, **STOPPED), engine


@pytest.mark.parametrize("share", slow_but((), (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)))
def test_stopped_in_any_round_it_ends_the_same(
    share: float, never_stopped: tuple[Run, TableEngine], tmp_path: Path
) -> None:
    whole, engine = never_stopped
    assert {how for how, *_ in engine.asked} == {"draws", "proof"}
    dying = TableEngine(grows, dies_after=round(share * len(engine.asked)))
    with pytest.raises(RuntimeError, match="switched off"):
        evaluate(dying, benchmark(3), out=tmp_path / "r", **STOPPED)
    again = TableEngine(grows)
    assert contents(evaluate(again, benchmark(3), out=tmp_path / "r", **STOPPED)) == contents(whole)
    assert len(again.asked) < len(engine.asked) or not share


def test_decided_again_it_is_decided_alike(
    never_stopped: tuple[Run, TableEngine],
) -> None:
    whole, engine = never_stopped
    want, asked = contents(whole), len(engine.asked)
    (whole.path / "attack" / "found.json").unlink()
    assert contents(evaluate(engine, benchmark(3), out=whole.path, **STOPPED)) == want
    assert len(engine.asked) == asked
