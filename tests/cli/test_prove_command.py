"""Leaks too rare to be drawn: `evaluate --prove`, `leakbound prove`, and what they refute."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import SMALL, done, leakbound, refused

from contents import rows
from leakbound.certificate.words import PROVED
from leakbound.drawing import prove as proving
from leakbound.drawing.parts import Job
from leakbound.engines.hf import TransformersEngine
from leakbound.scorers import make_scorer
from leakbound.scorers.wording import Keyword
from leakbound.scoring.score import slug
from leakbound.store import CONTROL, EstimateRow, Run, leaking, tables

SAID = "proved: leak probability ≥ 0."


def command(model: Path, questions: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("evaluate", model, "--benchmark", questions, "--out", out, *SMALL, *more)


@pytest.fixture(scope="module")
def proved(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that no test may change."""
    run = tmp_path_factory.mktemp("proved") / "run"
    shown = done(*command(model, questions, run, "--prove", 60))
    assert "proving target: 2/2 questions" in shown.err
    assert SAID in shown.out
    page = (run / "report.html").read_text().casefold()
    assert SAID in " ".join(page.split()).replace("\N{NO-BREAK SPACE}", " ")
    return run


@pytest.fixture
def mine(proved: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(proved, tmp_path / "mine"))


def proofs(run: Path) -> dict[str, EstimateRow]:
    """What is proved of each question in its own words."""
    found = rows(
        Run.open(run), arm="target", scorer="keyword", quantity="leak probability", proved=True
    )
    return {str(row.query_id): row for row in found}


def file_of_proofs(run: Path, scorer: str = "keyword") -> Path:
    (file,) = (run / "arms" / "target" / "proofs").glob(f"{scorer}*.parquet")
    return file


