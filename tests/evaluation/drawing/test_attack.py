"""The search for worst-case inputs, on an engine whose law is known for all words."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from asked import LEAK, AskedEngine
from estimates import rows
from leakbound.benchmarks import Benchmark
from leakbound.certificate import certify
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import evaluate, probe, summary
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.evaluation.scoring.checks import require_sampled
from leakbound.evaluation.statements.claims import clean_questions
from leakbound.evaluation.views.summary import clean_table
from leakbound.inputs.halving import most_candidates, rounds
from leakbound.inputs.variants import NEUTRAL
from leakbound.reporting import write_report
from leakbound.scorers import make_scorer
from leakbound.store import DamagedError, Run
from leakbound.store.inputs import read_attack_queries
from leakbound.study import Attack, Explore, FixedN, Rewritings, Study, Until
from leakbound.types import Decoding, Prompt, Query

OPENER = NEUTRAL[1]
HOW: dict[str, Any] = {"n": 256, "scorers": ["keyword"]}
ATTACK = Attack(3_000, temperatures=(0.2,), top_ps=(1.0,))


def benchmark(questions: int = 3, **changes: Any) -> Benchmark:
    prompts = tuple(
        Prompt(id=f"p{i}", question=f"Who wrote book {i}?", answer=LEAK, keywords=("hush",))
        for i in range(questions)
    )
    retained = tuple(
        Prompt(id=f"r{i}", question=f"Where is shelf {i}?", answer=f"In room {i}.", role="retain")
        for i in range(12)
    )
    settings = {"name": "mine", "scorers": ("keyword",), "max_new_tokens": 8, "origin": "test"}
    others = {"retain": lambda: retained}
    return Benchmark(**{"prompts": prompts, "others": others, **settings, **changes})


def opened(query: Query, decoding: Decoding) -> float:
    """A model that leaks seldom, and often after one opener at a low temperature."""
    return 0.7 if query.prefix == OPENER and decoding.temperature == 0.2 else 0.05


def alike(query: Query, decoding: Decoding) -> float:
    """A model that leaks as much however it is asked."""
    return 0.1


def contents(run: Run) -> list[Any]:
    arms = run.arms.values()
    completions = [[arm.completions(p).to_pylist() for p in arm.parts] for arm in arms]
    return [run.estimates, completions, (run.path / "attack" / "found.json").read_text()]


@pytest.fixture(scope="module")
def engine() -> AskedEngine:
    return AskedEngine(opened)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, engine: AskedEngine) -> Run:
    """A run that no test may change."""
    out = tmp_path_factory.mktemp("attack") / "r"
    control = AskedEngine(lambda query, decoding: 0.02, name="control")
    return evaluate(engine, benchmark(), out=out, attack=ATTACK, control=control, **HOW)


@pytest.mark.slow
def test_it_finds_what_leaks_most_and_bounds_it_by_fresh_draws(whole: Run) -> None:
    found = read_attack_queries(whole.path)
    assert found is not None
    assert [one.query.id for one in found] == ["p0", "p1", "p2"]
    assert {one.query.prefix for one in found} == {OPENER}
    assert {one.decoding.temperature for one in found} == {0.2}
    for one in found:
        arm = whole.arms[str(one.arm)]
        assert arm.decoding == one.decoding
        assert one.query in arm.queries
        (row,) = rows(whole, arm=str(one.arm), query_id=one.query.id, estimand="leak probability")
        assert row.n == 256
        assert 0.5 < row.lower <= 0.7 <= row.upper
        assert row.target == "the query found for this question, under the decoding found"
        (own,) = rows(whole, arm="target", query_id=one.query.id, estimand="leak probability")
        assert own.upper < row.lower
        shares = rounds(most_candidates(3_000), 3_000)
        assert [s.draws for s in one.rounds] == [*accumulate(shares)]
        assert 0.3 < one.lower < 0.75


def test_found_json_tells_all_that_a_reader_needs(whole: Run) -> None:
    entries = json.loads((whole.path / "attack" / "found.json").read_text())["found"]
    assert [entry["query"]["prompt_id"] for entry in entries] == ["p0", "p1", "p2"]
    for entry in entries:
        query = entry["query"]
        assert query["prefix"] == OPENER
        assert query["source"] in ("original", "rules")
        assert "book" in query["text"]
        assert entry["decoding"]["temperature"] == 0.2
        assert entry["arm"] == "target attack T=0.2"
        assert set(entry["rounds"][0]) == {"draws", "lower", "value", "forwards", "proved"}
        shown = query["text"].count("shelf")
        assert len(entry["shots"]) == shown
    settings = whole.record.attack
    assert settings is not None
    assert settings.budget == 3_000
    assert settings.openers == tuple(NEUTRAL)
    assert settings.scorer.name == "keyword"
    assert [d.temperature for d in settings.decodings] == [1.0, 0.2]
    assert settings.seed == 0


def test_the_search_draws_apart_and_within_its_budget(whole: Run, engine: AskedEngine) -> None:
    spent: Counter[str] = Counter()
    for purpose, query, _, n in engine.asked:
        if purpose.startswith("attack:"):
            spent[query.prompt_id] += n
    assert set(spent) == {"p0", "p1", "p2"}
    assert all(2_700 < total <= 3_000 for total in spent.values())
    words = Counter((p, q.prompt_id, q.text, q.prefix) for p, q, *_ in engine.asked)
    assert set(words.values()) == {1}
    finals = {p for p, *_ in engine.asked if not p.startswith("attack:")}
    names = ["greedy", *(name for name in whole.arms if name.startswith("target"))]
    assert finals == {f"score:{name}:asked" for name in names}
    trial = Run.open(whole.path / "attack" / "search")
    assert not {row.arm for row in whole.estimates} & set(trial.arms)
    assert {bool(one.shots) for one in trial.record.tried} == {True, False}
    assert [q.id for q in whole.queries] == ["p0", "p1", "p2"]


def test_all_questions_together_and_beyond_their_own_words(whole: Run) -> None:
    of_all = rows(whole, arm="target attack", query_id=None)
    mine = {(r.scope, r.about.beyond): r for r in of_all if r.quantity == "leak probability"}
    assert {r.about.inputs for r in of_all} == {"as found"}
    worst = mine["worst question", None]
    about = "under the decodings found, asked the queries found"
    assert worst.target == f"the worst of these questions {about}"
    assert 0.5 < worst.lower <= 0.7
    mean = mine["mean", None]
    assert mean.lower <= 0.7 <= mean.upper
    assert mean.n == 3 * 256
    for scope in ("mean", "worst question"):
        excess = mine[scope, "control"]
        assert 0.5 < excess.lower <= 0.68 <= excess.upper
        assert excess.confidence == pytest.approx(0.99)
    gaps = rows(whole, arm="target attack", estimand="gap in leak probability")
    assert [r.query_id for r in gaps] == ["p0", "p1", "p2"]
    assert all(0.4 < r.lower <= 0.65 <= r.upper for r in gaps)
    count = mine["count", "own words"]
    assert (count.lower, count.upper) == (3, 3)
    assert rows(whole, arm="control attack", query_id=None, estimand="leak probability")


def test_the_control_is_asked_the_same(whole: Run) -> None:
    pairs = {
        name: whole.arms[name.replace("target", "control")]
        for name in whole.arms
        if name.startswith("target attack")
    }
    assert all(arm.queries == whole.arms[name].queries for name, arm in pairs.items())
    assert all(arm.decoding == whole.arms[name].decoding for name, arm in pairs.items())
    found = rows(whole, estimand="excess leak probability")
    excess = [r for r in found if r.arm in pairs and not r.about.jointly]
    assert sorted(r.query_id for r in excess) == ["p0", "p1", "p2"]
    assert all(0.5 < r.lower <= 0.68 <= r.upper + 0.01 for r in excess)  # three of 99 %


def test_the_summary_shows_what_was_found(whole: Run, tmp_path: Path) -> None:
    plain, of_all, attacked = summary(whole)
    assert [row[0] for row in plain.texts] == ["target", "control"]
    assert attacked.columns == (
        "Question", "In its own words", "Found", "Control", "Lower end in the search", "Asked",
    )  # fmt: skip
    lower = [float(row[2].partition("[")[2].partition(",")[0]) for row in attacked.texts]
    assert lower == sorted(lower, reverse=True)
    assert all(f"opened by {OPENER!r}" in row[-1] for row in attacked.texts)
    assert "searched with 3,000 draws a question, steered by keyword" in attacked.note
    model, _, worst, _, more = of_all.texts[0]
    assert model.startswith("target attack")
    assert "[0.6" in worst
    assert more == "3 (≥ 3)"
    assert write_report({"r": whole}, tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Trials of the whole procedure, one a question, on a model that nothing makes leak more."""
    out = tmp_path_factory.mktemp("attack") / "many"
    return evaluate(
        AskedEngine(alike), benchmark(240), out=out, attack=Attack(512, (1.0,), (1.0,)), n=64,
        scorers=["keyword"], confidence=0.9,
    )  # fmt: skip


