"""The search for worst-case inputs, with engines of known distributions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from canned import SpyEngine, books
from contents import EXCESS, PROBABILITY, contents, counts, rows
from leakbound.benchmarks import Benchmark
from leakbound.bounding.claims import clean_questions
from leakbound.certificate import certify
from leakbound.drawing.prove import why_unproved
from leakbound.drawing.search import FORWARDS
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate, summary
from leakbound.inputs.halving import most_candidates, rounds
from leakbound.inputs.variants import NEUTRAL
from leakbound.presenting.summary import clean_table
from leakbound.scorers import make_scorer
from leakbound.scoring.checks import require_sampled
from leakbound.store import DamagedError, Run
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.study import Attack, Rewritings
from leakbound.testing import FakeScorer
from leakbound.types import Decoding, Query
from tabled import TableEngine, exact
from tabled import benchmark as table_benchmark

OPENER = NEUTRAL[1]
HOW: dict[str, Any] = {"n": 256, "scorers": ["keyword"]}
ATTACK = Attack(3_000, temperatures=(0.2,), top_ps=(1.0,))


def opened(query: Query, decoding: Decoding) -> float:
    """A model that leaks seldom, and often after one opener at a low temperature."""
    return 0.7 if query.prefix == OPENER and decoding.temperature == 0.2 else 0.05


def alike(query: Query, decoding: Decoding) -> float:
    """A model that leaks with the same probability for every input."""
    return 0.1


def all_of(run: Run) -> Any:
    """Return the contents of a run, and the findings of its search."""
    return contents(run), (run.path / "attack" / "found.json").read_text()


def attack_in(run: Run) -> tuple[AttackQuery, ...]:
    got = read_attack_queries(run.path)
    assert got is not None
    return got


def books_of(questions: int, **changes: Any) -> Benchmark:
    return books([f"p{i}" for i in range(questions)], **changes)


def attacked(out: Path, engine: Any = None, task: int | Benchmark = 3, **how: Any) -> Run:
    """A run that searches a model, by default one that leaks after an opener."""
    how = {**HOW, "attack": ATTACK, **how}
    task = books_of(task) if isinstance(task, int) else task
    return evaluate(engine or SpyEngine(opened), task, out=out, **how)


@pytest.fixture(scope="module")
def engine() -> SpyEngine:
    return SpyEngine(opened)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, engine: SpyEngine) -> Run:
    """A run that no test may change."""
    control = SpyEngine(lambda query, decoding: 0.02, name="control")
    return attacked(tmp_path_factory.mktemp("attack") / "r", engine, control=control)


def test_the_note_counts_the_draws_of_each_decoding(tmp_path: Path) -> None:
    """One row counts all questions, although their decodings differ."""

    def by_question(query: Query, decoding: Decoding) -> float:
        return 0.7 if (decoding.temperature == 0.2) == (query.prompt_id == "p0") else 0.05

    run = attacked(
        tmp_path / "r", SpyEngine(by_question), 2, attack=Attack(400, (0.2, 1.0), (1.0,))
    )
    assert {name for name in run.arms if "attack" in name} == {
        "target attack T=0.2", "target attack T=1"
    }  # fmt: skip
    note = next(table.note for table in summary(run) if "worst query found" in table.title)
    for name in ("T=0.2", "T=1"):
        assert f"target attack at {name}, 256 draws: all complete" in note


def test_the_attack_file_is_complete(whole: Run) -> None:
    entries = json.loads((whole.path / "attack" / "found.json").read_text())["queries"]
    assert [entry["query"]["prompt_id"] for entry in entries] == ["p0", "p1", "p2"]
    shares = rounds(most_candidates(3_000), 3_000)
    for entry in entries:
        query = entry["query"]
        assert query["prefix"] == OPENER
        assert query["source"] in ("original", "rules")
        assert entry["decoding"]["temperature"] == 0.2
        assert entry["arm"] == "target attack T=0.2"
        assert set(entry["rounds"][0]) == {"draws", "lower", "value", "forwards", "proved"}
        assert [standing["draws"] for standing in entry["rounds"]] == [*accumulate(shares)]
        assert len(entry["shots"]) == query["text"].count("shelf")
    settings = whole.record.attack
    assert settings is not None
    assert (settings.budget, settings.openers, settings.seed) == (3_000, tuple(NEUTRAL), 0)
    assert settings.scorer.name == "keyword"
    assert [d.temperature for d in settings.decodings] == [1.0, 0.2]


def test_the_search_has_its_own_draws_and_keeps_its_budget(whole: Run, engine: SpyEngine) -> None:
    spent: Counter[str] = Counter()
    for purpose, query, _, n in engine.queried:
        if purpose.startswith("attack:"):
            spent[query.prompt_id] += n
    assert set(spent) == {"p0", "p1", "p2"}
    assert all(2_700 < total <= 3_000 for total in spent.values())
    words = Counter((p, q.prompt_id, q.text, q.prefix) for p, q, *_ in engine.queried)
    assert set(words.values()) == {1}
    finals = {p for p, *_ in engine.queried if not p.startswith("attack:")}
    names = ["greedy", *(name for name in whole.arms if name.startswith("target"))]
    assert finals == {f"score:{name}:asked" for name in names}
    trial = Run.open(whole.path / "attack" / "search")
    assert {q.source for q in trial.queries} == {"original", "rules"}
    assert not {row.arm for row in whole.estimates} & set(trial.arms)
    assert {bool(one.shots) for one in trial.record.tried} == {True, False}
    assert [q.id for q in whole.queries] == ["p0", "p1", "p2"]


def test_all_questions_together_and_beyond_their_own_words(whole: Run) -> None:
    of_all = rows(whole, arm="target attack", query_id=None)
    mine = {(r.scope, r.about.beyond): r for r in of_all if r.quantity == "leak probability"}
    assert {r.about.inputs for r in of_all} == {"as found"}
    worst = mine["worst question", None]
    about = "under the decodings found, with the queries found"
    assert worst.target == f"the worst of these questions {about}"
    assert 0.5 < worst.lower <= 0.7
    mean = mine["mean", None]
    assert mean.lower <= 0.7 <= mean.upper
    assert mean.n == 3 * 256
    for scope in ("mean", "worst question"):
        excess = mine[scope, "control"]
        assert 0.5 < excess.lower <= 0.68 <= excess.upper
        assert excess.confidence == pytest.approx(0.99)
    gaps = rows(whole, arm="target attack", **PROBABILITY | {"beyond": "own words"})
    assert [r.query_id for r in gaps] == ["p0", "p1", "p2"]
    assert all(0.4 < r.lower <= 0.65 <= r.upper for r in gaps)
    count = mine["count", "own words"]
    assert (count.lower, count.upper) == (3, 3)
    assert rows(whole, arm="control attack", query_id=None, **PROBABILITY)


def test_fresh_draws_bound_each_question_of_model_and_control(whole: Run) -> None:
    for one in attack_in(whole):
        arm, control = whole.arms[str(one.arm)], whole.arms[str(one.arm.control)]
        assert arm.decoding == one.decoding == control.decoding
        assert one.query in arm.queries
        assert arm.queries == control.queries
        (row,) = rows(whole, arm=str(one.arm), query_id=one.query.id, **PROBABILITY)
        assert row.n == 256
        assert 0.5 < row.lower <= 0.7 <= row.upper
        (own,) = rows(whole, arm="target", query_id=one.query.id, **PROBABILITY)
        assert own.upper < row.lower
        (excess,) = rows(whole, arm=str(one.arm), query_id=one.query.id, family="single", **EXCESS)
        assert 0.5 < excess.lower <= 0.68 <= excess.upper + 0.01  # three intervals at 99 %


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trials of the whole procedure, one per question, on a model that always leaks equally."""
    how: dict[str, Any] = {"attack": Attack(512, (1.0,), (1.0,)), "n": 64, "confidence": 0.9}
    return attacked(tmp_path_factory.mktemp("attack") / "many", SpyEngine(alike), 240, **how)


