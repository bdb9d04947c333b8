"""Sampling that stops when a claim is decided: fewer draws, valid bounds, the same looks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine, benchmark_of
from contents import EXCESS, PROBABILITY, counts, rows
from leakbound import stats
from leakbound.bounding.rows import ALL_K
from leakbound.drawing import parts
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import bound_run, evaluate, score_run, scorers_for, summary
from leakbound.scoring.checks import require_fixed_n, require_sampled
from leakbound.store import Arm, FixedDraws, Run, StoppedDraws, write_sealed
from leakbound.study import Until
from leakbound.testing import FakeScorer
from leakbound.types import Decoding, Draws, Query

LEAKS = {"p0": 0.0, "p1": 0.2, "p2": 0.5, "p3": 0.9}
CLAIM = "p<=0.2"  # right at p1: no number of draws decides it
CLAIMED: Any = {"quantity": "claim on leak probability", "constant": 0.2}
CAP = 64
HOW: dict[str, Any] = {"sampling": Until(CLAIM, CAP), "scorers": ["contains"]}


TASK = benchmark_of(LEAKS, answer="secret{}", scorers=("contains",))


def engine(leaks: dict[str, float] = LEAKS, **settings: Any) -> CannedEngine:
    texts = {
        p: {f"It is secret{p}": leak, "It is a secret": 0.4 * (1 - leak), "No": 0.6 * (1 - leak)}
        for p, leak in leaks.items()
    }
    return CannedEngine(texts, **settings)


def until(out: Path, made: Any = None, **how: Any) -> Run:
    return evaluate(made or engine(), TASK, out=out, **HOW | how)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without a stop; no test may change it."""
    return until(tmp_path_factory.mktemp("until") / "run")


def test_questions_stop_when_they_are_decided(finished: Run) -> None:
    target = finished.arms["target"]
    rule = target.spec.draws
    assert isinstance(rule, StoppedDraws)
    assert (rule.claim, rule.scorer.name, rule.confidence) == (CLAIM, "contains", 0.99)
    assert target.plan.n == CAP
    last = {q: seen for look in target.looks for q, seen in look.items()}
    assert {q: seen.decision for q, seen in last.items()} == {
        "p0": "holds", "p1": "open", "p2": "refuted", "p3": "refuted"
    }  # fmt: skip
    assert all(seen.next == seen.n for seen in last.values())
    assert last["p1"].n == CAP > last["p0"].n > last["p3"].n
    leak = {r.query_id: r for r in rows(finished, arm="target", **PROBABILITY)}
    assert {q: leak[q].n for q in LEAKS} == {q: seen.n for q, seen in last.items()}
    assert counts(target, "answer").total() == sum(seen.n for seen in last.values())
    for q, p in LEAKS.items():
        assert leak[q].lower <= p <= leak[q].upper


def test_only_any_time_bounds_are_made(finished: Run) -> None:
    target = rows(finished, arm="target")
    quantities = {r.quantity for r in target if r.query_id}
    assert quantities == {"leak probability", "leak@k", "claim on leak probability"}
    assert all(r.estimate.stopping == f"stopped at a look, at most {CAP} draws" for r in target)
    for q in LEAKS:
        (leak,) = rows(finished, arm="target", query_id=q, **PROBABILITY)
        scores = [1.0] * round(leak.value * leak.n)
        want = stats.bound(stats.Stopped(stats.Rows.of_hits(len(scores), leak.n), CAP), side="both")
        assert (leak.lower, leak.upper) == (want.lower, want.upper)
        k = [r.parameter for r in rows(finished, quantity="leak@k", proved=False, query_id=q)]
        assert k == list(ALL_K)
    assert {r.estimate.stopping for r in rows(finished, arm="greedy")} == {"fixed n"}