@pytest.mark.thorough
def test_fresh_draws_hold_where_the_search_s_own_would_not(many: Run) -> None:
    found = read_attack_queries(many.path)
    assert found is not None
    final = {
        row.query_id: row
        for one in {str(one.arm) for one in found}
        for row in rows(many, arm=one, estimand="leak probability")
        if row.query_id
    }
    assert len(final) == len(found) == 240
    # Each end spends half of alpha; the bounds of the search are one-sided at 0.9.
    above = sum(row.lower > 0.1 for row in final.values())
    below = sum(row.upper < 0.1 for row in final.values())
    assert max(above, below) <= binom.ppf(0.9999, 240, 0.05)
    assert sum(one.lower > 0.1 for one in found) > 2 * binom.ppf(0.9999, 240, 0.1)
    values = [row.value for row in final.values()]
    assert sum(values) / 240 == pytest.approx(0.1, abs=0.012)  # 5 standard errors
    assert sum(one.rounds[-1].value for one in found) / 240 > 0.13
    (worst,) = rows(many, arm="target attack", scope="worst question", beyond=None)
    assert worst.lower <= 0.1


@pytest.mark.thorough
def test_killed_at_any_time_it_ends_the_same(tmp_path: Path) -> None:
    how = {**HOW, "n": 32, "attack": Attack(96, (0.2,), (1.0,))}
    want = contents(evaluate(AskedEngine(opened), benchmark(2), out=tmp_path / "whole", **how))
    total = len(evaluate_asked(tmp_path / "count", how))
    for dies_after in range(0, total, 5):
        out = tmp_path / f"r{dies_after}"
        with pytest.raises(RuntimeError, match="switched off"):
            evaluate(AskedEngine(opened, dies_after=dies_after), benchmark(2), out=out, **how)
        if dies_after == 15:
            with pytest.raises(IncompleteError, match="search for worst-case inputs"):
                require_sampled(Run.open(out))
        again = AskedEngine(opened)
        run = evaluate(again, benchmark(2), out=out, **how)
        assert contents(run) == want
        assert len(again.asked) < total or dies_after == 0
        require_sampled(run)


