"""`leakbound evaluate --prove`: rare leaks searched for in the run's own command."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, done, leakbound, refused

from estimates import rows
from leakbound.engines.hf import TransformersEngine
from leakbound.evaluation.drawing import prove as proving
from leakbound.scorers.wording import Keyword
from leakbound.store import Run
from leakbound.store.tables import read_table
from leakbound.study import Prove

SEARCHED = ("--prove", 60)


def command(model: Path, questions: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("evaluate", model, "--benchmark", questions, "--out", out, *SMALL, *more)


@pytest.fixture(scope="module")
def proved(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that no test may change."""
    out = tmp_path_factory.mktemp("proved") / "run"
    shown = done(*command(model, questions, out, *SEARCHED))
    assert "proving target: 2/2 questions" in shown.err
    said = "proved without any chance, given the measured margin: a leak probability of at least"
    assert said in shown.out
    return out


def proofs(run: Path) -> dict[str, float]:
    """What is proved of each question."""
    found = rows(Run.open(run), arm="target", quantity="leak probability", proved=True)
    return {str(row.query_id): row.lower for row in found}


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("the model was asked again")

    monkeypatch.setattr(TransformersEngine, "prove", ran)
    monkeypatch.setattr(TransformersEngine, "generate", ran)


@pytest.mark.slow
def test_it_is_what_prove_finds_afterwards(proved: Path, run: Path) -> None:
    done("prove", run, "--budget", 60)
    one, other = Run.open(proved), Run.open(run)
    assert [str(row) for row in one.estimates] == [str(row) for row in other.estimates]
    assert one.record.study["prove"] == {"forwards": 60, "proposals": []}


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_runs")
def test_what_is_stored_is_not_searched_or_drawn_again(
    model: Path, questions: Path, proved: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(proved, tmp_path / "run"))
    done("evaluate", model, "--like", out, "--out", out)
    assert proofs(out) == proofs(proved)
    done("prove", out, "--budget", 60)
    assert proofs(out) == proofs(proved)


@pytest.mark.slow
def test_a_killed_search_goes_on_to_the_same(
    model: Path, questions: Path, proved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, whole = list[str](), proving.prove_question

    def killed(engine: Any, job: proving.ProveJob) -> Any:
        if len(searched) == 1:
            raise KeyboardInterrupt
        searched.append(job.asked.query.id)
        return whole(engine, job)

    with monkeypatch.context() as patched:
        patched.setattr(proving, "prove_question", killed)
        assert leakbound(*command(model, questions, tmp_path / "run", *SEARCHED)).status != 0
    (begun,) = (tmp_path / "run" / "arms" / "target" / "proofs").iterdir()
    assert begun.suffix == ".jsonl"
    again: list[str] = []

    def counted(engine: Any, job: proving.ProveJob) -> Any:
        again.append(job.asked.query.id)
        return whole(engine, job)

    monkeypatch.setattr(proving, "prove_question", counted)
    done(*command(model, questions, tmp_path / "run", *SEARCHED))
    assert not {*searched} & {*again}
    assert len(again) == 1
    tables = [each / "arms" / "target" / "proofs" for each in (tmp_path / "run", proved)]
    ours, theirs = ([*folder.iterdir()] for folder in tables)
    assert [file.name for file in ours] == [file.name for file in theirs]
    assert proofs(tmp_path / "run") == proofs(proved)


@pytest.mark.slow
def test_a_control_is_not_proved(
    model: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    done(*command(model, questions, tmp_path / "run", *SEARCHED, "--control", control))
    assert {file.parents[1].name for file in tmp_path.rglob("proofs/*.parquet")} == {"target"}


def test_no_model_is_drawn_from_for_leads(proved: Path) -> None:
    assert not (proved / "proposals").exists()
    assert all(proofs(proved).values())


@pytest.mark.slow
def test_what_leaks_of_a_named_run_is_where_the_search_begins(
    control: Path, run: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    done(*command(control, questions, other))
    leads: dict[int, set[str]] = {}
    whole = proving.prove_question
    for runs in ([], ["--proposal", other]):

        def noted(engine: Any, job: proving.ProveJob, of: int = len(runs)) -> Any:
            leads.setdefault(of, set()).update(job.asked.leads)
            return whole(engine, job)

        monkeypatch.setattr(proving, "prove_question", noted)
        done("prove", run, "--budget", 60, *runs)
    assert leads[0] < leads[2]
    said = {row.completion.text for row in Run.open(other).completions}
    assert leads[2] - leads[0] <= said
    assert all({"Ann", "Bob"} & set(text.split()) for text in leads[2])


def test_a_study_that_said_nobody_proposes_is_read() -> None:
    assert Prove(60, ("none", "runs/before")) == Prove(60, ("runs/before",))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--prove", 60, "--dtype", "bfloat16"), ("half precision", "float32")),
        (("--prove", 60, "--temperature", 0), ("`prove`", "greedy")),
        (("--prove", 0), ("forwards", "at least 1")),
        (("--prove", 60, "--max-tokens", 40), ("max_tokens 40",)),
        (
            ("--prove", 60, "--proposal", "{model}"),
            ("`{model}` is no finished run", "leakbound evaluate {model}", "name that run"),
        ),
        (("--prove", 60, "--proposal", "./nowhere"), ("nowhere", "is no finished run")),
        (("--proposal", "x"), ("`--proposal` x", "`--prove`")),
    ],
    ids=str,
)
def test_what_cannot_be_proved_is_refused_before_anything_is_drawn(
    model: Path,
    questions: Path,
    tmp_path: Path,
    more: tuple[object, ...],
    named: tuple[str, ...],
) -> None:
    told = [str(each).format(model=model) for each in more]
    said = [each.format(model=model) for each in named]
    how = ("--benchmark", questions, "--out", tmp_path / "run", "--max-new-tokens", 4)
    count = () if "--max-tokens" in told else ("-n", 16)
    refused(leakbound("evaluate", model, *how, *count, *told), *said)
    assert not [*tmp_path.rglob("part-*.parquet")]


def test_a_model_behind_a_server_and_sampling_alone_are_refused(
    model: Path, questions: Path, proved: Path, tmp_path: Path
) -> None:
    served = command(Path("openai:http:"), questions, tmp_path / "r", *SEARCHED)
    refused(leakbound(*served), "cannot be searched for rare leaks", "server")
    like = ("--like", proved, "--out", tmp_path / "r")
    refused(leakbound("sample", model, *like), "`prove` 60 is steered by scores")
    assert not (tmp_path / "r").exists()


def test_a_scorer_without_bounds_counts_whole_outputs_and_that_is_said(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Keyword, "bounds")
    told = done("prove", run, "--budget", 20).err
    assert "note: 'keyword' has no `bounds` of prefixes" in told
    (file,) = (run / "arms" / "target" / "proofs").glob("*.parquet")
    assert set(read_table(file)["ended"].to_pylist()) == {True}