def test_a_run_that_moved_with_its_models_is_used_from_any_folder(
    model: Path,
    control: Path,
    questions: Path,
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was made with relative paths, and its arms are those of a run with absolute paths."""
    first = Path("first")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(model, first / "models" / "mine")
    shutil.copytree(control, first / "models" / "other")
    done(*command(first / "models" / "other", questions, first / "runs" / "other"))
    controlled = ("--control", first / "runs" / "other")
    done(*command(first / "models" / "mine", questions, first / "runs" / "mine", *controlled))
    done("certify", first / "runs" / "mine", "--scorer", "keyword", "--max-leak", "0.9")
    moved = tmp_path / "another" / "place"
    moved.parent.mkdir()
    first.rename(moved)
    monkeypatch.chdir("/")
    mine, run = moved / "models" / "mine", moved / "runs" / "mine"
    opened = Run.open(run)
    assert opened.model(CONTROL) == str(moved / "models" / "other")
    assert opened.control == str(moved / "runs" / "other")
    identities = [r.arms["target"].identity for r in (opened, Run.open(finished))]
    assert identities[0] == identities[1]
    done("verify", run / "certificate.json", run, "--with-model", mine)
    done("prove", run, "--budget", 5)
    stressed = tmp_path / "stressed"
    done("stress", mine, "--like", run, "--under", "openers", "--out", stressed)
    shutil.move(stressed, moved / "runs" / "stressed")
    done("prove", moved / "runs" / "stressed", "--budget", 5)


def test_what_is_proved_is_more_than_the_answer_alone_and_below_what_was_drawn_at_most(
    proved: Path, finished: Path
) -> None:
    before, after = proofs(finished), proofs(proved)
    bounded = rows(
        Run.open(proved), arm="target", scorer="keyword", quantity="leak probability",
        proved=False, scope="query", beyond=None,
    )  # fmt: skip
    assert after.keys() == {str(row.query_id) for row in bounded}
    for row in bounded:
        query = str(row.query_id)
        assert after[query].lower > 1.5 * before[query].lower
        assert after[query].lower <= row.upper


@pytest.mark.slow
def test_a_study_finds_what_the_command_finds_afterwards(proved: Path, run: Path) -> None:
    done("prove", run, "--budget", 60)
    one, other = Run.open(proved), Run.open(run)
    assert [str(row) for row in one.estimates] == [str(row) for row in other.estimates]
    assert one.record.study["prove"] == {"forwards": 60, "proposals": []}


@pytest.mark.slow
def test_what_is_stored_is_not_searched_or_drawn_again(
    model: Path, proved: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("the model was asked again")

    monkeypatch.setattr(TransformersEngine, "prove", ran)
    monkeypatch.setattr(TransformersEngine, "generate", ran)
    done("evaluate", model, "--like", mine, "--out", mine)
    assert proofs(mine) == proofs(proved)
    done("prove", mine, "--budget", 60)
    assert proofs(mine) == proofs(proved)


@pytest.mark.slow
def test_more_effort_replaces_less(proved: Path, mine: Path) -> None:
    done("prove", mine, "--budget", 400)
    assert all(proofs(mine)[q].lower >= row.lower for q, row in proofs(proved).items())
    assert proofs(mine) != proofs(proved)


@pytest.mark.slow
def test_a_control_is_not_proved(
    model: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    done(*command(model, questions, tmp_path / "run", "--prove", 60, "--control", control))
    assert {file.parents[1].name for file in tmp_path.rglob("proofs/*.parquet")} == {"target"}


@pytest.mark.slow
def test_what_leaks_of_a_named_run_is_where_the_search_begins(
    control: Path, run: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    done(*command(control, questions, other))
    leads: dict[int, set[str]] = {}
    whole = proving.prove_question
    for runs in ([], ["--proposal", other]):

        def noted(engine: Any, job: Job, of: int = len(runs)) -> Any:
            leads.setdefault(of, set()).update(job.texts)
            return whole(engine, job)

        monkeypatch.setattr(proving, "prove_question", noted)
        done("prove", run, "--budget", 60, *runs)
    assert leads[0] < leads[2]
    said = {row.completion.answer for row in Run.open(other).completions}
    assert leads[2] - leads[0] <= said
    assert all({"Ann", "Bob"} & set(text.split()) for text in leads[2])


def test_a_scorer_without_bounds_counts_whole_outputs_and_that_is_said(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Keyword, "bounds")
    assert "'keyword' has no `bounds` of prefixes" in done("prove", run, "--budget", 20).err
    assert set(tables.read_table(file_of_proofs(run))["ended"].to_pylist()) == {True}


@pytest.mark.slow
def test_bad_input_is_refused_before_a_model_is_opened(
    run: Path, control: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    strange, greedy = tmp_path / "strange.csv", tmp_path / "greedy"
    strange.write_text("question,answer\nwho wrote green,Cid\n")
    done(*command(model, strange, tmp_path / "r"))
    how = ("--temperature", 0, "--max-new-tokens", 4)
    done("evaluate", model, "--benchmark", questions, "--out", greedy, *how)
    for where, option, named in (
        (run, ("--proposal", tmp_path / "r"), "none of the questions"),
        (run, ("--scorer", "contains"), "leakbound score"),
        (run, ("--model", "openai:http://127.0.0.1:9/v1#m"), "server"),
        (run, ("--model", control), "fingerprint"),
        (greedy, (), "greedy answers alone"),
    ):
        refused(leakbound("prove", where, *option), named)


def test_what_cannot_be_proved_is_refused_before_anything_is_drawn(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    no_run = (f"`{model}` is no finished run", f"leakbound evaluate {model}", "name that run")
    for more, named in (
        (("--prove", 60, "--dtype", "bfloat16"), ("half precision", "float32")),
        (("--prove", 60, "--temperature", 0), ("`prove`", "greedy")),
        (("--prove", 60, "--proposal", model), no_run),
        (("--proposal", "x"), ("`--proposal` x", "`--prove`")),
    ):
        refused(leakbound(*command(model, questions, tmp_path / "run", *more)), *named)
    assert not [*tmp_path.rglob("part-*.parquet")]


def test_a_model_behind_a_server_and_sampling_alone_are_refused(
    model: Path, questions: Path, proved: Path, tmp_path: Path
) -> None:
    served = command(Path("openai:http:"), questions, tmp_path / "r", "--prove", 60)
    refused(leakbound(*served), "cannot be searched for rare leaks", "server")
    like = ("--like", proved, "--out", tmp_path / "r")
    refused(leakbound("sample", model, *like), "`prove` 60 needs scores")
    assert not (tmp_path / "r").exists()


def test_a_certificate_rests_on_the_proofs_too(mine: Path) -> None:
    leakbound("certify", mine, "--max-leak", 0.9, "--scorer", "keyword")
    done("verify", mine / "certificate.json", mine)
    file = file_of_proofs(mine)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    refused(leakbound("report", mine), file.name, "run `leakbound prove` again")
    assert leakbound("verify", mine / "certificate.json", mine).status == 6


def known(run: Path, scorer: str) -> dict[str, float]:
    """Pr[leak] at least by question: the masses of what no other of these events begins."""
    arm, name = Run.open(run).arms["target"], slug(make_scorer(scorer))
    events: dict[str, dict[tuple[int, ...], float]] = {}
    found = [(q, ids, math.exp(floor), low) for q, ids, floor, low in leaking(arm, name)]
    searched = arm.proofs.stored.values(name)
    found += [(one.query_id, one.event.token_ids, one.event.mass, one.low) for one in searched]
    for query, ids, mass, low in found:
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


def certified(run: Path, *claim: object) -> dict[str, Any]:
    out = run / f"{len([*run.glob('c*.json')])}-claim.json"
    leakbound("certify", run, "--out", out, *claim)
    made: dict[str, Any] = json.loads(out.read_text())
    assert leakbound("verify", out, run).status == 0
    out.unlink()
    return made


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
    below = certified(mine, "--max-leak", lower * 0.999, *how)
    assert below["proved"] == {"lower": pytest.approx(lower, rel=1e-12), "questions": 2}
    assert [row["proved"] for row in below["questions"]] == pytest.approx([*bounds.values()])
    assert below["verdict"] == "refuted"
    assert below["sentence"].startswith(PROVED)
    assert "confidence" not in below["sentence"]
    assert ("for the worst of" if every else "on average over") in below["sentence"]
    above = certified(mine, "--max-leak", min(lower * 1.001, 0.999), *how)
    if above["estimate"]["lower"] <= lower:
        assert above["verdict"] != "refuted"
    assert "confidence" in above["sentence"]


def forged(run: Path, column: str, change: Callable[[list[Any]], list[Any]]) -> Path:
    """A certificate over proofs that were changed: their file is whole, its digests its own."""
    file = file_of_proofs(run)
    table, meta = tables.read_table(file), tables.read_meta(file)
    values = pa.array(change(table[column].to_pylist()))
    changed = table.set_column(table.column_names.index(column), column, values)
    tables.write_table(file, changed.replace_schema_metadata(None), meta)
    leakbound("bound", run)
    leakbound("certify", run, "--scorer", "keyword", "--max-leak", 1e-9)
    assert Run.open(run).arms["target"].proofs.stored.digest(slug(make_scorer("keyword")))
    return run / "certificate.json"


@pytest.mark.slow
def test_a_proof_that_was_made_up_is_found(mine: Path) -> None:
    """Scoring its texts again tells."""
    file = forged(mine, "answer", lambda texts: ["the sea", *texts[1:]])
    checked = leakbound("verify", file, mine)
    assert checked.status == 6
    assert "scores: row" in checked.out


@pytest.mark.slow
def test_with_the_model_proofs_are_forced_again(mine: Path, model: Path) -> None:
    shown = leakbound("certify", mine, "--scorer", "keyword", "--max-leak", 1e-9)
    assert shown.status == 4
    assert re.search(r"what is proved is > 1e-09 \S+ yes refuted none", " ".join(shown.out.split()))
    file = mine / "certificate.json"
    done("verify", file, mine, "--with-model", model)
    file.unlink()
    forged(mine, "mass", lambda masses: [min(2 * mass, 1.0) for mass in masses])
    assert leakbound("verify", file, mine, "--with-model", model).status == 6