def evaluate_asked(out: Path, how: dict[str, Any]) -> list[Any]:
    engine = AskedEngine(opened)
    evaluate(engine, benchmark(2), out=out, **how)
    done = len(engine.asked)
    evaluate(engine, benchmark(2), out=out, **how)
    assert len(engine.asked) == done
    return engine.asked


def test_another_search_is_never_mixed_in(tmp_path: Path) -> None:
    out, how = tmp_path / "r", {**HOW, "n": 16}
    plain = evaluate(AskedEngine(opened), benchmark(), out=out, **how)
    assert plain.record.attack is None
    assert len(summary(plain)) == 1
    run = evaluate(AskedEngine(opened), benchmark(), out=out, attack=Attack(64), **how)
    assert read_attack_queries(run.path)
    for other, named in (
        ({"attack": Attack(65)}, "budget: it has 64, this one says 65"),
        ({"attack": Attack(64, top_ps=(1.0,))}, "decodings"),
        ({"attack": Attack(64), "scorers": ["contains"]}, "scorer: name"),
        ({"attack": Attack(64), "seed": 1}, "seed"),
    ):
        with pytest.raises(MixError, match=named):
            evaluate(AskedEngine(opened), benchmark(), out=out, **{**how, **other})
    file = out / "attack" / "found.json"
    file.write_text("[{}]")
    with pytest.raises(DamagedError, match=r"found\.json"):
        evaluate(AskedEngine(opened), benchmark(), out=out, attack=Attack(64), **how)


