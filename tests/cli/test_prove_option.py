"""`leakbound evaluate --prove`: rare leaks searched for in the run's own command, and proposals."""

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
from leakbound.evaluation.drawing.propose import DRAWS, SHOWN_DRAWS
from leakbound.scorers.keyword import Keyword
from leakbound.store import Run
from leakbound.store.tables import read_table
from tiny import tiny_llama, tiny_model_folder, tiny_tokenizer

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


def proposed(run: Path) -> Run:
    """The one run of proposals in a run."""
    (folder,) = (run / "proposals").iterdir()
    return Run.open(folder)


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


def test_without_a_proposal_the_model_is_drawn_from_right_after_the_answer(proved: Path) -> None:
    trial = proposed(proved)
    shown = [query.examples for query in trial.queries]
    assert shown == [((prompt.question, prompt.answer),) for prompt in trial.prompts]
    (arm,) = trial.arms.values()
    assert arm.usage.draws == 2 * SHOWN_DRAWS


@pytest.mark.slow
def test_nobody_proposes_where_that_is_said(model: Path, questions: Path, tmp_path: Path) -> None:
    done(*command(model, questions, tmp_path / "run", *SEARCHED, "--proposal", "none"))
    assert not (tmp_path / "run" / "proposals").exists()
    assert all(proofs(tmp_path / "run").values())


@pytest.mark.slow
def test_a_model_that_is_named_is_drawn_from_once(
    control: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("prove", run, "--budget", 60, "--proposal", control)
    trial = proposed(run)
    assert [query.examples for query in trial.queries] == [(), ()]
    (arm,) = trial.arms.values()
    assert arm.usage.draws == 2 * DRAWS
    before = proofs(run)

    def ran(*_: object, **__: object) -> Iterator[Any]:
        raise AssertionError("drawn again")

    monkeypatch.setattr(TransformersEngine, "generate", ran)
    done("prove", run, "--budget", 61, "--proposal", control)
    assert all(after >= before[name] for name, after in proofs(run).items())


@pytest.mark.slow
def test_what_leaks_of_a_proposal_is_where_the_search_begins(
    model: Path, control: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads: dict[Path | str, set[str]] = {}
    whole = proving.prove_question
    for proposal in ("none", control):

        def noted(engine: Any, job: proving.ProveJob, of: Path | str = proposal) -> Any:
            leads.setdefault(of, set()).update(job.asked.leads)
            return whole(engine, job)

        monkeypatch.setattr(proving, "prove_question", noted)
        done("prove", run, "--budget", 60, "--proposal", proposal)
    assert leads["none"] < leads[control]
    said = {row.completion.text for row in proposed(run).completions}
    assert leads[control] - leads["none"] <= said
    assert all({"Ann", "Bob"} & set(text.split()) for text in leads[control])


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with other words."""
    folder = tmp_path_factory.mktemp("stranger") / "model"
    tokenizer = tiny_tokenizer(("Question:", "Answer:", "who", "wrote", "what"))
    tiny_llama(len(tokenizer), 3).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--prove", 60, "--dtype", "bfloat16"), ("half precision", "float32")),
        (("--prove", 60, "--temperature", 0), ("`prove`", "greedy")),
        (("--prove", 0), ("forwards", "at least 1")),
        (("--prove", 60, "--max-tokens", 40), ("max_tokens 40",)),
        (("--prove", 60, "--proposal", "{stranger}"), ("{stranger}", "another tokenizer")),
        (("--prove", 60, "--proposal", "openai:http://127.0.0.1:9/v1#m"), ("server",)),
        (("--prove", 60, "--proposal", "./nowhere"), ("nowhere",)),
        (("--prove", 60, "--proposal", "none", "--proposal", "x"), ("'none'", "x")),
        (("--proposal", "x"), ("`--proposal` x", "`--prove`")),
    ],
    ids=str,
)
def test_what_cannot_be_proved_is_refused_before_anything_is_drawn(
    model: Path,
    questions: Path,
    stranger: Path,
    tmp_path: Path,
    more: tuple[object, ...],
    named: tuple[str, ...],
) -> None:
    told = [str(each).format(stranger=stranger) for each in more]
    said = [each.format(stranger=stranger) for each in named]
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


@pytest.mark.slow
def test_another_tokenizer_is_refused_by_prove_too(
    run: Path, stranger: Path, tmp_path: Path
) -> None:
    refused(leakbound("prove", run, "--proposal", stranger), str(stranger), "another tokenizer")
    assert not (run / "proposals").exists()
    same = tiny_model_folder(tmp_path / "same", seed=5)
    done("prove", run, "--budget", 60, "--proposal", same)


def test_a_scorer_without_bounds_counts_whole_outputs_and_that_is_said(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Keyword, "bounds")
    told = done("prove", run, "--budget", 20, "--proposal", "none").err
    assert "note: 'keyword' has no `bounds` of prefixes" in told
    (file,) = (run / "arms" / "target" / "proofs").glob("*.parquet")
    assert set(read_table(file)["ended"].to_pylist()) == {True}
