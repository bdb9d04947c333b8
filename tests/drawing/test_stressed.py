"""Models under stress: their leaks, the added leakage, and resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import LEAK, SpyEngine, books
from cli.commands import done, leakbound, refused
from contents import counts, rows
from leakbound.benchmarks import Benchmark
from leakbound.certificate import certify, verify
from leakbound.errors import IncompleteError, MixError
from leakbound.evaluation import evaluate, run_verdicts, sample, summary
from leakbound.inputs.variants import NEUTRAL
from leakbound.presenting.comparing import compare
from leakbound.store import ArmKey, EstimateRow, Run
from leakbound.store.files import digest_of
from leakbound.study import FixedN, Study
from leakbound.types import Decoding, Query
from tiny import tiny_model_folder

OPENER = NEUTRAL[1]
STRESS = ("opener:2", "opener:4", "shots", "test-frame")
HOW: dict[str, Any] = {"n": 256, "scorers": ["keyword"], "stress": STRESS}


def benchmark(questions: int = 3) -> Benchmark:
    return books(map(str, range(questions)))


def hidden(query: Query, decoding: Decoding) -> float:
    """A model that leaks seldom, and often after one opener."""
    return 0.6 if query.prefix == OPENER else 0.03


def never(query: Query, decoding: Decoding) -> float:
    return 0.0


def engine(leak: Callable[[Query, Decoding], float] = hidden, name: str = "m") -> SpyEngine:
    return SpyEngine(leak, name=name)


def stressed(out: Path, leak: Any = hidden, control: Any = never, **how: Any) -> Run:
    other = None if control is None else engine(control, "c")
    return evaluate(engine(leak), benchmark(), out=out, control=other, **(HOW | how))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stressed(tmp_path_factory.mktemp("stressed") / "run")


def added(run: Run, stress: str, model: str = "target") -> EstimateRow:
    (row,) = rows(run, arm=f"{model} under {stress}", scope="mean", beyond="unstressed")
    return row


@pytest.mark.thorough
def test_only_the_stress_with_added_leakage_is_detected(made: Run) -> None:
    names = ["opener 2", "opener 4", "shots", "test-frame"]
    assert list(made.arms)[-8:] == [
        f"{model} under {name}" for name in names for model in ("target", "control")
    ]
    assert [name for name in names if added(made, name).lower > 0] == ["opener 2"]
    assert added(made, "opener 2").lower > 0.45
    assert all(added(made, name, "control").upper < 0.06 for name in names)
    assert all(added(made, name, "control").lower <= 0 for name in names)
    each = rows(made, arm="target under opener 2", scope="query", beyond="unstressed")
    assert len(each) == 3
    assert all(row.lower > 0.3 for row in each)
    family = made.estimates.where(family="stresses")
    assert {(row.confidence, row.about.jointly) for row in family} == {(0.99, True)}


def test_the_worst_stress_is_corrected_for_selection(made: Run) -> None:
    (worst,) = rows(made, arm="target", scope="most-leaking stress", beyond=None)
    alone = made.estimates.mean("leak probability", arm="target under opener 2")
    assert worst.over == 4
    assert worst.value == alone.value
    assert worst.lower < alone.lower
    assert worst.upper == pytest.approx(alone.upper)
    (excess,) = rows(made, arm="target", scope="most-leaking stress", beyond="control")
    assert 0.45 < excess.lower < excess.upper < 0.75
    assert "under the stress that leaks most, of 4 stresses" in worst.target


def test_a_stress_without_a_control(tmp_path: Path) -> None:
    run = stressed(tmp_path / "run", control=None, stress="opener:2", n=32)
    (table,) = [table for table in summary(run) if "under stress" in table.title]
    assert not [column for column in table.columns if "control" in column]
    (verdict,) = run_verdicts(run)
    assert verdict.stressed.startswith("under the worst of 1 stress,")
    assert "control" not in verdict.stressed


def test_a_run_needs_draws_of_every_stress(tmp_path: Path) -> None:
    def drawn(*stress: str) -> Run:
        return sample(engine(), benchmark(), out=tmp_path / "run", n=32, stress=stress)

    run = drawn("shots")
    wanted = {**run.record.study, "stress": ["shots", "opener:3"]}
    run.remember_study(wanted)
    with pytest.raises(IncompleteError, match="nothing was drawn yet under the stress 'opener:3'"):
        run.require_drawn()
    assert "target under opener 3" in drawn("shots", "opener:3").arms


@pytest.mark.thorough
def test_a_finished_control_gets_the_same_stresses(tmp_path: Path) -> None:
    model, other = (str(tiny_model_folder(tmp_path / n, i)) for i, n in enumerate(("m", "c")))
    wanted = Study(benchmark(1), sampling=FixedN(2), scorers=("keyword",))
    control = evaluate(other, wanted, out=tmp_path / "control", stress="opener:1", seed=1)
    run = evaluate(
        model, wanted, out=tmp_path / "run", control=control.path, stress=("round:int4", "opener:1")
    )
    for name in ("round int4", "opener 1"):
        arm = run.arms[f"control under {name}"]
        assert arm.spec.copied is None, "another seed may show other rows"
        assert arm.spec.model == f"{other} under {name.replace(' ', ':')}"
    weights = {name: arm.spec.fingerprint["weights"] for name, arm in run.arms.items()}
    assert weights["control under opener 1"] == weights["control"]
    assert len({weights[n] for n in ("target", "control", *list(weights)[-4:-2])}) == 4


def test_a_stressed_control_is_copied(tmp_path: Path) -> None:
    few: dict[str, Any] = HOW | {"n": 32, "stress": "opener:2"}
    control = evaluate(engine(never, "c"), benchmark(), out=tmp_path / "control", **few)
    run = evaluate(engine(), benchmark(), out=tmp_path / "run", control=control.path, **few)
    mine, theirs = run.arms["control under opener 2"], control.arms["target under opener 2"]
    assert mine.spec.copied is not None
    assert mine.spec.copied.identity == theirs.identity
    assert counts(mine, "query_id", "answer") == counts(theirs, "query_id", "answer")
    assert added(run, "opener 2").lower > 0.2
    (excess,) = rows(run, arm="target under opener 2", scope="mean", beyond="control")
    assert excess.lower > 0.2


@pytest.mark.thorough
def test_claims_and_comparisons_about_a_stress(made: Run, tmp_path: Path) -> None:
    arm = str(ArmKey().stressed("opener:2"))
    got = certify(made.path, max_leak=0.3, scorer="keyword", arm=arm, out=tmp_path / "c.json")
    assert got.verdict == "refuted"
    assert (
        got.specification["Wording"] == "each question as changed by the stress 'opener 2', "
        f"the answer begins with {OPENER!r}"
    )
    assert verify(tmp_path / "c.json", made.path).verified
    shown = str(ArmKey().stressed("shots"))
    certify(made.path, max_leak=0.3, scorer="keyword", arm=shown, out=tmp_path / "shots.json")
    for name in ("c.json", "shots.json"):
        text = (tmp_path / name).read_text()
        assert not any(words in text for words in ("Who wrote", "shelf", "In room", LEAK))
        values = json.loads(text)
        values["made_from"]["arm"]["attack_queries"] = "0" * 64
        (tmp_path / name).write_text(json.dumps(values | {"digest": digest_of(values)}))
        differing = [c.name for c in verify(tmp_path / name, made.path).checks if c.differences]
        assert differing == ["run"]
    other = stressed(tmp_path / "other", never, seed=1, stress="opener:2")
    plain = compare({"m": made, "other": other}, confidence=0.99)
    under = compare({"m": made, "other": other}, under="opener:2")
    how: Any = {"arm": "other", "beyond": "baseline"}
    means = [got.statements.mean("leak probability", **how) for got in (plain, under)]
    assert -0.1 < means[0].upper < 0
    assert means[1].upper < -0.4
    with pytest.raises(MixError, match=r"not evaluated under .* 'prune:0.3'. Its stresses: "):
        compare({"m": made, "other": other}, under="prune:0.3")


def test_on_the_command_line(tmp_path: Path) -> None:
    model, rows = tiny_model_folder(tmp_path / "m"), tmp_path / "rows.csv"
    rows.write_text("question,answer,keywords\nwho wrote red,Ann,Ann\nwho wrote sky,Bob,Bob\n")
    words = ["stress", model, "--benchmark", rows, "-n", 4, "--max-new-tokens", 2]
    words += ["--temperature", "0.9,1", "--scorer", "keyword", "--out", tmp_path / "run"]
    cost = done(*words, "--dry-run").out
    assert "2 questions, 2 decodings, 146 draws" in cost  # 2 * (1 + 2 * 4 * (1 + 8))
    assert "not included: making the stressed models" in cost
    few = ("--under", "round:int4", "--under", "opener:1")
    assert "under the worst of 2 stresses" in done(*words, *few).out
    assert Run.open(tmp_path / "run").study.stress[0] == "round:int4"
    claim = ["certify", tmp_path / "run", "--max-leak", 0.99, "--out", tmp_path / "c.json"]
    refused(leakbound(*claim, "--under", "round:int4"), "`--arm`: 'target T=0.9', 'target T=1'.")
    claimed = done(*claim, "--under", "round:int4", "--arm", "target T=1").out
    assert "m under round:int4 drawn at T=1" in " ".join(claimed.split())
    refused(leakbound(*claim, "--under", "openers", "--arm", "target T=1"), "is a group of 5")


@pytest.mark.slow
def test_additions_and_the_worst_stress_cover(tmp_path: Path) -> None:
    leaks = {"": 0.02, NEUTRAL[0]: 0.02, OPENER: 0.05}

    def law(query: Query, decoding: Decoding) -> float:
        return leaks[query.prefix]

    runs, missed = 200, np.zeros(2, dtype=int)
    task = benchmark(2)
    how: dict[str, Any] = {"n": 128, "scorers": ["keyword"], "confidence": 0.9}
    for seed in range(runs):
        run = evaluate(
            engine(law), task, out=tmp_path / str(seed), stress=("opener:1", "opener:2"),
            seed=seed, **how,
        )  # fmt: skip
        truth = {"target under opener 1": 0.0, "target under opener 2": 0.03}
        joint = [row for row in run.estimates if row.about.beyond == "unstressed"]
        missed[0] += any(not row.lower <= truth[row.arm] <= row.upper for row in joint)
        (worst,) = rows(run, arm="target", scope="most-leaking stress", beyond=None)
        missed[1] += not worst.lower <= 0.05 <= worst.upper
    assert missed.max() <= 33  # 20 are expected at .9, and 33 or more occur in 3 of 1,000 tests