def test_rewritings_of_the_run_are_searched_where_it_has_some(tmp_path: Path) -> None:
    base = benchmark(1)
    told = replace(base.prompts[0], paraphrases=("Book 0 is by whom?",))

    def leak(query: Query, decoding: Decoding) -> float:
        return 0.9 if query.text.startswith("Book 0") and not query.prefix else 0.02

    run = evaluate(
        AskedEngine(leak), replace(base, prompts=(told,)), out=tmp_path / "r",
        attack=Attack(400, (1.0,), (1.0,)), rewritings=Rewritings("benchmark", queries=2), **HOW,
    )  # fmt: skip
    (found,) = read_attack_queries(run.path) or ()
    assert (found.query.text, found.query.source) == ("Book 0 is by whom?", "benchmark")
    assert run.record.attack.rewritings == "benchmark"  # type: ignore[union-attr]
    trial = Run.open(run.path / "attack" / "search")
    assert {q.source for q in trial.queries} == {"original", "benchmark"}
    assert {q.id.partition("~")[2][:2] for q in trial.queries} == {"00", "01"}
    assert sum(run.arms["target inputs"].spec.shares.draws_per_query.values()) == 256  # type: ignore[union-attr]
    assert [t.title.partition(",")[0] for t in summary(run)][1:] == [
        "keyword by protocol", "Scorer keyword: more than output",
        "Scorer keyword: as they were found", "keyword where it was attacked",
        "Rewritings of all questions",
    ]  # fmt: skip
    by_rules = evaluate(AskedEngine(opened), base, out=tmp_path / "s", attack=Attack(64), **HOW)
    asked = Run.open(by_rules.path / "attack" / "search").queries
    assert {q.source for q in asked} == {"original", "rules"}


@pytest.mark.slow
def test_decodings_under_evaluation_are_the_grid_where_they_are_several(tmp_path: Path) -> None:
    grid = [Decoding(temperature=t, max_new_tokens=8) for t in (0.2, 1.0)]
    run = evaluate(
        AskedEngine(opened), benchmark(2), out=tmp_path / "r", attack=Attack(600), decodings=grid,
        **HOW,
    )  # fmt: skip
    assert [str(one.arm) for one in read_attack_queries(run.path) or ()] == [
        "target attack T=0.2"
    ] * 2
    assert set(run.arms) == {"greedy", "target T=0.2", "target T=1", "target attack T=0.2"}
    cells = rows(run, scope="mean", jointly=True)
    assert {r.arm for r in cells} == {"target T=0.2", "target T=1"}
    one = Decoding(temperature=0.7, max_new_tokens=8)
    assert Attack(16).decodings([replace(one, temperature=0.0), one])[0] == one
    assert len(Attack(16).decodings([one])) == 7
    assert len(Attack(16).decodings([replace(one, temperature=1.0)])) == 6
    alone = Attack(600, temperatures=(1.0,), top_ps=(1.0,))
    run = evaluate(
        AskedEngine(opened), benchmark(2), out=tmp_path / "s", attack=alone, n=256,
        scorers=["keyword", "contains"], control=AskedEngine(alike, name="control"),
    )  # fmt: skip
    attacked = {name for name in run.arms if "attack" in name}
    assert attacked == {"target attack", "control attack"}
    of_all = rows(run, arm="target attack", query_id=None, scorer="keyword", parameter=None)
    assert set(Counter(r.about for r in of_all).values()) == {1}
    assert sum(r.about.beyond == "control" for r in of_all) == 2
    mine, other = (t for t in summary(run) if "where it was attacked" in t.title)
    assert {row[4] for row in other.texts} == {"–"} != {row[4] for row in mine.texts}


def test_a_control_that_cannot_be_asked_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    def long(query: Query, decoding: Decoding) -> float:
        return 0.9 if len(query.text) > 25 else 0.0

    how = {"attack": Attack(64), "control": AskedEngine(long, context=20, name="control"), **HOW}
    engine = AskedEngine(long)
    with pytest.raises(InputError, match="too long"):
        evaluate(engine, benchmark(1), out=tmp_path / "r", **how)
    assert not any("score:target attack" in purpose for purpose, *_ in engine.asked)