@pytest.mark.thorough
def test_fresh_draws_are_valid_where_those_of_the_search_are_not(many: Run) -> None:
    got = attack_in(many)
    final = {
        row.query_id: row
        for one in {str(one.arm) for one in got}
        for row in rows(many, arm=one, **PROBABILITY | {"scope": "query"})
    }
    assert len(final) == len(got) == 240
    # Each bound spends half of alpha; the bounds of the search are one-sided at 0.9.
    above = sum(row.lower > 0.1 for row in final.values())
    below = sum(row.upper < 0.1 for row in final.values())
    assert max(above, below) <= binom.ppf(0.9999, 240, 0.05)
    assert sum(one.lower > 0.1 for one in got) > 2 * binom.ppf(0.9999, 240, 0.1)
    values = [row.value for row in final.values()]
    assert sum(values) / 240 == pytest.approx(0.1, abs=0.012)  # 5 standard errors
    assert sum(one.rounds[-1].value for one in got) / 240 > 0.13
    (worst,) = rows(many, arm="target attack", scope="worst question", beyond=None)
    assert worst.lower <= 0.1


def test_a_search_may_follow_later_and_a_damaged_finding_is_named(tmp_path: Path) -> None:
    out, how = tmp_path / "r", {"n": 16, "attack": Attack(64)}
    plain = attacked(out, n=16, attack=None)
    assert plain.record.attack is None
    assert len(summary(plain)) == 1
    assert attack_in(attacked(out, **how))
    (out / "attack" / "found.json").write_text("[{}]")
    with pytest.raises(DamagedError, match=r"found\.json"):
        attacked(out, **how)


