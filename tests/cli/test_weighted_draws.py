"""`leakbound prove --draws`: weighted draws beside what is proved, of real models."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from estimates import rows
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.view import ScorerView
from leakbound.evaluation.views.words import measured
from leakbound.store import EstimateRow, Run

pytestmark = pytest.mark.slow

WEIGHED = ("--budget", 20, "--draws", 150, "--mix", 0.6)


@pytest.fixture(scope="module")
def weighed(finished: Path, control: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weighed against another model of the same tokenizer."""
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("weigh") / "run"))
    shown = done("prove", run, *WEIGHED, "--proposal", control)
    assert "weighing target" in shown.err
    assert "with 150 weighted draws of each question beside what is proved" in shown.out
    assert "2 are shown to leak more than is proved" in shown.out
    page = " ".join((run / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ").split())
    assert "With 150 weighted draws of each question beside what is proved" in page
    return run


def found(run: Path, query_id: str | None) -> EstimateRow:
    """What the weighted draws say of a question, or of the worst."""
    (row,) = rows(
        Run.open(run), scorer="keyword", quantity="importance-sampled leak probability",
        query_id=query_id,
    )  # fmt: skip
    return row


def ids(run: Path) -> list[str]:
    return [query.id for query in Run.open(run).questions]


def test_both_ends_enclose_what_plain_draws_say(weighed: Path) -> None:
    run = Run.open(weighed)
    (model,), keyword = read_view({"run": run}).models, ScorerView("keyword", True)
    for query_id in ids(weighed):
        row = found(weighed, query_id)
        plain = run.estimates.plain(
            arm="target", scorer="keyword", quantity="leak probability", query_id=query_id
        ).rows[0]
        (proof,) = rows(
            run, arm="target", scorer="keyword", quantity="leak probability",
            query_id=query_id, proved=True,
        )  # fmt: skip
        assert proof.lower < row.lower < (row.value or 0) < row.upper
        assert max(row.lower, plain.lower) < min(row.upper, plain.upper)
        assert (row.n, row.confidence, row.about.proved) == (150, 0.99, False)
        assert row.standard_error
        assert row.to_dict()["standard_error"] == row.standard_error
        (cell,) = (c for (_, q), c in model.measured.items() if q == query_id and c.weighed)
        assert "150 weighted draws: " in measured(cell, keyword)
        assert " (standard error " in measured(cell, keyword)
    worst = found(weighed, None)
    assert worst.scope == "worst question"
    assert worst.upper == max(found(weighed, query_id).upper for query_id in ids(weighed))


def test_the_same_command_draws_nothing_again(weighed: Path, control: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(weighed, tmp_path / "run"))
    (file,) = (run / "arms" / "target" / "weighed").glob("*.parquet")
    before, made = file.read_bytes(), [found(run, query_id) for query_id in ids(run)]
    shown = done("prove", run, *WEIGHED, "--proposal", control)
    assert "weighing" not in shown.err
    assert file.read_bytes() == before
    file.unlink()
    done("prove", run, *WEIGHED, "--proposal", control)
    assert [found(run, query_id) for query_id in ids(run)] == made


def test_a_finished_run_names_its_model_and_none_the_model_itself(
    run: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    done("evaluate", control, "--benchmark", questions, "--out", other, *SMALL)
    done("prove", run, *WEIGHED, "--proposal", other)
    first = [found(run, query_id) for query_id in ids(run)]
    done("prove", run, *WEIGHED)
    assert [found(run, query_id) for query_id in ids(run)] != first


def test_a_certificate_rests_on_them_too(
    weighed: Path, model: Path, control: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(weighed, tmp_path / "run"))
    leakbound("certify", run, "--max-leak", 0.9, "--scorer", "keyword")
    done("verify", run / "certificate.json", run)
    both = ("--with-model", model, "--with-proposal", control)
    found = done("verify", run / "certificate.json", run, *both, "--json").json["checks"]
    assert ("weights", "ok") in [(check["name"], check["status"]) for check in found]
    (file,) = (run / "arms" / "target" / "weighed").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    refused(leakbound("report", run), file.name, "run `leakbound prove` again")
    assert leakbound("verify", run / "certificate.json", run).status == 6


def test_bad_input_is_refused(run: Path, control: Path, questions: Path) -> None:
    refused(leakbound("prove", run, "--mix", 0.5), "`--mix` 0.5", "--draws")
    refused(leakbound("prove", run, "--draws", 0), "--draws")
    alone = leakbound("verify", questions, run, "--with-proposal", control)
    refused(alone, "`--with-proposal`", "--with-model")
    refused(leakbound("prove", run, "--draws", 4, "--mix", 1), "`mix` must be above 0 and below 1")
    refused(leakbound("prove", run, "--draws", 4, "--proposal", "none"), "nobody")
