"""`leakbound prove`: leaks too rare to be drawn, of the model of a finished run."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from estimates import rows
from leakbound.stats.proof import PROVED
from leakbound.store import EstimateRow, Run


@pytest.fixture(scope="module")
def proved(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("prove") / "run"))
    shown = done("prove", run, "--budget", 60)
    assert "proving target: 2/2 questions" in shown.err
    said = "proved without any chance, given the measured margin: a leak probability of at least"
    assert said in shown.out
    page = (run / "report.html").read_text().casefold()
    assert said in " ".join(page.split()).replace("\N{NO-BREAK SPACE}", " ")
    return run


def proofs(run: Path, scorer: str = "keyword") -> dict[str, EstimateRow]:
    """What is proved of each question in its own words."""
    found = rows(
        Run.open(run), arm="target", scorer=scorer, quantity="leak probability", proved=True
    )
    return {str(row.query_id): row for row in found}


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


def test_nothing_is_drawn_and_the_rest_stays(proved: Path, finished: Path) -> None:
    one, other = Run.open(finished), Run.open(proved)
    for name, arm in one.arms.items():
        for part in arm.parts:
            assert other.arms[name].completions(part).equals(arm.completions(part))
    kept = [[row for row in run.estimates if not row.about.proved] for run in (one, other)]
    for before, after in zip(*kept, strict=True):
        raised = replace(before.estimate, lower=after.lower, method=after.method)
        assert str(after) == str(replace(before, estimate=raised))
        assert after.lower >= before.lower
        assert PROVED in after.method or after.lower == before.lower


@pytest.mark.slow
def test_more_effort_replaces_less(proved: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    done("prove", run, "--budget", 400)
    assert all(proofs(run)[q].lower >= row.lower for q, row in proofs(proved).items())
    assert proofs(run) != proofs(proved)


@pytest.mark.slow
def test_a_budget_below_one_answer_is_said(model: Path, tmp_path: Path) -> None:
    long, run = tmp_path / "long.csv", tmp_path / "run"
    long.write_text("question,answer\nwho wrote red,Ann Bob Ann Bob\n")
    done("evaluate", model, "--benchmark", long, "--out", run, *SMALL, "--scorer", "edit<=0")
    assert "1 in all): an answer known to leak takes more than 2" in said_of(run, 2)
    assert "known to leak" not in said_of(run, 4)


def said_of(run: Path, budget: int) -> str:
    return " ".join(done("prove", run, "--budget", budget).err.split())


def test_a_certificate_rests_on_the_proofs_too(proved: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(proved, tmp_path / "run"))
    leakbound("certify", run, "--max-leak", 0.9, "--scorer", "keyword")
    done("verify", run / "certificate.json", run)
    (file,) = (run / "arms" / "target" / "proofs").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    refused(leakbound("report", run), file.name, "run `leakbound prove` again")
    assert leakbound("verify", run / "certificate.json", run).status == 6


@pytest.mark.slow
def test_bad_input_is_refused_before_a_model_is_opened(
    run: Path, control: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    strange, greedy = tmp_path / "strange.csv", tmp_path / "greedy"
    strange.write_text("question,answer\nwho wrote green,Cid\n")
    done("evaluate", model, "--benchmark", strange, "--out", tmp_path / "r", *SMALL)
    refused(leakbound("prove", run, "--proposal", tmp_path / "r"), "none of the questions")
    refused(leakbound("prove", run, "--budget", 0), "--budget")
    refused(leakbound("prove", run, "--scorer", "contians"), "contians", "contains")
    refused(leakbound("prove", run, "--scorer", "contains"), "no scores of", "leakbound score")
    refused(leakbound("prove", run, "--model", "openai:http://127.0.0.1:9/v1#m"), "server")
    refused(leakbound("prove", run, "--model", tmp_path / "nowhere"), "nowhere")
    refused(leakbound("prove", run, "--model", control), "fingerprint")
    how = ("--temperature", 0, "--max-new-tokens", 4)
    done("evaluate", model, "--benchmark", questions, "--out", greedy, *how)
    refused(leakbound("prove", greedy), "greedy answers alone")