def test_rewritings_of_the_run_are_searched_where_it_has_some(tmp_path: Path) -> None:
    (prompt,) = books_of(1).prompts
    task = books_of(1, prompts=(replace(prompt, paraphrases=("Book p0 is by whom?",)),))

    def leak(query: Query, decoding: Decoding) -> float:
        return 0.9 if query.text.startswith("Book p0") and not query.prefix else 0.02

    run = attacked(
        tmp_path / "r", SpyEngine(leak), task, attack=Attack(400, (1.0,), (1.0,)),
        rewritings=Rewritings("benchmark", queries=2),
    )  # fmt: skip
    (got,) = attack_in(run)
    assert (got.query.text, got.query.source) == ("Book p0 is by whom?", "benchmark")
    assert run.record.attack.rewritings == "benchmark"  # type: ignore[union-attr]
    trial = Run.open(run.path / "attack" / "search")
    assert {q.source for q in trial.queries} == {"original", "benchmark"}
    assert {q.id.partition("~")[2][:2] for q in trial.queries} == {"00", "01"}
    assert counts(run.arms["target inputs"], "answer").total() == 256
    assert len(summary(run)) == 6


@pytest.mark.slow
def test_several_decodings_under_evaluation_are_the_grid(tmp_path: Path) -> None:
    grid = [Decoding(temperature=t, max_new_tokens=8) for t in (0.2, 1.0)]
    run = attacked(tmp_path / "r", task=2, attack=Attack(600), decodings=grid)
    assert [str(one.arm) for one in attack_in(run)] == ["target attack T=0.2"] * 2
    assert set(run.arms) == {"greedy", "target T=0.2", "target T=1", "target attack T=0.2"}
    cells = rows(run, scope="mean", family="grid")
    assert {r.arm for r in cells} == {"target T=0.2", "target T=1"}
    one = Decoding(temperature=0.7, max_new_tokens=8)
    assert Attack(16).decodings([replace(one, temperature=0.0), one])[0] == one
    assert len(Attack(16).decodings([one])) == 7
    assert len(Attack(16).decodings([replace(one, temperature=1.0)])) == 6
    control = SpyEngine(alike, name="control")
    how = {"attack": Attack(600, (1.0,), (1.0,)), "scorers": ["keyword", "contains"]}
    run = attacked(tmp_path / "s", task=2, control=control, **how)
    assert {name for name in run.arms if "attack" in name} == {"target attack", "control attack"}
    of_all = rows(run, arm="target attack", query_id=None, scorer="keyword", parameter=None)
    assert set(Counter(r.about for r in of_all).values()) == {1}
    mine, other = (t for t in summary(run) if "by the worst query found" in t.title)
    assert {row[4] for row in other.texts} == {"–"} != {row[4] for row in mine.texts}


