"""`--inputs` from the shell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound.store import Run

ROWS = "question,answer\nwho wrote red?,Ann\nwho wrote blue?,Bob\n"
FILE = "question,rewriting\nwho wrote red,red by who\nwho wrote red,tell me who wrote red\n"


@pytest.fixture(scope="module")
def rewritten(untied: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with rewritings that no test may change."""
    out = tmp_path_factory.mktemp("rewritten") / "run"
    asked = out.with_name("asked.csv")
    asked.write_text(ROWS)
    done("evaluate", untied, "--benchmark", asked, "--out", out, "--inputs", "rules",
         "--queries", 6, "--ids", "--ids-draws", 8, *SMALL)  # fmt: skip
    return out


def test_evaluate_asks_rewritings_and_says_what_they_add(rewritten: Path) -> None:
    run = Run.open(rewritten)
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    assert 2 == len(run.questions) < len(run.queries) < 2 + 2 * 6
    assert run.record.inputs.ids_draws == 8
    shown = done("report", rewritten)
    assert "by protocol, 2 questions" in shown.out
    assert re.search(r"^run +rules ", shown.out, re.M)
    assert (rewritten / "report.html").exists()


def test_the_same_command_and_like_do_nothing_more(
    untied: Path, rewritten: Path, tmp_path: Path
) -> None:
    again = done("evaluate", untied, "--like", rewritten, "--out", rewritten, "--json")
    assert {r["arm"] for r in again.json["estimates"]} == {"greedy", "target", "target inputs"}
    plain = tmp_path / "plain"
    done("sample", untied, "--like", rewritten, "--out", plain, "--inputs", "none")
    assert set(Run.open(plain).arms) == {"greedy", "target"}


def test_a_file_is_found_from_anywhere(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "asked.csv"
    file.write_text(FILE)
    out = tmp_path / "r"
    done("sample", model, "--benchmark", questions, "--out", out, "--inputs", "file:asked.csv",
         "--design", "fixed", "--limit", 1, *SMALL)  # fmt: skip
    run = Run.open(out)
    assert [q.text for q in run.queries][1:] == ["red by who", "tell me who wrote red"]
    assert run.record.study["rewritings"]["source"] == f"file:{file}"
    assert run.record.inputs.source == "file:asked.csv"


def test_a_dry_run_counts_rewritings(model: Path, questions: Path) -> None:
    probe = ("evaluate", model, "--benchmark", questions, "--dry-run", "--json", *SMALL)
    assert done(*probe).json["draws"] == 2 * 16
    assert done(*probe, "--inputs", "rules").json["draws"] == 4 * 16


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--design", "fixed"), ("`--design`", "`--inputs`")),
        (("--inputs", "none", "--queries", 3), ("`--queries`", "`--inputs`")),
        (("--inputs", "rules", "--ids-draws", 3), ("`--ids-draws`", "`--ids`")),
        (("--inputs", "rules", "--queries", 0), ("`queries`", "at least 1")),
        (("--inputs", "rules", "--design", "fresh"), ("finite list", "model:NAME")),
        (("--inputs", "rules", "--similarity", 0.5), ("needs an embedder",)),
        (("--inputs", "rules", "--until", "mean<=0.1"), ("Leave one of them out",)),
        (("--inputs", "file:nowhere.csv"), ("nowhere.csv", "no file")),
    ],
)
def test_bad_options_are_refused_before_a_model_is_loaded(
    options: tuple[object, ...], named: tuple[str, ...], questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    result = leakbound("evaluate", tmp_path / "no-model", "--benchmark", questions, "--out", out,
                     "--scorer", "rouge-l-recall", *options)  # fmt: skip
    refused(result, *named)
    assert not out.exists()
