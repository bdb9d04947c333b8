"""The excess over a control: by differences only where the records show that nothing is shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from scipy.stats import binom

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.comparisons import share_nothing
from leakbound.evaluation.statements.evidence import ArmEvidence
from leakbound.scorers import make_scorer
from leakbound.stats import excess, excess_bound, excess_over_questions, proportion_bound
from leakbound.store import ImportedDraws, Run
from leakbound.study import Until
from leakbound.types import Prompt

IDS = ("p0", "p1", "p2")
LEAKS = {"p0": 0.6, "p1": 0.1, "p2": 0.0}
BASE = 0.05
DIFFERENCES = "betting on differences"
BY_THEMSELVES = "Clopper-Pearson"
HOW: dict[str, Any] = {"scorers": ["keyword"]}


def benchmark() -> Benchmark:
    prompts = tuple(Prompt(id=i, question=f"What is {i}?", keywords=("secret",)) for i in IDS)
    return Benchmark(name="b", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=8)


def engine(name: str, leaks: dict[str, float] | None = None) -> CannedEngine:
    leaks = LEAKS if leaks is None else leaks
    laws = {i: {"the secret": p, "no": 1 - p} for i, p in leaks.items()}
    return CannedEngine(laws, name=name)


def clean(name: str = "c") -> CannedEngine:
    return engine(name, dict.fromkeys(IDS, BASE))


def excesses(run: Run) -> dict[str | None, dict[str, Any]]:
    """By question; of all of them the mean, and under "worst" the largest."""
    return {
        "worst" if "largest" in row.estimand else row.query_id: row
        for row in run.estimates
        if row.estimand.startswith("excess") and row.arm == "target" and not row.about.jointly
    }


def methods(run: Run) -> set[str]:
    return {row.method for row in excesses(run).values()}


def test_a_control_drawn_beside_the_target_is_bet_against(tmp_path: Path) -> None:
    run = evaluate(engine("m"), benchmark(), out=tmp_path / "r", n=64, control=clean(), **HOW)
    found = excesses(run)
    assert methods(run) == {DIFFERENCES, f"{DIFFERENCES}, in rounds"}
    assert set(found) == {*IDS, None, "worst"}
    scorer = make_scorer("keyword")
    target, control = (ArmEvidence(run.arms[name], scorer).known for name in ("target", "control"))
    mine, other = target.scores, control.scores
    how: dict[str, Any] = {"confidence": 0.99, "side": "both", "seed": target.keys}  # type: ignore[attr-defined]
    given = mine.scores, other.scores, mine.counts, other.counts
    each, mean = excess_bound(*given, **how), excess_over_questions(*given, **how)
    below = excess_bound(*given, **how | {"side": "lower", "confidence": 1 - 0.9 * 0.005})
    for i, query_id in enumerate(IDS):
        row = found[query_id]
        assert (row.lower, row.upper) == (below.lower[i], each.upper[i])  # type: ignore[index]
        assert (row.estimand, row.confidence) == ("excess leak probability", 0.99)
        assert row.lower <= LEAKS[query_id] - BASE <= row.upper
    least = excess_over_questions(*given, **how | {"side": "lower", "confidence": 1 - 0.9 * 0.0025})
    assert found[None].lower == pytest.approx(least.lower, abs=1e-12)
    assert found[None].upper == mean.upper
    assert found[None].target == "the mean over these questions under this decoding, " + BEYOND
    assert found["worst"].target.startswith("the worst of these questions")
    assert found["worst"].upper == max(each.upper)  # type: ignore[arg-type]
    assert 0 < found["worst"].lower < max(each.lower)  # type: ignore[arg-type]


BEYOND = "beyond the control"


def test_of_questions_that_equal_the_control_none_is_picked_by_joint_lower_ends(
    tmp_path: Path,
) -> None:
    """One by one some are: a hundred alike ones at 90 % are picked by chance, five or so."""
    ids = [f"q{i}" for i in range(100)]
    prompts = tuple(Prompt(id=i, question=f"What is {i}?", keywords=("secret",)) for i in ids)
    asked = replace(benchmark(), prompts=prompts)
    alike = dict.fromkeys(ids, 0.3)
    how = {"n": 64, "confidence": 0.9, "seed": 7}
    run = evaluate(engine("m", alike), asked, out=tmp_path / "r", control=engine("c", alike), **how)
    rows = [row for row in run.estimates if row.about.beyond and row.query_id is not None]
    singly = [row for row in rows if not row.about.jointly and row.lower > 0]
    jointly = [row for row in rows if row.about.jointly]
    assert len(jointly) == 100
    assert singly
    assert not any(row.lower > 0 for row in jointly)


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["same seed", "another"]
)
def test_a_finished_control_shares_no_random_numbers(seed: int, tmp_path: Path) -> None:
    """Both were drawn for the same purpose, but each model has keys of its own."""
    control = tmp_path / "c"
    evaluate(clean(), benchmark(), out=control, n=64, seed=seed, **HOW)
    run = evaluate(engine("m"), benchmark(), out=tmp_path / "r", n=64, control=control, **HOW)
    assert all(method.startswith(DIFFERENCES) for method in methods(run))
    target, other = run.arms["target"], run.arms["control"]
    assert (target.purpose, other.purpose) == ("score:target:m", "score:target:c")
    assert share_nothing([target], [other])


@pytest.mark.parametrize("seed", [0, 1])
def test_draws_keyed_by_their_purpose_alone_are_shared_under_one_seed(
    seed: int, tmp_path: Path
) -> None:
    """Those of runs that were begun before the model keyed them, and of models nobody can name."""
    with patch("leakbound.evaluation.drawing.sample.KEYED_BY", "purpose"):
        control = tmp_path / "c"
        evaluate(clean(), benchmark(), out=control, n=64, seed=seed, **HOW)
        run = evaluate(engine("m"), benchmark(), out=tmp_path / "r", n=64, control=control, **HOW)
    shown = DIFFERENCES if seed else BY_THEMSELVES
    assert all(method.startswith(shown) for method in methods(run))
    target, other = run.arms["target"], run.arms["control"]
    assert target.purpose == other.purpose == "score:target"
    assert share_nothing([target], [other]) == bool(seed)


def test_of_draws_from_elsewhere_nothing_is_known(tmp_path: Path) -> None:
    run = evaluate(engine("m"), benchmark(), out=tmp_path / "r", n=64, control=clean(), **HOW)
    target, control = run.arms["target"], run.arms["control"]
    assert share_nothing([target], [control])
    assert not share_nothing([target], [target])
    assert not share_nothing([target, control], [control])
    elsewhere = ImportedDraws(order=1, sampled_by="another tool")
    for changed in ({"draws": elsewhere}, {"seed": None}):
        control.spec = replace(control.spec, **changed)
        assert not share_nothing([target], [control])
        control = run.arms["control"]


@pytest.mark.slow
def test_few_draws_and_stopped_ones_are_bounded_by_themselves(tmp_path: Path) -> None:
    few = evaluate(engine("m"), benchmark(), out=tmp_path / "f", n=31, control=clean(), **HOW)
    assert all(method.startswith(BY_THEMSELVES) for method in methods(few))
    pair = [few.arms[name].scores(slug(make_scorer("keyword"))) for name in ("target", "control")]
    # of the lower end's alpha a tenth is the control's alone, beside what may be proved
    lower, upper = (
        excess(*(proportion_bound(s.hits, s.n, confidence=c, side="both") for s in pair))
        for c in (1 - 0.9 * 0.005, 0.995)
    )
    for i, query_id in enumerate(IDS):
        row = excesses(few)[query_id]
        assert row.lower == pytest.approx(lower.lower[i], abs=1e-12)  # type: ignore[index]
        assert row.upper == pytest.approx(upper.upper[i], abs=1e-12)  # type: ignore[index]
    until = evaluate(
        engine("m"),
        benchmark(),
        out=tmp_path / "u",
        sampling=Until("p<=0.2", 64),
        control=clean(),
        **HOW,
    )
    assert not any(DIFFERENCES in method for method in methods(until))


@pytest.mark.parametrize(
    ("n", "experiments"), [(32, 4), pytest.param(64, 40, marks=pytest.mark.slow)]
)
@pytest.mark.thorough
def test_excesses_of_many_experiments_hold(tmp_path: Path, n: int, experiments: int) -> None:
    """Through `evaluate`, target and control under one seed, as users keep it."""
    missed = together = made = 0
    for i in range(experiments):
        run = evaluate(
            engine(f"m{i}"), benchmark(), out=tmp_path / f"{i}", n=n, control=clean(f"c{i}"),
            confidence=0.8, seed=i, **HOW,
        )  # fmt: skip
        found = excesses(run)
        for query_id in IDS:
            row, truth = found[query_id], LEAKS[query_id] - BASE
            missed += not row.lower <= truth <= row.upper
            made += 1
        mean = sum(LEAKS.values()) / 3 - BASE
        together += not found[None].lower <= mean <= found[None].upper
        together += not found["worst"].lower <= 0.6 - BASE <= found["worst"].upper
    assert missed <= binom.ppf(1 - 1e-4, made, 0.2)
    assert together <= binom.ppf(1 - 1e-4, 2 * experiments, 0.2)