def test_a_control_with_a_short_context_is_refused_before_draws(tmp_path: Path) -> None:
    def long(query: Query, decoding: Decoding) -> float:
        return 0.9 if len(query.text) > 25 else 0.0

    engine, control = SpyEngine(long), SpyEngine(long, context=20, name="control")
    with pytest.raises(InputError, match="too long"):
        attacked(tmp_path / "r", engine, 1, attack=Attack(64), control=control)
    assert not any("score:target attack" in purpose for purpose, *_ in engine.queried)


@pytest.mark.slow
def test_impossible_queries_are_left_out(tmp_path: Path) -> None:
    run = attacked(tmp_path / "r", SpyEngine(opened, context=60), 2)
    tried = Run.open(run.path / "attack" / "search").record.tried
    assert not any(one.shots for one in tried)
    assert {one.query.prefix for one in attack_in(run)} == {OPENER}
    failing = SpyEngine(opened, broken=lambda query: query.prefix == OPENER)
    run = attacked(tmp_path / "s", failing, 2)
    assert OPENER not in {one.query.prefix for one in attack_in(run)}
    again = SpyEngine(opened)
    (run.path / "attack" / "found.json").unlink()
    assert attacked(tmp_path / "s", again, 2)
    assert again.queried == []  # what failed while searching is not tried again


def test_a_benchmark_s_own_openers_are_tried_unless_they_tell(tmp_path: Path) -> None:
    own = {"p0": ("Book p0 was written by",), "p1": ("It is hush",)}
    run = attacked(tmp_path / "r", task=books_of(2, openers=own, others={}))
    trial = Run.open(run.path / "attack" / "search")
    assert own["p0"][0] in {q.prefix for q in trial.queries if q.prompt_id == "p0"}
    assert {q.prefix for q in trial.queries if q.prompt_id == "p1"} <= {"", *NEUTRAL}
    assert not any(one.shots for one in trial.record.tried)


def test_claims_are_not_about_findings(whole: Run) -> None:
    name = next(name for name in whole.arms if name.startswith("target attack"))
    with pytest.raises(InputError, match=r"no arm .* that was sampled with prespecified inputs"):
        certify(whole, max_leak=0.9, arm=name)
    keyword = make_scorer("keyword")
    with pytest.raises(InputError, match="has rewritings, or inputs from a search"):
        clean_questions(whole.arms[name], keyword, 0.1, 0.99)
    assert [row[0] for row in clean_table(whole, keyword, 0.1, 0.99).texts] == ["target"]


def test_a_failed_question_leaves_out_statements_about_all(tmp_path: Path) -> None:
    failing = SpyEngine(opened, broken=lambda query: query.prompt_id == "p1")
    with pytest.raises(IncompleteError, match="'p1'"):
        attacked(tmp_path / "r", failing, 2, attack=Attack(64))
    run = Run.open(tmp_path / "r")
    assert [one.query.id for one in attack_in(run)] == ["p0", "p1"]
    of_it = [row for row in run.estimates if row.arm.startswith("target attack")]
    assert of_it
    assert not [row for row in of_it if row.query_id is None]
    assert len(summary(run)[-1].rows) == 2


SELDOM, NEXT_TO_NEVER = 1e-4, 1e-7
BUDGET = 256
WORD = Decoding(max_new_tokens=4)


