"""`--until`, `--explore`, `--inputs` and `--attack` of `leakbound evaluate`, from the shell."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from commands import SMALL, done, leakbound, refused

from estimates import rows
from leakbound.store import ExploredDraws, Run, StoppedDraws
from tiny import tiny_llama, tiny_model_folder, tiny_tokenizer

UNTIL = ("-n", 64, "--max-new-tokens", 4, "--until", "p<=0.6")
EXPLORE = ("--max-new-tokens", 4, "--scorer", "contains", "--explore", "hybrid", "--budget", 40)
SCORER = ("--scorer", "rouge-l-recall")


def command(model: Path, questions: Path, out: Path, *how: object) -> tuple[object, ...]:
    return ("evaluate", model, "--benchmark", questions, "--out", out, *how)


@pytest.fixture(scope="module")
def stopped(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with --until that no test may change."""
    out = tmp_path_factory.mktemp("until") / "run"
    result = done(*command(model, questions, out, *UNTIL))
    claims = [r for r in Run.open(out).estimates if r.estimand == "claim p<=0.6"]
    drawn = sum(r.n for r in claims)
    assert drawn < 128
    assert f"target, p<=0.6: holds for {len(claims)}, refuted for 0, open for 0" in result.out
    assert f"{drawn} draws instead of 128" in result.out
    assert "n ≤ 64" in result.out
    return out


