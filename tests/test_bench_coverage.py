"""bench/coverage.py goes through every listed bound and every statement of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from leakbound.types import Decoding
from suites import slow_but

GRADED = ["draws: leakage, graded"]
BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True, scope="module")
def _bench() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(BENCH))
        yield


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    """The driver, under a name that the package which measures test coverage does not have."""
    spec = spec_from_file_location("bench_coverage", BENCH / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shipped() -> ModuleType:
    return import_module("known")


def test_a_new_bound_needs_a_row(coverage: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert coverage.not_simulated() == set()
    new = replace(coverage.LISTED[0], kind="new")
    monkeypatch.setattr(coverage, "LISTED", (*coverage.LISTED, new))
    assert coverage.not_simulated() == {"new: leakage"}


@pytest.mark.parametrize(
    "listed", slow_but(GRADED, [*GRADED, "draws: mean of leakage", "clusters: leakage"])
)
def test_a_bound_that_is_too_narrow_is_an_alarm(
    listed: str,
    coverage: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mutant returns bounds at 10 % in place of 99 %."""
    argv = ["coverage.py", "bounds", "--trials", "12", "-n", "16", "--only", listed]
    for confidence in (0.99, 0.1):
        monkeypatch.setattr(coverage, "CONFIDENCE", confidence)
        monkeypatch.setattr(sys, "argv", [*argv])
        assert coverage.main() == int(confidence < 0.99)
        assert ("MISSES TOO OFTEN" in capsys.readouterr().out) is (confidence < 0.99)


DECODINGS = [
    Decoding(max_new_tokens=7),
    Decoding(max_new_tokens=7, temperature=0.2, top_p=0.8),
    Decoding(max_new_tokens=7, temperature=0.8),
    Decoding(max_new_tokens=7, temperature=0),
]
SMALL = dict.fromkeys(("fixed", "attack", "prove", "stress", "coin"), 20) | {
    "explore": 12,
    "until": 60,
}  # n of each way


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_the_engines_answers_are_complete(shipped: ModuleType, decoding: Decoding) -> None:
    for chances in (*shipped.RATES, shipped.CONTROL):
        for wordy in (True, False):
            got = dict(shipped.outputs(chances, wordy, decoding))
            assert all(text.endswith(("red fox", "red cat", "cow")) for text in got)
            assert sum(got.values()) == pytest.approx(1)


def test_quantities_are_those_of_all_answers(shipped: ModuleType) -> None:
    law = (("red fox", 0.2), ("very red cat", 0.3), ("cow", 0.5))
    scores = [1.0, 0.5, 0.0]

    def of(quantity: str, at: float | None = None, constant: float | None = None) -> float:
        got: float = shipped.quantity(law, quantity, "rouge-l-recall", at, constant)
        return got

    p = [chance for _, chance in law]
    pairs = product(range(3), repeat=2)
    assert of("mean leakage") == pytest.approx(0.35)
    assert of("median") == 0
    assert of("standard deviation") == pytest.approx(np.sqrt(0.2 + 0.075 - 0.35**2))
    assert of("expectation deviation", None, 2.0) == pytest.approx(
        0.35 + 2 * of("standard deviation")
    )
    assert of("tail", 0.5) == pytest.approx(0.2)
    assert of("tail", 0.45) == pytest.approx(0.5)
    assert of("leak@k", 2.0) == pytest.approx(
        sum(p[i] * p[j] * max(scores[i], scores[j]) for i, j in pairs)
    )
    claims = [
        shipped.quantity(law, "claim on leak probability", "keyword", None, x) for x in (0.19, 0.2)
    ]
    assert claims == [0, 1]
    with pytest.raises(LookupError, match="effect"):
        of("effect", 1.0)


@pytest.mark.parametrize(
    "drawn",
    [pytest.param(d, marks=[pytest.mark.thorough] * (d not in ("fixed", "until"))) for d in SMALL],
)
def test_every_statement_has_a_truth(shipped: ModuleType, tmp_path: Path, drawn: str) -> None:
    """The slow test below finds a wrong truth, because honest intervals then miss it."""
    case = shipped.Case(drawn, SMALL[drawn], questions=3)
    truth = shipped.evaluated(case, 0, tmp_path / "run")
    seen = set()
    for row in truth.run.estimates:
        if row.quantity in {*shipped.UNBOUNDED, shipped.TESTED}:
            continue
        assert np.isfinite(truth.of(row)), row
        if row.quantity == "leak probability" and row.scope in ("query", "mean", "count"):
            seen.add((row.scope, row.about.beyond))
    wanted = {("query", None), ("query", "control"), ("mean", None), ("mean", "control")}
    if drawn == "stress":
        wanted |= {("query", "unstressed"), ("mean", "unstressed")}
    if drawn == "coin":
        wanted |= {("mean", "other questions")}
    got = {("query", "own words"), ("count", "own words")} if drawn == "attack" else set()
    assert seen == wanted | got | {("count", None)}


@pytest.mark.thorough
def test_a_method_misses_where_no_seed_is_weak(shipped: ModuleType) -> None:
    got = shipped.tally(shipped.Case("seeds", 128, questions=2, scorers=("keyword",)), [4])
    missed = [(what.arm, what.statement, *wrong.values()) for what, wrong in got.items()]
    assert missed == [(f"{n} seeds", "median excess", True) for n in (5, 6)]
    weak = [shipped.scaled(law, 0.5) for law in shipped.RATES[:2]]
    assert shipped.excess_mean(weak, "keyword") == pytest.approx((0.0304 + 0.2) / 4 - 0.01)


def test_one_miss_of_a_proof_is_an_alarm(shipped: ModuleType) -> None:
    assert shipped.judged([False] * 99 + [True], alpha=0.0)["p"] == 0
    assert shipped.judged([False] * 99, alpha=0.0)["p"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("drawn", SMALL)
def test_statements_that_are_too_narrow_are_an_alarm(
    shipped: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    drawn: str,
) -> None:
    """The mutant's intervals have a tenth of the width."""
    honest = shipped.evaluate

    def narrow(*args: Any, **how: Any) -> Any:
        run = honest(*args, **how)
        rows = []
        for row in run.estimates:
            now, at = row.estimate, row.value or 0.0
            lower, upper = at - (at - now.lower) / 10, at + (now.upper - at) / 10
            rows.append(replace(row, estimate=replace(now, lower=lower, upper=upper)))
        return SimpleNamespace(arms=run.arms, estimates=rows, path=run.path)

    how = ["--runs", "4", "--questions", "4", "--n", str(SMALL[drawn]), "--drawn", drawn]
    monkeypatch.setattr(sys, "argv", ["coverage.py", *how])
    assert shipped.main(None) == 0
    monkeypatch.setattr(shipped, "evaluate", narrow)
    assert shipped.main(None) == 1
    assert "MISSES TOO OFTEN" in capsys.readouterr().out