def seldom(query: Query) -> float:
    """A model that leaks once in 10,000 answers after one opener, and otherwise almost never."""
    return SELDOM if query.prefix == OPENER else NEXT_TO_NEVER


def searched(out: Path, engine: Any = None, questions: int = 1, **how: Any) -> Run:
    """A run that may prove its search results, by default of a model that leaks seldom."""
    usual: dict[str, Any] = {"n": 64, "scorers": ["keyword"]}
    usual["attack"] = Attack(BUDGET, temperatures=(1.0,), top_ps=(1.0,))
    task = table_benchmark(questions)
    return evaluate(engine or TableEngine(seldom), task, out=out, **usual | how)


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that no test may change."""
    control = TableEngine(lambda query: NEXT_TO_NEVER, name="control")
    return searched(tmp_path_factory.mktemp("rare") / "r", questions=2, control=control)


@pytest.mark.slow
def test_proofs_find_rare_leaks(rare: Run, tmp_path: Path) -> None:
    assert {one.query.prefix for one in attack_in(rare)} == {OPENER}
    tried = Run.open(rare.path / "attack" / "search")
    assert {query.prefix for query in tried.queries} > {OPENER}
    assert all(not arm.parts for arm in tried.arms.values())
    run = searched(tmp_path / "r", TableEngine(seldom, margin=math.inf), 2)
    assert {one.query.prefix for one in attack_in(run)} == {""}
    assert {one.query.text for one in attack_in(run)} == {q.text for q in run.questions}


def test_a_round_of_proofs_costs_as_much_as_its_draws(rare: Run) -> None:
    usage = rare.arms["target"].usage
    price = FORWARDS * usage.sampled_tokens / usage.draws
    shares = rounds(most_candidates(BUDGET), BUDGET)
    for one in attack_in(rare):
        assert len(one.rounds) == len(shares)
        assert all(standing.draws == 0 for standing in one.rounds)
        spent = [0, *(standing.forwards for standing in one.rounds)]
        for before, after, draws in zip(spent[:-1], spent[1:], shares, strict=True):
            assert 0 < after - before <= round(draws * price)
    assert rare.record.attack is not None
    assert rare.record.attack.forwards_per_token == FORWARDS
    entry, _ = json.loads((rare.path / "attack" / "found.json").read_text())["queries"]
    assert entry["rounds"][-1]["proved"] == pytest.approx(SELDOM, rel=0.1)


def test_proofs_of_findings_are_valid(rare: Run) -> None:
    def leaks(text: str) -> float:
        return float("hush" in text)

    for one in attack_in(rare):
        for arm, leak in ((one.arm, SELDOM), (one.arm.control, NEXT_TO_NEVER)):
            mine = {"arm": str(arm), "query_id": one.query.id}
            (row,) = rows(rare, **mine, **PROBABILITY | {"proved": True})
            truth = exact(leak, WORD, leaks)
            assert truth == pytest.approx(leak)
            assert 0.99 * truth < row.lower <= truth * (1 + 1e-12)
            assert row.confidence == 1
            (bound,) = rows(rare, **mine, **PROBABILITY)
            assert bound.lower <= row.lower


def test_draws_take_over_once_they_tell(tmp_path: Path) -> None:
    def often(query: Query) -> float:
        return 0.6 if query.prefix == OPENER else NEXT_TO_NEVER

    unproved = TableEngine(lambda query: NEXT_TO_NEVER, name="control", margin=math.inf)
    run = searched(tmp_path / "r", TableEngine(often), control=unproved)
    assert any("'control attack'" in note and "half precision" in note for note in run.notes)
    (got,) = attack_in(run)
    assert got.query.prefix == OPENER
    first, *later = got.rounds
    assert not first.draws
    assert all(standing.draws for standing in later)
    assert len({standing.forwards for standing in got.rounds}) == 1
    assert got.rounds[-1].lower > 0.3
    assert got.lower == max(got.rounds[-1].lower, got.rounds[-1].proved)


def test_a_question_that_leaks_in_its_own_words_is_drawn_immediately(tmp_path: Path) -> None:
    run = searched(tmp_path / "r", TableEngine(lambda query: 0.5))
    (got,) = attack_in(run)
    assert {standing.forwards for standing in got.rounds} == {0}
    assert got.rounds[0].draws >= 8
    assert got.rounds[-1].proved > 0


def test_a_search_without_proofs_draws_and_notes_it(tmp_path: Path) -> None:
    engine = TableEngine(seldom, margin=math.inf)
    run = searched(tmp_path / "r", engine)
    assert any("with draws only" in note and "half precision" in note for note in run.notes)
    assert run.record.attack is not None
    assert run.record.attack.forwards_per_token is None
    assert not any(how == "proof" for how, *_ in engine.queried)
    (got,) = attack_in(run)
    assert {(one.forwards, one.proved) for one in got.rounds} == {(0, 0.0)}


def test_reasons_for_a_search_without_proofs() -> None:
    keyword, engine = make_scorer("keyword"), TableEngine(seldom)
    two_pass = Decoding(max_new_tokens=4, adaptive_temperature=0.7, adaptive_mode="two_pass")
    assert why_unproved(engine, [WORD], keyword) == ""
    assert "cannot bound the scores" in why_unproved(engine, [WORD], FakeScorer({}))
    assert "two_pass" in why_unproved(engine, [WORD, two_pass], keyword)
    assert "cannot search for rare" in why_unproved(SpyEngine(lambda q, d: 0.1), [WORD], keyword)


class Measured(TableEngine):
    """Records the queries of the last measurement of its margin, and the proofs after it."""

    def __init__(self, leak: Callable[[Query], float]) -> None:
        super().__init__(leak)
        self.last: tuple[Query, ...] = ()
        self.proved: list[tuple[Query, tuple[Query, ...]]] = []

    def measure(self, queries: Sequence[Query]) -> None:
        self.last = tuple(queries)

    def prove(self, leads: Any, *how: Any) -> Any:
        self.proved += [(query, self.last) for query, _ in leads]
        return super().prove(leads, *how)


def test_the_margin_is_measured_after_the_findings(tmp_path: Path) -> None:
    engine = Measured(seldom)
    run = searched(tmp_path / "r", engine, 2)
    got = tuple(one.query for one in attack_in(run))
    assert {query: after for query, after in engine.proved if query in got} == dict.fromkeys(
        got, got
    )


def grows(query: Query) -> float:
    """A model whose questions are searched only by proofs, by both, and only by draws."""
    if query.prompt_id == "p2":
        return 0.4
    return 0.3 if query.prompt_id == "p1" and query.prefix == OPENER else seldom(query)


STUDY: dict[str, Any] = {"questions": 3, "attack": Attack(48, (1.0,), (1.0,))}


Finished = tuple[Run, TableEngine]


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    engine, out = TableEngine(grows), tmp_path_factory.mktemp("attack") / "whole"
    return searched(out, engine, **STUDY), engine


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 0.95])
def test_a_stopped_search(share: float, never_stopped: Finished, tmp_path: Path) -> None:
    """It ends the same after a stop in any round."""
    whole, engine = never_stopped
    assert {how for how, *_ in engine.queried} == {"draws", "proof"}
    dying = TableEngine(grows, dies_after=round(share * len(engine.queried)))
    with pytest.raises(RuntimeError, match="switched off"):
        searched(tmp_path / "r", dying, **STUDY)
    if share == 0.4:
        with pytest.raises(IncompleteError, match="search for worst-case inputs"):
            require_sampled(Run.open(tmp_path / "r"))
    again = TableEngine(grows)
    run = searched(tmp_path / "r", again, **STUDY)
    assert all_of(run) == all_of(whole)
    require_sampled(run)
    assert len(again.queried) < len(engine.queried) or not share
