"""Leaks too rare to be drawn: `evaluate --prove`, `leakbound prove`, and refuted claims."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import SAMPLE, Words, done, leakbound, refused

from contents import rows
from leakbound.certificate.words import PROVED
from leakbound.drawing import prove as proving
from leakbound.drawing.parts import Job
from leakbound.engines.hf import TransformersEngine
from leakbound.scorers import make_scorer
from leakbound.scorers.wording import Keyword
from leakbound.scoring.score import slug
from leakbound.store import CONTROL, EstimateRow, Run, leaking, tables
from leaky import file_of

STATED = "(computed from model probabilities, without sampling error)"


@pytest.fixture(scope="module")
def proved(evaluating: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("proved") / "run"
    shown = done(*evaluating, run, "--prove", 60)
    assert "proving target: 2/2 questions" in shown.err
    assert STATED in shown.out
    page = (run / "report.html").read_text().casefold()
    assert STATED in " ".join(page.split()).replace("\N{NO-BREAK SPACE}", " ")
    return run


@pytest.fixture
def mine(proved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(proved, tmp_path / "mine"))


def proofs(run: Path) -> dict[str, EstimateRow]:
    how: Any = {"scorer": "keyword", "quantity": "leak probability", "scope": "query"}
    proved = rows(Run.open(run), arm="target", proved=True, **how)
    return {str(row.query_id): row for row in proved}


@pytest.mark.thorough
def test_a_run_may_move_with_its_models(
    evaluating: Words, control: Path, finished: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It was made with relative paths; its arms equal the arms made with absolute paths."""
    first, how = Path("first"), (*evaluating[2:], "first/runs/mine")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(str(evaluating[1]), first / "models" / "mine")
    shutil.copytree(control, first / "models" / "other")
    done("evaluate", first / "models" / "other", *how[:-1], "first/runs/other", *SAMPLE)
    done("evaluate", first / "models" / "mine", *how, "--control", "first/runs/other")
    done("certify", first / "runs" / "mine", "--scorer", "keyword", "--max-leak", "0.9")
    moved = tmp_path / "another" / "place"
    moved.parent.mkdir()
    first.rename(moved)
    monkeypatch.chdir("/")
    mine, run = moved / "models" / "mine", moved / "runs" / "mine"
    opened = Run.open(run)
    assert opened.model(CONTROL) == str(moved / "models" / "other")
    assert opened.control == str(moved / "runs" / "other")
    assert opened.arms["target"].identity == Run.open(finished).arms["target"].identity
    done("verify", run / "certificate.json", run, "--with-model", mine)
    done("prove", run, "--budget", 5)
    stressed = moved / "runs" / "stressed"
    done("stress", mine, "--like", run, "--under", "opener:1", "--out", tmp_path / "stressed")
    shutil.move(tmp_path / "stressed", stressed)
    done("prove", stressed, "--budget", 5)


def test_proofs_exceed_the_answer_and_stay_below_upper_bounds(proved: Path, finished: Path) -> None:
    before, after = proofs(finished), proofs(proved)
    how: Any = {"scorer": "keyword", "quantity": "leak probability", "scope": "query"}
    drawn = rows(Run.open(proved), arm="target", proved=False, beyond=None, **how)
    assert after.keys() == {str(row.query_id) for row in drawn}
    for row in drawn:
        query = str(row.query_id)
        assert after[query].lower > 1.5 * before[query].lower
        assert after[query].lower <= row.upper


@pytest.mark.slow
def test_a_study_finds_what_the_command_finds(proved: Path, run: Path) -> None:
    """A larger budget finds more."""
    done("prove", run, "--budget", 60)
    one, other = Run.open(proved), Run.open(run)
    assert [str(row) for row in one.estimates] == [str(row) for row in other.estimates]
    assert one.record.study["prove"] == {"forwards": 60, "proposals": []}
    done("prove", run, "--budget", 400)
    assert all(proofs(run)[q].lower >= row.lower for q, row in proofs(proved).items())
    assert proofs(run) != proofs(proved)


