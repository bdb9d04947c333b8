"""`evaluate` on engines of known distribution: results, refusals, stored files and costs.

Repeated experiments use the default seed and independent draws: each engine has its own name, as
users' models have their own weights.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from canned import CannedEngine, benchmark_of
from contents import EXCESS, rows
from exploring import HYBRID, ExploringEngine
from exploring import benchmark as explored_benchmark
from leakbound.benchmarks import Benchmark
from leakbound.bounding.rows import ALL_K
from leakbound.certificate import certify
from leakbound.drawing.probe import Cost
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation import evaluate, prepared, probe, summary
from leakbound.planning.plan import require_confidence
from leakbound.store import Run
from leakbound.study import Attack, FixedN, Rewritings, Study
from leakbound.types import Decoding

LEAKS = {"p0": 0.0, "p1": 0.02, "p2": 0.3, "p3": 0.9}
CONTROL = dict.fromkeys(LEAKS, 0.01)


def benchmark(**changes: Any) -> Benchmark:
    scorers = {"scorers": ("keyword", "rouge-l-recall"), **changes}
    return benchmark_of(LEAKS, answer="It is secret{}.", keywords=("secret{}",), **scorers)


def engine(leaks: dict[str, float] = LEAKS, **settings: Any) -> CannedEngine:
    texts = {
        p: {f"It is secret{p}": leak, "I do not know": 0.7 * (1 - leak), "It is": 0.3 * (1 - leak)}
        for p, leak in leaks.items()
    }
    return CannedEngine(texts, **settings)


@pytest.mark.thorough
def test_bounds_contain_a_truth_that_the_greedy_answer_hides(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", control=engine(CONTROL, name="c"))
    assert set(run.arms) == {"greedy", "target", "control-greedy", "control"}
    each = run.estimates.each("leak probability")
    for row, (p, truth) in zip(each, LEAKS.items(), strict=True):
        assert (row.query_id, row.n, row.estimate.side) == (p, 1024, "both")
        assert row.lower <= truth <= row.upper
    greedy = rows(run, arm="greedy", scorer="keyword")
    assert {r.query_id: r.value for r in greedy} == {"p0": 0, "p1": 0, "p2": 0, "p3": 1}
    assert all(r.lower == r.upper == r.value and r.n == 1 for r in greedy)
    excess = {r.query_id: r for r in rows(run, **EXCESS)}
    assert excess["p2"].lower > 0.2
    assert excess["p0"].lower <= LEAKS["p0"] - 0.01 <= excess["p0"].upper
    about = rows(run, arm="target", scorer="keyword", query_id=None)
    mean, worst = (f("leak probability") for f in (run.estimates.mean, run.estimates.worst))
    over_k = run.estimates.mean("leak@k", parameter=32)
    known = np.array(list(LEAKS.values()))
    assert over_k.lower <= np.mean(1 - (1 - known) ** 32) <= over_k.upper
    leaking = {r.parameter: r for r in about if r.scope == "count"}
    assert all(r.lower <= (known > x).sum() <= r.upper for x, r in leaking.items())
    assert leaking[0.5].upper < 4
    assert mean.lower <= known.mean() <= mean.upper
    assert mean.n == 4 * 1024
    assert worst.lower <= 0.9 <= worst.upper


def test_every_question_and_arm_has_every_quantity(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64)
    target = rows(run, arm="target")
    binary = {r.quantity for r in target if r.scorer == "keyword" and r.query_id}
    ranged = {r.quantity for r in target if r.scorer == "rouge-l-recall" and r.query_id}
    both = {"standard deviation", "expectation deviation", "leak@k", "worst of k"}
    assert binary == {"leak probability", *both}
    assert ranged == {"mean leakage", "median", "tail", *both}
    first = [r for r in target if r.scorer == "keyword" and r.query_id == "p0"]
    k = {r.parameter: r.value for r in first if r.quantity == "leak@k"}
    assert tuple(k) == ALL_K
    assert [size for size in k if k[size] is not None] == [1, 2, 4, 8, 16]  # to n/4
    naive = {r.parameter: r.value for r in first if r.quantity == "worst of k"}
    assert list(naive) == [1, 2, 4, 8, 16]
    assert naive[1] == pytest.approx(k[1])
    for r in target:
        # an unbiased estimate of leak@k at k near n may leave the interval: it is 1 at k = n
        assert r.quantity == "leak@k" or r.lower <= r.value <= r.upper
        assert r.confidence == (1.0 if r.quantity == "worst of k" else 0.99)
        assert r.method


def test_the_weight_of_the_deviation_is_an_option_and_is_stated(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64, rho=0.5)
    for rho in (0.5, 3.0):
        stated = rows(run, quantity="expectation deviation")
        assert {row.estimand for row in stated} == {f"mean + {rho:g} standard deviations"}
        assert {row.scorer for row in stated} == {"keyword", "rouge-l-recall"}
        for row in rows(run, quantity="expectation deviation", query_id="p2", scorer="keyword"):
            p = run.estimates.where(query_id="p2", scope="query", quantity="leak probability")
            value = p.first(arm="target", scorer="keyword").value
            assert row.value == pytest.approx(value + rho * (value * (1 - value)) ** 0.5)
        assert f"ED is the mean plus {rho:g} standard deviations" in summary(run)[0].note
        assert run.study.rho == rho
        drawn = run.arms["target"].usage
        run = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64, rho=3.0)
        assert run.arms["target"].usage == drawn
    with pytest.raises(InputError, match="`rho` must be a number >= 0, got -1"):
        Study(rho=-1)


def test_the_bound_depends_on_the_declared_range_of_scores(tmp_path: Path) -> None:
    nothing = CannedEngine({p: {"nothing here": 1.0} for p in LEAKS})
    run = evaluate(nothing, benchmark(), out=tmp_path / "r", n=64)
    leakage = rows(run, quantity=("leak probability", "mean leakage"), scope="query")
    assert {r.scorer: r.method for r in leakage} == {
        "keyword": "Clopper-Pearson",
        "rouge-l-recall": "finite-horizon betting",
    }


def test_failed_questions_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    shown = r"1 of the 4 questions could not be sampled in 2 of 2 arms.*'p1'.*NaN"
    with pytest.raises(IncompleteError, match=shown) as error:
        evaluate(engine(broken=["p1"]), benchmark(), out=tmp_path / "r", n=64)
    assert error.value.exit_status == 3
    run = Run.open(tmp_path / "r")
    assert {r.query_id for r in run.estimates} == {"p0", "p2", "p3"}  # and no None
    (table, _) = summary(run)
    assert "incomplete" in table.texts[0]
    mended = evaluate(engine(), benchmark(), out=tmp_path / "r", n=64)
    assert {r.query_id for r in mended.estimates} == {*LEAKS, None}


def test_a_probe_counts_all_draws() -> None:
    def cost(n: int, **fields: Any) -> Cost:
        how: Any = {"decodings": (Decoding(max_new_tokens=8),), "scorers": ("keyword",)}
        ready = prepared(Study(benchmark(), sampling=FixedN(n), **how, **fields))
        return probe(ready, engine())

    plain = cost(6400)
    assert (plain.questions, plain.parts, plain.draws) == (4, 7, 25_604)  # and greedy answers
    assert plain.text().startswith("4 questions, 1 decoding, 25,604 draws in 7 parts; about 0 tok")
    rules, ids = (Rewritings("rules", queries=3, ids=i, ids_draws=256) for i in (False, True))
    assert cost(100, rewritings=rules).draws == 804
    assert cost(100, rewritings=ids).draws == 804 + 4 * 4 * 256
    assert cost(100, attack=Attack(3_000)).draws == 404 + 4 * (3_000 + 100)


@pytest.mark.thorough
def test_intervals_of_many_experiments_cover(tmp_path: Path) -> None:
    p, k = 0.0245, 32
    task = benchmark_of([f"p{i}" for i in range(40)], keywords=("secret",))
    truth = {
        ("leak probability", None): p,
        ("standard deviation", None): (p * (1 - p)) ** 0.5,
        ("expectation deviation", None): p + 2 * (p * (1 - p)) ** 0.5,
        ("leak@k", k): 1 - (1 - p) ** k,
    }
    missed, made = dict.fromkeys(truth, 0), dict.fromkeys(truth, 0)
    together = 0
    for experiment in range(8):
        texts = {prompt.id: {"the secret": p, "no": 1 - p} for prompt in task.prompts}
        model = CannedEngine(texts, name=f"model {experiment}")
        run = evaluate(model, task, out=tmp_path / str(experiment), n=100, seed=experiment)
        for row in rows(run, arm="target", scope=("query", "mean")):
            name = row.quantity, row.parameter
            if name not in truth:
                continue
            outside = not row.lower - 1e-12 <= truth[name] <= row.upper + 1e-12
            if row.query_id is None:
                together += outside
            else:
                made[name] += 1
                missed[name] += outside
    assert together <= 1  # the mean, and the mean leak@32, of 8 experiments each at 99 %
    for name, number in made.items():
        assert missed[name] <= binom.ppf(1 - 1e-4, max(number, 1), 0.01), name


NEAREST = 0.9999999999798  # the value in the message below
LAW = {"a red fox": 0.1, "a red cat": 0.2, "no": 0.7}
TWO = benchmark_of(
    ["p0", "p1"], answer="red fox", keywords=("fox",), scorers=("rouge-l-recall",), name="two"
)


def fox(name: str) -> CannedEngine:
    return CannedEngine(defaultdict(lambda: LAW), name=name)


def test_a_confidence_too_near_1_is_refused_before_draws(tmp_path: Path) -> None:
    wanted = fox("model")
    with pytest.raises(InputError, match=rf"too near 1, got 0.99999999999. .*Use {NEAREST} or"):
        evaluate(wanted, TWO, out=tmp_path / "r", n=4, confidence=0.99999999999)
    assert wanted.queried == []
    run = evaluate(wanted, TWO, out=tmp_path / "r", n=4, control=fox("none"), confidence=NEAREST)
    assert min(row.confidence for row in run.estimates) == pytest.approx(NEAREST, abs=1e-15)
    with pytest.raises(InputError, match="too near 1"):
        certify(run, max_leak=0.5, confidence=0.99999999999)
    require_confidence(1 - 1e-10, 400)
    with pytest.raises(InputError, match=r"5,000 questions, .* at least 2e-10. Use .* or less"):
        require_confidence(1 - 1e-10, 5_000)


@pytest.mark.parametrize("how", ["allocated", "fixed", "explored"])
def test_pools_and_explored_bands_take_the_same_confidence(how: Any, tmp_path: Path) -> None:
    """A confidence that is not refused in advance never fails later."""
    if how == "explored":
        task, wanted = explored_benchmark(), HYBRID
        run = evaluate(ExploringEngine(), task, out=tmp_path / "r", confidence=NEAREST, **wanted)
    else:
        inputs = Rewritings("rules", queries=3, design=how)
        run = evaluate(
            fox("m"), TWO, out=tmp_path / "r", n=4, rewritings=inputs, confidence=NEAREST
        )
    assert min(row.confidence for row in run.estimates) == pytest.approx(NEAREST, abs=1e-15)