@pytest.fixture(scope="module")
def explored(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished exploration that no test may change."""
    out = tmp_path_factory.mktemp("explore") / "run"
    shown = done(*command(model, questions, out, *EXPLORE))
    assert "explored with about 40 forwards each" in " ".join(shown.out.split())
    assert "target, explored (hybrid): median known mass" in shown.out
    drawn = sum(
        r.n for r in rows(Run.open(out), quantity="leak@k", proved=False, parameter=1) if r.query_id
    )
    assert drawn > 0
    assert f"{drawn} draws of what is left" in shown.out
    assert "exploring target: 2/2 questions" in shown.err
    assert (out / "report.html").is_file()
    return out


@pytest.fixture(scope="module")
def rewritten(untied: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with rewritings that no test may change."""
    out = tmp_path_factory.mktemp("rewritten") / "run"
    asked = out.with_name("asked.csv")
    asked.write_text("question,answer\nwho wrote red?,Ann\nwho wrote blue?,Bob\n")
    how = ("--inputs", "rules", "--queries", 6, "--ids", "--ids-draws", 8)
    done(*command(untied, asked, out, *how, *SMALL))
    return out


@pytest.fixture(scope="module")
def attacked(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was attacked, which no test may change."""
    out = tmp_path_factory.mktemp("cli") / "attacked"
    done(*command(model, questions, out, "--attack", 32, *SCORER, *SMALL))
    return out


def test_what_steered_the_draws_is_recorded(stopped: Path, explored: Path) -> None:
    runs = [Run.open(path) for path in (stopped, explored)]
    until, how = (run.arms["target"].spec.draws for run in runs)
    assert isinstance(until, StoppedDraws)
    assert until.claim == "p<=0.6"
    target = runs[0].arms["target"]
    assert len(target.looks) == len(target.rounds) - 1
    assert isinstance(how, ExploredDraws)
    assert (how.mode, how.forwards, how.scorer.name) == ("hybrid", 40, "contains")
    forwards = runs[1].arms["target"].masses.forwards().values()
    assert all(before <= 40 for before, _ in forwards)
    sampling = [run.record.study["sampling"] for run in runs]
    assert sampling[0]["until"] == "p<=0.6"
    assert sampling[1] == {"explore": "hybrid", "forwards": 40}


def test_bounding_again_needs_no_model_and_keeps_what_was_decided(
    stopped: Path, explored: Path, tmp_path: Path, no_model: None
) -> None:
    run, mine = (
        Path(shutil.copytree(path, tmp_path / name))
        for name, path in (("run", stopped), ("mine", explored))
    )
    found = done("bound", run, "--confidence", 0.9, "--json").json["estimates"]
    claims = [r for r in found if r["estimand"] == "claim p<=0.6"]
    assert {(r["confidence"], r["value"]) for r in claims} == {(0.99, 1)}
    leaks = [r for r in found if r["estimand"] == "leak probability" and r["arm"] == "target"]
    assert {r["confidence"] for r in leaks} == {0.9}
    done("score", mine, "--scorer", "contains", "--scorer", "rouge-l-recall")
    shown = done("bound", mine, "--confidence", 0.9, "--json").json
    assert shown["report"] == str(mine / "report.html")
    leak = [
        r
        for r in shown["estimates"]
        if (r["scorer"], r["estimand"]) == ("contains", "leak probability") and r["query_id"]
    ]
    assert {r["method"] for r in leak} == {"exact mass + Clopper-Pearson"}
    assert all(r["lower"] <= r["value"] <= r["upper"] and r["n"] > 0 for r in leak)
    wide, narrow = (
        rows(Run.open(path), scorer="contains", query_id="mine/0001") for path in (explored, mine)
    )
    for before, after in zip(wide, narrow, strict=True):
        assert before.lower <= after.lower <= after.upper <= before.upper
    assert rows(Run.open(mine), scorer="rouge-l-recall", estimand="mean leakage")


@pytest.mark.slow
def test_like_repeats_it_or_changes_it(
    stopped: Path, explored: Path, control: Path, tmp_path: Path
) -> None:
    done("evaluate", control, "--like", stopped, "--out", tmp_path / "until")
    like = ("--like", explored)
    done("evaluate", control, *like, "--out", tmp_path / "same")
    done("evaluate", control, *like, "--out", tmp_path / "more", "--budget", 41)
    done("evaluate", control, *like, "--out", tmp_path / "plain", "-n", 16)
    until, before = (Run.open(path).arms["target"].spec.draws for path in (stopped, explored))
    assert isinstance(before, ExploredDraws)
    names = ("until", "same", "more", "plain")
    arms = {name: Run.open(tmp_path / name).arms["target"] for name in names}
    assert arms["until"].spec.draws == until
    assert arms["same"].spec.draws == before
    assert arms["more"].spec.draws == replace(before, forwards=41)
    assert (arms["plain"].explored, arms["plain"].plan.n) == (False, 16)
    for theirs, said in ((stopped, "'p<=0.6'"), (explored, "`explore` 'hybrid' is steered")):
        refused(leakbound("sample", control, "--like", theirs, "--out", tmp_path / "s"), said)
    plain = ("--like", tmp_path / "plain", "--out")
    done("evaluate", control, *plain, tmp_path / "e", "--explore", "hybrid", "--budget", 40)
    assert Run.open(tmp_path / "e").arms["target"].spec.draws == before
    refused(leakbound("evaluate", control, *plain, tmp_path / "b", "--budget", 9), "`budget` 9")
    assert not any((tmp_path / name).exists() for name in ("s", "b"))


@pytest.mark.parametrize(
    ("how", "said", "cost"),
    [
        (UNTIL, "this is the most: --until", {"draws": 128}),
        (
            (*EXPLORE, "--temperature", "0.5,1"),
            "2 questions, 2 decodings, 160 forwards; about",
            {"forwards": 160, "draws": 0, "tokens": 0},
        ),
        ((*SMALL, "--attack", 100), "of one model", {"draws": 2 * (16 + 100 + 16)}),
        ((*SMALL, "--inputs", "rules"), "of one model", {"draws": 4 * 16}),
    ],
    ids=["until", "explore", "attack", "inputs"],
)
def test_a_dry_run_counts_all_of_it_and_stores_nothing(
    how: tuple[object, ...],
    said: str,
    cost: dict[str, int],
    model: Path,
    questions: Path,
    tmp_path: Path,
) -> None:
    asked = command(model, questions, tmp_path / "run", *how, "--dry-run")
    shown = done(*asked)
    assert said in shown.out
    assert ("draws" in shown.out) == (cost["draws"] > 0)
    assert done(*asked, "--json").json.items() >= cost.items()
    assert list(tmp_path.iterdir()) == []


def test_another_rule_names_the_difference(
    stopped: Path, explored: Path, finished: Path, model: Path, questions: Path
) -> None:
    before = [(run / "run.json").read_bytes() for run in (stopped, explored, finished)]
    until = command(model, questions, stopped, *UNTIL)
    refused(leakbound(*until, "-n", 65), "n = 64, fixed before", "--out")
    refused(leakbound(*until, "--until", "p<=0.4"), "it has 'p<=0.6', this one says 'p<=0.4'")
    refused(leakbound(*until, "--confidence", 0.9), "confidence: it has 0.99, this one says 0.9")
    how = command(model, questions, explored)
    budget = leakbound(*how, *EXPLORE, "--budget", 41)
    refused(budget, "forwards: it has 40, this one says 41", "--out")
    exact = leakbound(*how, *EXPLORE, "--explore", "exact")
    refused(exact, "it has 'hybrid', this one says 'exact'")
    refused(leakbound(*how, *SMALL), str(explored), "another command")
    plain = leakbound(*command(model, questions, finished, *EXPLORE))
    refused(plain, str(finished), "another command")
    assert [(run / "run.json").read_bytes() for run in (stopped, explored, finished)] == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--until", "p<=2"), ("strictly between 0 and 1", "2.0")),
        (("--until", "leak<=0.02"), ("'leak<=0.02'", "mean<=0.1")),
        (("--until", "p<=0.2", "-n", 1), ("`n`", "got 1", "Raise it")),
        (("--until", "p<=0.02", "--explore", "exact"), ("two ways of drawing", "'exact'")),
        (("--explore", "exact", "-n", 64), ("`n` 64 has no meaning with exploring", "--budget")),
        (("--explore", "exact", "--budget", 0), ("`budget`", "at least 1 forward per question")),
        (("--explore", "exact", "--budget", "many"), ("--budget", "'many'")),
        (("--design", "fixed"), ("`--design`", "`--inputs`")),
        (("--inputs", "none", "--queries", 3), ("`--queries`", "`--inputs`")),
        (("--inputs", "rules", "--ids-draws", 3), ("`--ids-draws`", "`--ids`")),
        (("--inputs", "rules", "--queries", 0), ("`queries`", "at least 1")),
        (("--inputs", "rules", "--design", "fresh"), ("finite list", "model:NAME")),
        (("--inputs", "rules", "--similarity", 0.5), ("needs an embedder",)),
        (("--inputs", "rules", "--until", "mean<=0.1"), ("Leave one of them out",)),
        (("--inputs", "file:nowhere.csv"), ("nowhere.csv", "no file")),
        (("--attack", 15), ("`attack`", "at least 16", "got 15")),
        (("--attack", 99, "--explore", "exact"), ("Leave one of them out",)),
        (("--attack", 99, "--temperature", 0), ("greedy decoding draws nothing",)),
        (("--attack", 99, "--control", "{finished}"), ("Name the control model itself",)),
    ],
    ids=lambda values: " ".join(map(str, values)),
)
def test_what_makes_no_sense_is_refused_before_a_model_is_loaded(
    options: tuple[object, ...],
    named: tuple[str, ...],
    finished: Path,
    questions: Path,
    tmp_path: Path,
) -> None:
    given = [str(word).format(finished=finished) for word in options]
    out = tmp_path / "r"
    refused(leakbound(*command(tmp_path / "no-model", questions, out, *SCORER, *given)), *named)
    assert not out.exists()


def test_sample_refuses_what_needs_scores(
    model: Path, questions: Path, attacked: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    plain = ("sample", model, "--out", out, "--benchmark", questions)
    for more in (("--attack", 32), ("--like", attacked), ("--like", attacked, "--dry-run")):
        refused(leakbound(*plain, *more), "`leakbound sample`", "`leakbound evaluate`")
    assert not out.exists()
    assert "--attack" not in leakbound("sample", "--help").out
    assert "--attack BUDGET" in leakbound("evaluate", "--help").out


def test_half_precision_is_not_explored(model: Path, questions: Path, tmp_path: Path) -> None:
    """Of the target, or of a control that was stored so; before anything is sampled."""
    half = tiny_model_folder(tmp_path / "half")
    tiny_llama(len(tiny_tokenizer())).to(torch.bfloat16).save_pretrained(half)
    how = command(model, questions, tmp_path / "run", *EXPLORE)
    named = ("cannot be explored", "half precision", "--dtype float32")
    refused(leakbound(*how, "--dtype", "bfloat16"), "arm 'target'", *named)
    refused(leakbound(*how, "--dtype", "auto", "--control", half), "arm 'control'", *named)
    refused(leakbound(*how, "--dtype", "bfloat16", "--dry-run"), "--dtype float32")
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_damaged_masses_file_is_told_and_redone(
    explored: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    mine = Path(shutil.copytree(explored, tmp_path / "mine"))
    masses = min((mine / "arms" / "target" / "masses").iterdir())
    whole = masses.read_bytes()
    masses.unlink()
    for step in ("score", "bound", "report"):
        refused(leakbound(step, mine), "'target'", "lacks 1 of ", status=3)
    masses.write_bytes(whole[:-50])
    for step in ("score", "bound"):
        refused(leakbound(step, mine), "'target'", f"`{masses}`", "Restore", status=3)
    shown = done(*command(model, questions, mine, *EXPLORE))
    assert "exploring target:" in shown.err  # what was set aside is explored again
    assert Run.open(mine).estimates == Run.open(explored).estimates
    assert masses.with_name(f"{masses.name}.set-aside-1").exists()


@pytest.mark.slow
def test_every_cell_of_a_grid_is_explored(model: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shown = done(*command(model, questions, out, *EXPLORE, "--temperature", "0,0.5,1"))
    explored = {name for name, arm in Run.open(out).arms.items() if arm.explored}
    assert explored == {"target T=0.5", "target T=1"}
    for name in explored:
        assert f"{name}, explored (hybrid)" in shown.out
        assert rows(Run.open(out), arm=name, query_id=None, estimand="leak probability")


@pytest.mark.slow
def test_exact_masses_agree_with_an_independent_sample(model: Path, tmp_path: Path) -> None:
    """With a nucleus and a stop string: explored whole, up to what batch shapes may do."""
    file = tmp_path / "mine.csv"
    file.write_text("question,answer\nwho wrote red,Ann\nwho wrote sky,sea\n")
    how = ("evaluate", model, "--benchmark", file, "--scorer", "contains", "--temperature", 2)
    how += ("--top-p", 0.95, "--stop", "blue", "--stop", "red", "--max-new-tokens", 3)
    done(*how, "--explore", "exact", "--budget", 400, "--out", tmp_path / "e")
    done(*how, "-n", 2048, "--confidence", 0.9999, "--out", tmp_path / "s", "--seed", 5)
    for exact in rows(Run.open(tmp_path / "e"), arm="target", estimand="leak probability"):
        (seen,) = rows(
            Run.open(tmp_path / "s"), arm="target", estimand="leak probability",
            query_id=exact.query_id, target=exact.target,
        )  # fmt: skip
        assert exact.upper - exact.lower < 0.01
        assert seen.lower <= exact.upper
        assert exact.lower <= seen.upper
        assert (exact.confidence, exact.n) == (1.0, 0)


def test_evaluate_asks_rewritings_and_says_what_they_add(
    untied: Path, rewritten: Path, tmp_path: Path
) -> None:
    run = Run.open(rewritten)
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    assert 2 == len(run.questions) < len(run.queries) < 2 + 2 * 6
    assert run.record.inputs.ids_draws == 8
    shown = done("report", rewritten)
    assert "by protocol, 2 questions" in shown.out
    assert re.search(r"^run +rules ", shown.out, re.M)
    again = done("evaluate", untied, "--like", rewritten, "--out", rewritten, "--json")
    assert {r["arm"] for r in again.json["estimates"]} == set(run.arms)
    plain = tmp_path / "plain"
    done("sample", untied, "--like", rewritten, "--out", plain, "--inputs", "none")
    assert set(Run.open(plain).arms) == {"greedy", "target"}


def test_a_file_of_rewritings_is_found_from_anywhere(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "asked.csv"
    texts: Sequence[str] = ("red by who", "tell me who wrote red")
    file.write_text("\n".join(["question,rewriting", *(f"who wrote red,{t}" for t in texts)]))
    how = ("--inputs", "file:asked.csv", "--design", "fixed", "--limit", 1)
    done("sample", *command(model, questions, tmp_path / "r", *how, *SMALL)[1:])
    run = Run.open(tmp_path / "r")
    assert [q.text for q in run.queries][1:] == [*texts]
    assert run.record.study["rewritings"]["source"] == f"file:{file}"
    assert run.record.inputs.source == "file:asked.csv"


@pytest.mark.slow
def test_evaluate_attacks_and_says_what_it_found(model: Path, attacked: Path) -> None:
    entries = json.loads((attacked / "attack" / "found.json").read_text())["found"]
    run = Run.open(attacked)
    asked = [query.id for query in run.questions]
    assert [entry["query"]["prompt_id"] for entry in entries] == asked
    assert {entry["arm"] for entry in entries} <= set(run.arms)
    assert run.record.study["attack"]["budget"] == 32
    assert "where it was attacked, 2 questions" in done("report", attacked).out
    again = done("evaluate", model, "--like", attacked, "--out", attacked, "--json")
    assert {entry["arm"] for entry in entries} <= {r["arm"] for r in again.json["estimates"]}
