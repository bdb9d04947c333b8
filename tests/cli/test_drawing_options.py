"""`--until`, `--explore`, `--inputs` and `--claim` of `leakbound evaluate`, from the shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import SAMPLE, SMALL, Words, done

from contents import PROBABILITY, rows
from leakbound.store import Run

UNTIL = ("-n", 64, "--until", "p<=0.6")
EXPLORE = ("--max-new-tokens", 4, "--scorer", "contains", "--explore", "hybrid,forwards=40")


@pytest.fixture(scope="module")
def stopped(evaluating: Words, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("until") / "run"
    result = done(*evaluating, out, *UNTIL)
    claims = rows(Run.open(out), quantity="claim on leak probability", constant=0.6)
    drawn = sum(r.n for r in claims)
    assert drawn < 128
    assert f", claim p<=0.6: holds for {len(claims)}, refuted for 0, open for 0" in result.out
    assert f"{drawn} draws of at most 128 planned draws were made" in result.out
    assert "n ≤ 64" in result.out
    return out


@pytest.fixture(scope="module")
def explored(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("explore") / "run"
    shown = done("evaluate", model, "--benchmark", questions, "--out", out, *EXPLORE)
    assert "running the model on about 40 prefixes per question" in " ".join(shown.out.split())
    assert ", explored (hybrid): median settled mass" in shown.out
    leaks = rows(Run.open(out), quantity="leak@k", proved=False, parameter=1)
    drawn = sum(row.n for row in leaks if row.query_id)
    assert drawn > 0
    assert f"{drawn} draws of the remainder" in shown.out
    assert "exploring target: 2/2 questions" in shown.err
    assert (out / "report.html").is_file()
    return out


@pytest.mark.thorough
@pytest.mark.usefixtures("no_model")
def test_bounding_again_keeps_decisions(stopped: Path, explored: Path, tmp_path: Path) -> None:
    run, mine = (
        Path(shutil.copytree(path, tmp_path / name))
        for name, path in (("run", stopped), ("mine", explored))
    )
    got = done("bound", run, "--confidence", 0.9, "--json")
    claims = got.estimates(quantity="claim on leak probability", constant=0.6)
    assert {(r["confidence"], r["value"]) for r in claims} == {(0.99, 1)}
    leaks = got.estimates(arm="target", **PROBABILITY)
    assert {r["confidence"] for r in leaks} == {0.9}
    shown = done("bound", mine, "--confidence", 0.9, "--json")
    assert shown.json["report"] == str(mine / "report.html")
    leaks = shown.estimates(scorer="contains", **PROBABILITY | {"scope": "query"})
    assert {r["method"] for r in leaks} == {"exact mass + Clopper-Pearson"}
    assert all(r["lower"] <= r["value"] <= r["upper"] and r["n"] > 0 for r in leaks)


def test_a_dry_run_stores_nothing(evaluating: Words, tmp_path: Path) -> None:
    twice = ("--temperature", "0.5,1")
    for how, cost in (
        ((*SMALL, *twice), {"draws": 2 * 2 * 16 + 2, "parts": 3}),
        ((*EXPLORE, *twice), {"forwards": 160, "draws": 2, "parts": 2}),
    ):
        wanted = (*evaluating[:4], *how, "--dry-run")
        assert done(*wanted, "--json").json.items() >= cost.items()  # and needs no --out
    shown = done(*evaluating, tmp_path / "run", *UNTIL, "--dry-run").out
    assert "2 questions, 1 decoding, 130 draws in 2 parts" in shown
    assert "this cost is a maximum: --until" in shown
    sliced = done(*evaluating, tmp_path / "run", "--dry-run", "--questions", "1/2")
    assert "a slice costs about 1/2 of it" in sliced.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_rewritings(untied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rules, without any, and from a file, which is recorded by its whole path."""
    monkeypatch.chdir(tmp_path)
    Path("asked.csv").write_text("question,answer\nwho wrote red?,Ann\nwho wrote blue?,Bob\n")
    evaluating = ("evaluate", untied, "--benchmark", "asked.csv", *SMALL, "--out")
    shown = done(*evaluating, "rules", "--inputs", "rules,queries=3,ids=yes,ids_draws=8")
    assert "leakage by protocol, 2 questions" in shown.out
    assert "Full: ED, mean" in " ".join(shown.out.split())
    run = Run.open(tmp_path / "rules")
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    assert 2 == len(run.questions) < len(run.queries) < 2 + 2 * 3
    assert run.record.inputs.ids_draws == 8
    assert {row.arm for row in run.estimates} == set(run.arms)
    done("evaluate", untied, *SAMPLE, "--like", "rules", "--out", "plain", "--inputs", "none")
    assert set(Run.open(Path("plain")).arms) == {"greedy", "target"}

    texts, file = ("red by who", "tell me who wrote red"), tmp_path / "mine.csv"
    file.write_text("\n".join(["question,rewriting", *(f"who wrote red?,{t}" for t in texts)]))
    own = ("--inputs", "file:mine.csv,design=fixed", "--limit", 1)
    done(*evaluating, "file", *own, *SAMPLE)
    run = Run.open(tmp_path / "file")
    assert [q.text for q in run.queries][1:] == [*texts]
    assert run.record.study["rewritings"]["source"] == f"file:{file}"
    assert run.record.inputs.source == "file:mine.csv"
