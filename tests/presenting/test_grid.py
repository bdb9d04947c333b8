"""A grid of decodings: joint cells, the cell that leaks most, and the effect of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import SpyEngine, benchmark_of
from explored import explored_run
from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence, drawn_of
from leakbound.bounding.grid import GRID, grid_rows
from leakbound.errors import IncompleteError
from leakbound.evaluation import evaluate, sample, score_run, scorers_for, summary
from leakbound.presenting.table import Table, interval
from leakbound.presenting.tables import decodings_table
from leakbound.presenting.view import read_view
from leakbound.reporting.page import render
from leakbound.scorers import make_scorer
from leakbound.scoring.ordering import order_of
from leakbound.scoring.score import score_arm, slug
from leakbound.store import EstimateRow, Run
from leakbound.study import Until
from leakbound.types import Decoding, Prompt
from suites import slow_but

N = 256
TEMPERATURES, TOP_PS = (1.5, 0.5, 1.0), (1.0, 0.8)  # in no order


def leak(decoding: Decoding) -> float:
    """Temperature has a large effect, top-p a small one."""
    return 0.4 * decoding.temperature + 0.3 * (decoding.top_p - 0.8)


def benchmark(*questions: str) -> Benchmark:
    return benchmark_of(questions or ("p0", "p1"), answer="hush", scorers=("contains",))


def engine(**settings: Any) -> SpyEngine:
    return SpyEngine(lambda query, decoding: leak(decoding), **settings)


def cells(temperatures: Sequence[float], top_ps: Sequence[float]) -> list[Decoding]:
    pairs = product(temperatures, top_ps)
    return [Decoding(temperature=t, top_p=p, max_new_tokens=8) for t, p in pairs]


def run_of(out: Path, decodings: Sequence[Decoding], *questions: str, **settings: Any) -> Run:
    return evaluate(engine(), benchmark(*questions), out=out, decodings=decodings, **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A grid of six, with only its own estimates."""
    out, decodings = tmp_path_factory.mktemp("grid") / "run", cells(TEMPERATURES, TOP_PS)
    run = sample(engine(), benchmark(), out=out, n=N, decodings=decodings)
    scorers = scorers_for(["contains", "rouge-l-recall"], run.prompts)
    score_run(run, scorers)
    rows = list(grid_rows(RunEvidence(run, scorers[0], run.arms), 0.99))
    known = [
        [arm.name, s.name, slug(s), arm.digests(s.name, slug(s))]
        for arm in run.arms.values()
        for s in scorers
    ]
    run.write_estimates(rows, {"confidence": 0.99, "scores": known, "scorers": {}})
    return run


def rows_of(run: Run, scorer: str = "contains", confidence: float = 0.99) -> list[EstimateRow]:
    return list(grid_rows(RunEvidence(run, make_scorer(scorer), run.arms), confidence))


@pytest.fixture(scope="module")
def cells_of_run(run: Run) -> list[EstimateRow]:
    return [*run.estimates]


def joint_cells(
    rows: Sequence[EstimateRow], parameter: int | None = None
) -> dict[str, EstimateRow]:
    return {
        row.arm: row
        for row in rows
        if row.about.jointly and row.scope == "mean" and row.parameter == parameter
    }


@pytest.mark.parametrize(
    "kind",
    slow_but(["contains", "explored"], ["contains", "rouge-l-recall", "explored", "stopped"]),
)
def test_cells_pay_for_each_other(run: Run, kind: str, tmp_path: Path) -> None:
    """Each has its part of alpha, and all are valid simultaneously at alpha."""
    name = kind if kind == "rouge-l-recall" else "contains"
    scorer, pair = make_scorer(name), cells((0.5, 1.0), (1.0,))
    if kind == "explored":
        run = explored_run(tmp_path / "run", pair)
    elif kind == "stopped":
        run = run_of(tmp_path / "run", pair, sampling=Until("p<=0.35", 512))
    rows = rows_of(run, name)
    got = joint_cells(rows)
    arms = [arm for arm in run.arms.values() if arm.name.startswith("target")]
    assert list(got) == [arm.name for arm in arms]
    terms: Any = {"confidence": 1 - 0.01 / len(arms), "side": "both"}
    for arm in arms[::3]:
        drawn = arm.scores(slug(scorer), binary=scorer.binary)
        order, cell = order_of(arm, scorer), got[arm.name]
        if kind == "explored":
            masses = arm.masses.by_query(slug(scorer))
            known = stats.Masses.of([masses[q] for q in drawn.ids], drawn)
            alone = Drawn(known, order=order).mean(**terms)
        elif kind == "stopped":
            alone = Drawn(stats.Stopped(drawn, 512)).mean(**terms)
        else:
            seed = order(drawn.ids)
            alone = stats.bound(drawn, stats.LEAKAGE.mean(), seed=seed, **terms)
            assert cell.lower < leak(arm.decoding) < cell.upper
        assert (cell.lower, cell.upper) == pytest.approx((alone.lower, alone.upper), abs=1e-12)
        assert (cell.confidence, cell.estimate.stopping == "fixed n") == (0.99, kind != "stopped")
        if name == kind == "contains":
            of_k = stats.bound(drawn, stats.leak_at(32).mean(), **terms)
            repeated = joint_cells(rows, parameter=32)[arm.name]
            ends = (of_k.lower, of_k.upper)
            assert (repeated.lower, repeated.upper) == pytest.approx(ends, abs=1e-12)
    if kind in ("explored", "stopped"):  # enough blocks if n were fixed
        assert not [row for row in rows if row.parameter]


