"""The main verb on an engine whose law is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine
from estimates import rows
from leakbound.benchmarks import Benchmark
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import evaluate, probe, sample, summary
from leakbound.evaluation.statements.rows import ALL_K
from leakbound.store import Run
from leakbound.types import Decoding, Prompt

LEAKS = {"p0": 0.0, "p1": 0.02, "p2": 0.3, "p3": 0.9}


def benchmark(**changes: Any) -> Benchmark:
    prompts = tuple(
        Prompt(id=p, question=f"What is {p}?", answer=f"It is secret{p}.", keywords=(f"secret{p}",))
        for p in LEAKS
    )
    settings = {"name": "mine", "scorers": ("keyword", "rouge-l-recall"), "max_new_tokens": 8}
    return Benchmark(**{"prompts": prompts, "origin": "test", **settings, **changes})


def engine(leaks: dict[str, float] = LEAKS, **settings: Any) -> CannedEngine:
    texts = {
        p: {f"It is secret{p}": leak, "I do not know": 0.7 * (1 - leak), "It is": 0.3 * (1 - leak)}
        for p, leak in leaks.items()
    }
    return CannedEngine(texts, **settings)


CONTROL = dict.fromkeys(LEAKS, 0.01)


@pytest.mark.thorough
def test_bounds_hold_the_truth_beside_a_greedy_answer_that_hides_it(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", control=engine(CONTROL, name="c"))
    assert set(run.arms) == {"greedy", "target", "control-greedy", "control"}
    leak = rows(run, arm="target", scorer="keyword", estimand="leak probability")
    each = {r.query_id: r for r in leak if r.query_id is not None}
    assert set(each) == set(LEAKS)
    for p, truth in LEAKS.items():
        assert each[p].lower <= truth <= each[p].upper
        assert each[p].n == 1024
        assert each[p].estimate.side == "both"
    greedy = rows(run, arm="greedy", scorer="keyword")
    assert {r.query_id: r.value for r in greedy} == {"p0": 0, "p1": 0, "p2": 0, "p3": 1}
    assert all(r.lower == r.upper == r.value and r.n == 1 for r in greedy)
    excess = {r.query_id: r for r in rows(run, estimand="excess leak probability")}
    assert excess["p2"].lower > 0.2
    assert excess["p0"].lower <= LEAKS["p0"] - 0.01 <= excess["p0"].upper


def test_every_quantity_is_there_for_every_question_and_arm(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64)
    target = rows(run, arm="target")
    binary = {r.quantity for r in target if r.scorer == "keyword" and r.query_id}
    ranged = {r.quantity for r in target if r.scorer == "rouge-l-recall" and r.query_id}
    both = {"standard deviation", "expectation deviation", "leak@k", "worst of k"}
    assert binary == {"leak probability", *both}
    assert ranged == {"mean leakage", "tail", *both}
    first = [r for r in target if r.scorer == "keyword" and r.query_id == "p0"]
    k = {r.parameter: r.value for r in first if r.quantity == "leak@k"}
    assert tuple(k) == ALL_K
    assert [size for size in k if k[size] is not None] == [1, 2, 4, 8, 16, 32, 64]  # never beyond n
    naive = {r.parameter: r.value for r in first if r.quantity == "worst of k"}
    assert list(naive) == [1, 2, 4, 8, 16, 32, 64]
    assert naive[1] == pytest.approx(k[1])
    for r in target:
        # an unbiased estimate of leak@k at k near n may leave the interval: it is 1 at k = n
        assert r.estimand.startswith("leak@") or r.lower <= r.value <= r.upper
        assert r.confidence == (1.0 if r.quantity == "worst of k" else 0.99)
        assert r.method


def test_the_bound_follows_the_declared_range_not_the_scores_seen(tmp_path: Path) -> None:
    nothing = CannedEngine({p: {"nothing here": 1.0} for p in LEAKS})
    run = evaluate(nothing, benchmark(), out=tmp_path / "r", n=64)
    methods = {r.scorer: r.method for r in run.estimates if r.estimand in
               ("leak probability", "mean leakage") and r.query_id}  # fmt: skip
    assert methods == {"keyword": "Clopper-Pearson", "rouge-l-recall": "finite-horizon betting"}


@pytest.mark.slow
def test_statements_about_all_questions(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r")
    about = rows(run, arm="target", scorer="keyword", query_id=None)
    mean = run.estimates.mean("leak probability")
    (over_k,) = [r for r in about if r.estimand == "leak@32"]
    known = np.array(list(LEAKS.values()))
    assert over_k.lower <= np.mean(1 - (1 - known) ** 32) <= over_k.upper
    leaking = {r.parameter: r for r in about if r.scope == "count"}
    assert all(r.lower <= (known > x).sum() <= r.upper for x, r in leaking.items())
    assert leaking[0.5].upper < 4
    worst = run.estimates.worst("leak probability")
    truth = np.mean(list(LEAKS.values()))
    assert mean.lower <= truth <= mean.upper
    assert mean.n == 4 * 1024
    assert worst.lower <= 0.9 <= worst.upper


@pytest.mark.slow
def test_a_finished_run_is_the_control_of_the_next(tmp_path: Path) -> None:
    evaluate(engine(CONTROL, name="c"), benchmark(), out=tmp_path / "c", n=128)
    second = engine(CONTROL, name="c")
    evaluate(second, benchmark(), out=tmp_path / "c", n=128)
    assert second.asked == []
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=128, control=tmp_path / "c")
    assert set(run.arms) == {"greedy", "target", "control-greedy", "control"}
    assert rows(run, arm="control", estimand="leak probability", query_id="p2")[0].value < 0.1
    assert rows(run, estimand="excess leak probability")
    own = Run.open(tmp_path / "c")
    ours, theirs = run.arms["control"], own.arms["target"]
    assert [ours.completions(p) for p in ours.parts] == [
        theirs.completions(p) for p in theirs.parts
    ] or ours.usage.draws == theirs.usage.draws


def test_a_control_about_other_questions_or_decodings_is_refused(tmp_path: Path) -> None:
    evaluate(engine(), benchmark(), out=tmp_path / "c", n=32)
    fewer = benchmark(prompts=benchmark().prompts[:2])
    with pytest.raises(MixError, match="other questions"):
        evaluate(engine(), fewer, out=tmp_path / "r", n=32, control=tmp_path / "c")
    cold = Decoding(temperature=0.5, max_new_tokens=8)
    with pytest.raises(MixError, match="drawn under"):
        evaluate(
            engine(), benchmark(), out=tmp_path / "s", n=32, decodings=cold, control=tmp_path / "c"
        )


@pytest.mark.slow
def test_lists_of_decodings_run_every_cell(tmp_path: Path) -> None:
    cells = [Decoding(temperature=t, top_p=p, max_new_tokens=8) for t in (0.5, 1) for p in (0.8, 1)]
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=32, decodings=cells)
    names = {"target T=0.5 top-p=0.8", "target T=0.5", "target T=1 top-p=0.8", "target T=1"}
    assert set(run.arms) == {"greedy", *names}
    with pytest.raises(InputError, match="the same"):
        evaluate(engine(), benchmark(), out=tmp_path / "s", decodings=[cells[0], cells[0]])


@pytest.mark.fault
def test_a_killed_run_ends_with_the_same_estimates(tmp_path: Path) -> None:
    many = benchmark()
    want = evaluate(engine(), many, out=tmp_path / "whole", n=4100, scorers=["keyword"]).estimates
    # 4 greedy answers in one part; the first question's draws in two, since first parts are small
    for dies_after, left in ((1, 9), (3, 9), (5, 4), (6, 3)):
        dying = engine(dies_after=dies_after)
        with pytest.raises(RuntimeError, match="switched off"):
            evaluate(dying, many, out=tmp_path / f"r{dies_after}", n=4100, scorers=["keyword"])
        again = engine()
        got = evaluate(
            again, many, out=tmp_path / f"r{dies_after}", n=4100, scorers=["keyword"]
        ).estimates
        assert got == want
        assert len(again.asked) == left


def test_questions_that_fail_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    broken = engine(broken=["p1"])
    with pytest.raises(
        IncompleteError,
        match=r"1 of the 4 questions could not be sampled in 2 of 2 arms.*'p1'.*NaN",
    ) as error:
        evaluate(broken, benchmark(), out=tmp_path / "r", n=64)
    assert error.value.exit_status == 3
    run = Run.open(tmp_path / "r")
    assert {r.query_id for r in run.estimates} == {"p0", "p2", "p3"}  # and no None
    (table, _) = summary(run)
    assert "incomplete" in table.texts[0]
    mended = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64)
    assert {r.query_id for r in mended.estimates} == {*LEAKS, None}


def test_bad_input_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"confidence": 1.0}, "confidence"),
        ({"n": 0}, "at least 1"),
        ({"scorers": ["rogue"]}, "rogue"),
        ({"scorers": ["keyword>=x"]}, "number"),
    ]
    for i, (settings, named) in enumerate(cases):
        asked = engine()
        with pytest.raises(InputError, match=named):
            evaluate(asked, benchmark(), out=tmp_path / f"r{i}", **settings)
        assert asked.asked == []
    unanswered = benchmark(prompts=(Prompt(id="x", question="What?"),))
    with pytest.raises(InputError, match="'x'"):
        evaluate(engine(), unanswered, out=tmp_path / "r", scorers=["rouge-l-recall"])
    with pytest.raises(InputError, match="--scorer"):
        evaluate(engine(), benchmark(scorers=()), out=tmp_path / "r")


def test_another_n_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    sample(engine(), benchmark(), out=tmp_path / "r", n=32)
    with pytest.raises(MixError, match=r"n = 32, fixed before .* says 64\..*--until"):
        sample(engine(), benchmark(), out=tmp_path / "r", n=64)


def test_a_probe_stores_nothing_and_says_what_it_would_cost() -> None:
    class Opens:
        def open(self, model: str, task: Benchmark) -> CannedEngine:
            return engine()

    cost = probe("m", benchmark(), n=6400, decoding=[Decoding(max_new_tokens=8)], settings=Opens())
    assert cost.questions == 4
    assert cost.draws == 25_600
    assert cost.seconds[0] <= cost.seconds[1]
    assert "4 questions" in cost.text()