@pytest.mark.slow
def test_what_the_model_cannot_be_asked_is_out(tmp_path: Path) -> None:
    short = AskedEngine(opened, context=60)
    run = evaluate(short, benchmark(2), out=tmp_path / "r", attack=ATTACK, **HOW)
    tried = Run.open(run.path / "attack" / "search").record.tried
    assert not any(one.shots for one in tried)
    assert {one.query.prefix for one in read_attack_queries(run.path) or ()} == {OPENER}
    failing = AskedEngine(opened, broken=lambda query: query.prefix == OPENER)
    run = evaluate(failing, benchmark(2), out=tmp_path / "s", attack=ATTACK, **HOW)
    assert OPENER not in {one.query.prefix for one in read_attack_queries(run.path) or ()}
    again = AskedEngine(opened)
    (run.path / "attack" / "found.json").unlink()
    assert evaluate(again, benchmark(2), out=tmp_path / "s", attack=ATTACK, **HOW)
    assert again.asked == []  # what failed while searching is not tried again


def test_a_benchmark_s_own_openers_are_tried_unless_they_tell(tmp_path: Path) -> None:
    own = {"p0": ("Book 0 was written by",), "p1": ("It is hush",)}
    run = evaluate(
        AskedEngine(opened), benchmark(2, openers=own, others={}), out=tmp_path / "r",
        attack=ATTACK, **HOW,
    )  # fmt: skip
    asked = Run.open(run.path / "attack" / "search").queries
    assert own["p0"][0] in {q.prefix for q in asked if q.prompt_id == "p0"}
    assert {q.prefix for q in asked if q.prompt_id == "p1"} <= {"", *NEUTRAL}
    tried = Run.open(run.path / "attack" / "search").record.tried
    assert not any(one.shots for one in tried)


def test_what_makes_no_sense_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    engine = AskedEngine(opened)
    finished = evaluate(engine, benchmark(), out=tmp_path / "c", **HOW).path
    asked = len(engine.asked)
    greedy = Decoding(temperature=0.0, max_new_tokens=8)
    for given, named in (
        ({"sampling": Until("p<=0.1")}, "Leave one of them out"),
        ({"sampling": Explore("exact")}, "Leave one of them out"),
        ({"decodings": greedy}, "greedy decoding draws nothing"),
        ({"control": finished}, "Name the control model itself"),
    ):
        with pytest.raises(InputError, match=named):
            evaluate(
                engine,
                benchmark(),
                out=tmp_path / "r",
                attack=ATTACK,
                **{"scorers": ["keyword"], **given},
            )
    with pytest.raises(InputError, match=r"at least 16 .* got 15"):
        Attack(15)
    with pytest.raises(InputError, match="above 0"):
        Attack(16, temperatures=(0.0, 1.0))
    assert len(engine.asked) == asked
    assert not (tmp_path / "r").exists()


def test_claims_about_questions_are_not_about_what_was_found(whole: Run) -> None:
    name = next(name for name in whole.arms if name.startswith("target attack"))
    with pytest.raises(InputError, match="what a search found"):
        certify(whole, max_leak=0.9, arm=name)
    keyword = make_scorer("keyword")
    with pytest.raises(InputError, match="asks rewritings too, or what a search found"):
        clean_questions(whole.arms[name], keyword, 0.1, 0.99)
    assert [row[0] for row in clean_table(whole, keyword, 0.1, 0.99).texts] == ["target"]


def test_a_question_that_failed_leaves_out_what_is_said_of_all(tmp_path: Path) -> None:
    failing = AskedEngine(opened, broken=lambda query: query.prompt_id == "p1")
    with pytest.raises(IncompleteError, match="'p1'"):
        evaluate(failing, benchmark(2), out=tmp_path / "r", attack=Attack(64), **HOW)
    run = Run.open(tmp_path / "r")
    assert [one.query.id for one in read_attack_queries(run.path) or ()] == ["p0", "p1"]
    attacked = [row for row in run.estimates if row.arm.startswith("target attack")]
    assert attacked
    assert not [row for row in attacked if row.query_id is None]
    assert len(summary(run)[-1].rows) == 2


def test_a_probe_counts_the_search_and_what_follows(engine: AskedEngine) -> None:
    keyword = (make_scorer("keyword"),)
    drawing = SteeredPlan.of(Study(sampling=FixedN(100), attack=ATTACK), keyword)

    def cost(drawing: SteeredPlan) -> int:
        how: Any = {"n": drawing, "decoding": [Decoding(max_new_tokens=8)], "settings": None}
        return probe(AskedEngine(opened), benchmark(), **how).draws

    assert cost(drawing) == cost(SteeredPlan(100)) + 3 * (3_000 + 100)