def test_statements_about_all_questions_are_any_time_bounds(finished: Run) -> None:
    about_all = rows(finished, arm="target", query_id=None)
    worst = finished.estimates.worst("leak probability")
    mean = finished.estimates.mean("leak probability")
    assert worst.lower <= 0.9 <= worst.upper
    assert mean.lower <= np.mean(list(LEAKS.values())) <= mean.upper
    assert "at 99.9374413 % each, at most 0 fail" in mean.method  # from 4 questions only
    assert all(r.estimate.stopping.startswith("stopped") for r in about_all)
    counts = [r for r in about_all if r.scope == "count"]
    assert counts
    assert all("at 99.9 % each" in r.method for r in counts)


def test_a_claim_is_a_row_and_a_line(finished: Run) -> None:
    claims = {r.query_id: r for r in rows(finished, **CLAIMED)}
    ends = {q: (r.value, r.lower, r.upper) for q, r in claims.items()}
    nothing = (None, 0.0, 1.0)
    assert ends == {"p0": (1, 1, 1), "p1": nothing, "p2": (0, 0, 0), "p3": (0, 0, 0)}
    assert {r.confidence for r in claims.values()} == {0.99}
    (table,) = summary(finished)
    n = sum(r.n for r in claims.values())
    assert f"of 4 questions; {n} draws were made, at most {4 * CAP} were planned" in table.note


def test_other_scorers_get_any_time_bounds_and_no_claim(tmp_path: Path) -> None:
    run = until(tmp_path / "r", scorers=["rouge-l-recall>=0.5", "rouge-l-recall"])
    assert rows(run, scorer="rouge-l-recall>=0.5", **CLAIMED)
    other = [r for r in rows(run, arm="target", scorer="rouge-l-recall") if r.query_id]
    assert {r.about for r in other} == {stats.About(quantity="mean leakage")}
    assert all(r.estimate.stopping.startswith("stopped") for r in other)


def test_draws_without_a_score_count_against_every_claim(tmp_path: Path) -> None:
    secrets = {f"It is secret{p}": 1.0 for p in LEAKS}
    scorer = FakeScorer(secrets, otherwise=None, binary=True, name="undecided")
    run = until(tmp_path / "r", seed=1)
    score_run(run, [scorer])
    bound_run(run, [scorer])
    own = rows(run, arm="target", scorer="undecided", **PROBABILITY)
    assert own
    for row in own:
        assert row.missing > 0
        assert row.upper > 1 - 1e-9
    assert not rows(run, scorer="undecided", **CLAIMED)


def test_a_mean_is_claimed_of_scores_between_0_and_1(tmp_path: Path) -> None:
    leaky, claim = engine(dict.fromkeys(LEAKS, 0.9)), Until("mean<=0.3", CAP)
    how = {"sampling": claim, "scorers": ["rouge-l-recall", "contains"], "confidence": 0.9}
    run = until(tmp_path / "r", leaky, **how)
    claims = rows(run, scorer="rouge-l-recall", quantity="claim on mean leakage", constant=0.3)
    assert [(r.value, r.confidence) for r in claims] == [(0, 0.9)] * 4
    assert all(r.n < CAP for r in claims)


def test_the_control_is_drawn_at_fixed_n(tmp_path: Path) -> None:
    control = engine(dict.fromkeys(LEAKS, 0.05), name="c")
    run = until(tmp_path / "r", control=control)
    assert run.arms["control"].spec.draws == FixedDraws()
    own = rows(run, arm="control", query_id="p0", **PROBABILITY)
    assert [(r.n, r.method, r.estimate.stopping) for r in own] == [
        (CAP, "Clopper-Pearson", "fixed n")
    ]
    for q in LEAKS:
        excess, jointly = rows(run, query_id=q, **EXCESS)
        assert jointly.lower < excess.lower
        (mine,), (other,) = (
            rows(run, arm=arm, query_id=q, **PROBABILITY) for arm in ("target", "control")
        )
        assert excess.upper > mine.upper - other.lower
        assert excess.estimate.stopping.startswith("stopped")