@pytest.mark.slow
def test_stored_proofs_are_reused(
    model: Path, proved: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("the model was asked again")

    monkeypatch.setattr(TransformersEngine, "prove", ran)
    monkeypatch.setattr(TransformersEngine, "generate", ran)
    done("evaluate", model, "--like", mine, "--out", mine)
    done("prove", mine, "--budget", 60)
    assert proofs(mine) == proofs(proved)


@pytest.mark.slow
def test_a_search_begins_with_the_leaks_of_a_named_run(
    evaluating: Words, control: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, model = tmp_path / "other", evaluating[1]
    done("evaluate", control, *evaluating[2:], other, "--prove", 60, "--control", model)
    assert {file.parents[1].name for file in other.rglob("proofs/*.parquet")} == {"target"}
    leads: dict[str, set[str]] = {}
    whole = proving.prove_question
    for budget in ("60", f"60,proposals={other}"):

        def noted(engine: Any, job: Job, of: str = budget) -> Any:
            leads.setdefault(of, set()).update(job.texts)
            return whole(engine, job)

        monkeypatch.setattr(proving, "prove_question", noted)
        done("prove", run, "--budget", budget)
    own, both = leads.values()
    assert own < both
    shown = {row.completion.answer for row in Run.open(other).completions}
    assert both - own <= shown
    assert all({"Ann", "Bob"} & set(text.split()) for text in both)


def test_a_scorer_without_bounds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts whole outputs only, with a note."""
    monkeypatch.delattr(Keyword.__base__, "bounds")
    assert "'keyword' cannot bound the scores" in done("prove", run, "--budget", 20).err
    assert set(tables.read_table(file_of(run, "proofs"))["ended"].to_pylist()) == {True}


@pytest.mark.slow
def test_unprovable_runs(evaluating: Words, run: Path, control: Path, tmp_path: Path) -> None:
    strange, greedy = tmp_path / "strange.csv", tmp_path / "greedy"
    strange.write_text("question,answer\nwho wrote green,Cid\n")
    done(*evaluating, tmp_path / "r", "--benchmark", strange)
    done(*evaluating[:4], "--temperature", 0, "--max-new-tokens", 4, "--out", greedy)
    for where, option, named in (
        (run, ("--budget", f"60,proposals={tmp_path / 'r'}"), "no question in common"),
        (run, ("--model", control), "fingerprint"),
        (greedy, (), "has only greedy answers"),
    ):
        refused(leakbound("prove", where, *option), named)


def test_a_certificate_depends_on_the_proofs(mine: Path) -> None:
    leakbound("certify", mine, "--max-leak", 0.9, "--scorer", "keyword")
    done("verify", mine / "certificate.json", mine)
    file = file_of(mine, "proofs")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    refused(leakbound("report", mine), file.name, "run `leakbound prove` again")
    assert leakbound("verify", mine / "certificate.json", mine).status == 6


def known(run: Path, scorer: str) -> dict[str, float]:
    """Lower bound of Pr[leak] per question: the masses of events that no other event contains."""
    arm, name = Run.open(run).arms["target"], slug(make_scorer(scorer))
    events: dict[str, dict[tuple[int, ...], float]] = {}
    got = [(q, ids, math.exp(floor), low) for q, ids, floor, low in leaking(arm, name)]
    searched = arm.proofs.stored.values(name)
    got += [(one.query_id, one.event.token_ids, one.event.mass, one.low) for one in searched]
    for query, ids, mass, low in got:
        if low > 0:
            events.setdefault(query, {})[ids] = mass
    return {
        query: sum(
            mass
            for ids, mass in own.items()
            if not any(ids != other and ids[: len(other)] == other for other in own)
        )
        for query, own in events.items()
    }


def certified(run: Path, *claim: object) -> tuple[dict[str, Any], str]:
    out = run / "claim.json"
    shown = " ".join(leakbound("certify", run, "--out", out, *claim).out.split())
    made: dict[str, Any] = json.loads(out.read_text())
    assert leakbound("verify", out, run).status == 0
    out.unlink()
    return made, shown


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("scorer", ["keyword", "rouge-l-recall>=0.6"])
@pytest.mark.slow
def test_a_proof_refutes_without_chance(mine: Path, scorer: str, every: bool) -> None:
    done("score", mine, "--scorer", scorer)
    done("prove", mine, "--budget", 60, "--scorer", scorer)
    bounds = known(mine, scorer)
    assert len(bounds) == 2
    lower = max(bounds.values()) if every else sum(bounds.values()) / 2
    how = ("--scorer", scorer, *(("--every-question",) if every else ()))
    below, shown = certified(mine, "--max-leak", lower * 0.999, *how)
    assert below["proved"] == {"lower": pytest.approx(lower, rel=1e-12), "questions": 2}
    assert [row["proved"] for row in below["questions"]] == pytest.approx([*bounds.values()])
    assert below["verdict"] == "refuted"
    assert re.search(r"the proved lower bound is > \S+ \S+ yes refuted none", shown)
    assert below["sentence"].startswith(PROVED)
    assert "confidence" not in below["sentence"]
    assert ("for the worst of" if every else "on average over") in below["sentence"]
    above, _ = certified(mine, "--max-leak", min(lower * 1.001, 0.999), *how)
    if above["estimate"]["lower"] <= lower:
        assert above["verdict"] != "refuted"
    assert "confidence" in above["sentence"]