def test_few_draws_shorten_k(tmp_path: Path) -> None:
    eight = [f"q{i}" for i in range(8)]
    for wanted, blocks in ((eight, 2), (eight[:7], 0)):
        run = run_of(tmp_path / f"{len(wanted)}", cells((0.5, 1.0), (1.0,)), *wanted, n=8)
        assert len(joint_cells(rows_of(run), parameter=8)) == blocks


def test_the_worst_decoding_is_corrected(run: Run, cells_of_run: list[EstimateRow]) -> None:
    (most,) = (row for row in cells_of_run if row.scope == "most-leaking decoding")
    got = joint_cells(cells_of_run)
    assert most.arm == "target T=1.5"
    assert most.estimate.lower == got[most.arm].lower
    draws = drawn_of(run.arms[most.arm], make_scorer("contains"))
    free = draws.mean(confidence=0.995, side="upper")
    assert most.estimate.upper == free.upper < got[most.arm].upper
    assert (most.value, most.confidence) == (got[most.arm].value, 0.99)


def test_effects_follow_from_the_cells(cells_of_run: list[EstimateRow]) -> None:
    got = joint_cells(cells_of_run)
    names = [[f"target T={t}{p}" for p in (" top-p=0.8", "")] for t in ("0.5", "1", "1.5")]
    ends = (
        [[getattr(got[name], end) for name in line] for line in names]
        for end in ("lower", "upper", "value")
    )
    effects = stats.two_way(*ends, "temperature", "top-p", 0.99).estimates
    assert [row.estimate for row in cells_of_run if row.arm == GRID] == [*effects]
    truth = 0.4 * np.std([0.5, 1.0, 1.5]), 0.3 * np.std([0.8, 1.0]), 0.0
    assert all(e.lower <= t <= e.upper for e, t in zip(effects, truth, strict=True))
    assert effects[0].lower > effects[1].upper


def grid_table(run: Run) -> Table:
    return next(table for table in summary(run) if "by decoding" in table.title)


def test_the_table_names_the_larger_effect(run: Run, cells_of_run: list[EstimateRow]) -> None:
    table = grid_table(run)
    (grid, *_) = read_view(run).grids
    assert table.rows == decodings_table(grid).only(*table.columns).rows  # as on a page
    assert table.columns == ("Decoding", "Mean over the questions", "leak@32")
    names = [f"T={t}, top-p={p}" for t in ("0.5", "1", "1.5") for p in ("0.8", "1")]
    assert sorted(row[0] for row in table.texts) == names
    cell = joint_cells(cells_of_run)["target T=1.5 top-p=0.8"]
    (got,) = (row for row in table.texts if row[0] == "T=1.5, top-p=0.8")
    assert got[1] == interval(cell)
    assert "the decoding with the largest observed leakage is T=1.5, with " in table.note
    assert "temperature has a larger effect on the leakage than top-p: 0." in table.note
    assert "simultaneously at 99 % confidence" in table.note


def test_close_effects_are_undecided_and_one_knob_has_none(tmp_path: Path) -> None:
    run = run_of(tmp_path / "both", cells((1.0, 1.1), (0.9, 1.0)), n=16)
    says = "it is not shown which of temperature and top-p has the larger effect"
    assert says in grid_table(run).note
    run = run_of(tmp_path / "one", cells((0.5, 1.0), (1.0,)), n=32)
    assert not [row for row in rows_of(run) if row.arm == GRID]
    table = grid_table(run)
    assert len(table.rows) == 2
    most = run.estimates.first(scope="most-leaking decoding")
    says = f"of 2 decodings, T=1 leaks most: mean leak probability {interval(most)}"
    assert " OF 64 DRAWS LEAK at T=0.5 (no control" in run.verdict.headline
    assert says in run.verdict.lines
    assert says in render(read_view({"r": run})).replace("\N{NO-BREAK SPACE}", " ")


def test_decodings_that_are_no_grid_have_cells_but_no_effects(tmp_path: Path) -> None:
    gap, *others = cells((0.5, 1.5), (1.0, 0.8))
    odd = [[replace(gap, top_p=0.9), *others], [replace(gap, top_k=5), *others], [others[0]]]
    for number, (decodings, got) in enumerate(zip(odd, (4, 4, 0), strict=True)):
        run = run_of(tmp_path / f"run{number}", decodings, n=4)
        rows = rows_of(run)
        assert len(joint_cells(rows)) == got
        assert not [row for row in rows if row.arm == GRID]
        assert read_view(run).grids == ()


def test_fewer_questions_have_no_grid(tmp_path: Path) -> None:
    half, decodings = engine(broken=lambda query: query.id == "p1"), cells((0.5, 1.0), (1.0,))
    with pytest.raises(IncompleteError):
        evaluate(half, benchmark(), out=tmp_path / "run", n=16, decodings=decodings)
    run = Run.open(tmp_path / "run")
    assert rows_of(run) == []
    assert read_view(run).grids == ()


class Undecided:
    name, binary = "undecided", True

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        assert isinstance(prompt, Prompt)
        return [None if prompt.id == "p0" else 1.0] * len(texts)


def test_a_greedy_cell_is_exact_unless_it_has_no_score(tmp_path: Path) -> None:
    run, scorer = run_of(tmp_path / "run", cells((0.0, 1.0), (1.0,)), n=128), Undecided()
    for parameter in (None, 32):
        greedy = joint_cells(rows_of(run), parameter)["target greedy"]
        assert greedy.lower == greedy.value == greedy.upper == 0.0
    for arm in run.arms.values():
        score_arm(arm, scorer)
    greedy = joint_cells(list(grid_rows(RunEvidence(run, scorer, run.arms), 0.99)))["target greedy"]
    assert (greedy.lower, greedy.value, greedy.upper) == (0.5, 1.0, 1.0)