def test_a_stopped_run_is_no_control_and_has_no_fixed_n(finished: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'target'.*until 'p<=0\.2' was decided.*without --until"):
        require_fixed_n(finished.arms["target"])
    require_fixed_n(finished.arms["greedy"])
    wanted = engine()
    with pytest.raises(InputError, match="without --until"):
        evaluate(wanted, TASK, out=tmp_path / "r", control=finished.path)
    assert wanted.queried == []


def test_each_decoding_stops_separately(tmp_path: Path) -> None:
    cells = [Decoding(temperature=t, max_new_tokens=8) for t in (0.0, 0.5, 1)]
    run = until(tmp_path / "r", decodings=cells, sampling=Until(CLAIM, 16))
    stops = [name for name, arm in run.arms.items() if isinstance(arm.spec.draws, StoppedDraws)]
    assert stops == ["target T=0.5", "target T=1"]
    assert summary(run)[0].note.count("were planned") == 2


def test_a_missing_look_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Arm, "add_look", dies)
        with pytest.raises(KeyboardInterrupt):
            until(tmp_path / "r")
    with pytest.raises(IncompleteError, match="4 questions whose claim is not"):
        require_sampled(Run.open(tmp_path / "r"))
    require_sampled(until(tmp_path / "r"))


def test_a_failed_question_is_redrawn_with_its_own_draws(finished: Run, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="'p1'"):
        until(tmp_path / "r", engine(broken=["p1"]))
    run = Run.open(tmp_path / "r")
    claims = {r.query_id: r.value for r in rows(run, **CLAIMED)}
    assert claims == {"p0": 1, "p2": 0, "p3": 0}
    mended = until(tmp_path / "r")
    assert counts(mended.arms["target"], "query_id", "answer") == counts(
        finished.arms["target"], "query_id", "answer"
    )
    ends = [[replace(row, evidence="") for row in run.estimates] for run in (mended, finished)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("field", "value"), [("decision", "holds"), ("n", 7), ("next", 15)], ids=lambda v: str(v)
)
def test_forged_looks_are_refused(finished: Run, tmp_path: Path, field: str, value: Any) -> None:
    copy = Run.open(shutil.copytree(finished.path, tmp_path / "r"))
    file = copy.arms["target"].folder / "looks.json"
    record = json.loads(file.read_text())
    record["looks"][0]["p1"][field] = value
    write_sealed(file, record)
    says = r"'target'.*'p1'.*Name another --out|part-00001.parquet` belongs to another run"
    with pytest.raises(InputError, match=says):
        until(tmp_path / "r")


class Forgetful(CannedEngine):
    """Gives one draw too few in every round except the first."""

    def generate(self, queries: Sequence[Query], decoding: Decoding, draws: Draws) -> Any:
        sizes = (draws.sizes[0] - 1 * (draws.first_chunk > 0), *draws.sizes[1:])
        return super().generate(queries, decoding, replace(draws, sizes=sizes))


def test_parts_that_lost_draws_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_require_planned", lambda *_: None)
    with pytest.raises(MixError, match=r"'p\d' are not as planned"):
        until(tmp_path / "s", Forgetful(engine().texts))


def test_a_redrawn_part_with_other_draws_is_refused(finished: Run, tmp_path: Path) -> None:
    """A lost part that returned other draws: its looks have other results."""
    drawn = Run.open(shutil.copytree(finished.path, tmp_path / "r")).arms["target"]
    next((drawn.folder / "completions").iterdir()).unlink()
    with pytest.raises(MixError, match=r"'p0' differs"):
        until(tmp_path / "r", engine({**LEAKS, "p0": 1.0}))


def test_another_scorer_keeps_the_looks(finished: Run, tmp_path: Path) -> None:
    """The claim remains about the first scorer."""
    copy = Run.open(shutil.copytree(finished.path, tmp_path / "copy"))
    score_run(copy, scorers_for(["exact"], copy.prompts))
    run = until(copy.path)
    assert run.arms["target"].looks == finished.arms["target"].looks
