"""`leakbound evaluate --explore`: distributions that are explored, from the shell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from commands import SMALL, done, leakbound, refused

from estimates import rows
from leakbound.evaluation.scoring import score as scoring
from leakbound.store import ExploredDraws, Run
from leakbound.types import Prompt
from tiny import tiny_llama, tiny_model_folder, tiny_tokenizer

HOW = ("--max-new-tokens", 4, "--scorer", "contains", "--explore", "hybrid", "--budget", 40)


def command(model: Path, questions: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("evaluate", model, "--benchmark", questions, "--out", out, *HOW, *more)


@pytest.fixture(scope="module")
def explored(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished exploration that no test may change."""
    out = tmp_path_factory.mktemp("explore") / "run"
    shown = done(*command(model, questions, out))
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


@pytest.fixture
def mine(explored: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(explored, tmp_path / "mine"))


def test_the_way_of_looking_is_recorded(explored: Path) -> None:
    run = Run.open(explored)
    target = run.arms["target"]
    how = target.spec.draws
    assert isinstance(how, ExploredDraws)
    assert (how.mode, how.forwards, how.scorer.name) == ("hybrid", 40, "contains")
    assert run.record.study["sampling"] == {"explore": "hybrid", "forwards": 40}
    assert all(before <= 40 for before, _ in target.masses.found().forwards.values())


def test_as_json(explored: Path, model: Path, questions: Path, no_model: None) -> None:
    shown = done("bound", explored, "--scorer", "contains", "--json").json
    assert shown["report"] == str(explored / "report.html")
    leak = [r for r in shown["estimates"] if r["estimand"] == "leak probability"]
    each = [r for r in leak if r["query_id"]]
    assert {r["query_id"] for r in each} == {"mine/0001", "mine/0002"}
    assert {r["method"] for r in each} == {"exact mass + Clopper-Pearson"}
    assert all(r["lower"] <= r["value"] <= r["upper"] and r["n"] > 0 for r in each)
    (mean,) = [r for r in leak if not r["query_id"]]
    assert mean["n"] == sum(r["n"] for r in each)
    far = [
        r
        for r in shown["estimates"]
        if r["quantity"] == "leak@k" and not r["proved"] and r["parameter"] == 1048576
    ]
    assert len(far) == 2


@pytest.mark.usefixtures("no_model")
def test_other_scorers_and_confidences_need_no_model(explored: Path, mine: Path) -> None:
    done("score", mine, "--scorer", "contains", "--scorer", "rouge-l-recall")
    done("bound", mine, "--scorer", "contains", "--scorer", "rouge-l-recall", "--confidence", 0.9)
    wide, narrow = (
        rows(Run.open(run), scorer="contains", query_id="mine/0001") for run in (explored, mine)
    )
    for before, after in zip(wide, narrow, strict=True):
        assert before.upper >= after.upper
        assert before.lower <= after.lower
    assert rows(Run.open(mine), scorer="rouge-l-recall", estimand="mean leakage")
    refused(leakbound("bound", mine, "--scorer", "exact"), "no scores of 'exact'")


@pytest.mark.slow
def test_like_repeats_it_or_changes_it(explored: Path, control: Path, tmp_path: Path) -> None:
    like = ("--like", explored)
    done("evaluate", control, *like, "--out", tmp_path / "same")
    done("evaluate", control, *like, "--out", tmp_path / "more", "--budget", 41)
    done("evaluate", control, *like, "--out", tmp_path / "plain", "-n", 16)
    before = Run.open(explored).arms["target"].spec.draws
    assert isinstance(before, ExploredDraws)
    arms = {name: Run.open(tmp_path / name).arms["target"] for name in ("same", "more", "plain")}
    assert arms["same"].spec.draws == before
    assert arms["more"].spec.draws == replace(before, forwards=41)
    assert (arms["plain"].explored, arms["plain"].plan.n) == (False, 16)
    refused(
        leakbound("sample", control, *like, "--out", tmp_path / "s"),
        "`explore` 'hybrid' is steered",
    )
    plain = ("--like", tmp_path / "plain", "--out")
    done("sample", control, *plain, tmp_path / "t")
    done("evaluate", control, *plain, tmp_path / "e", "--explore", "hybrid", "--budget", 40)
    assert Run.open(tmp_path / "e").arms["target"].spec.draws == before
    refused(leakbound("evaluate", control, *plain, tmp_path / "b", "--budget", 9), "`budget` 9")
    assert not any((tmp_path / name).exists() for name in ("s", "b"))


def test_a_dry_run_counts_forwards(model: Path, questions: Path, tmp_path: Path) -> None:
    how = command(model, questions, tmp_path / "run", "--temperature", "0.5,1", "--dry-run")
    shown = done(*how)
    assert "2 questions, 2 decodings, 160 forwards; about" in shown.out
    assert "draws" not in shown.out
    cost = done(*how, "--json").json
    assert (cost["forwards"], cost["draws"], cost["tokens"]) == (160, 0, 0)
    half = command(model, questions, tmp_path / "run", "--dtype", "bfloat16", "--dry-run")
    refused(leakbound(*half), "--dtype float32")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--until", "p<=0.02"], ["two ways of drawing", "'hybrid'"]),
        (["-n", 64], ["`n` 64 has no meaning with exploring", "--budget"]),
        (["--budget", 0], ["`budget`", "at least 1 forward per question", "got 0"]),
        (["--budget", -2], ["`budget`", "got -2"]),
        (["--budget", "many"], ["--budget", "'many'"]),
        (["--explore", "certain"], ["--explore", "'certain'", "exact", "auto"]),
        (["--explore", "sampled"], ["--explore", "'sampled'", "hybrid"]),
        (["--scorer", "rogue"], ["'rogue'"]),
    ],
    ids=lambda values: " ".join(map(str, values)),
)
@pytest.mark.usefixtures("no_model")
def test_what_makes_no_sense_is_refused_at_once(
    arguments: Sequence[object], named: Sequence[str], questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    refused(leakbound(*command(Path("model"), questions, out, *arguments)), *named)
    assert not out.exists()


def test_half_precision_is_refused_before_anything_is_sampled(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    """Of the target, or of a control that was stored so."""
    half = tiny_model_folder(tmp_path / "half")
    tiny_llama(len(tiny_tokenizer())).to(torch.bfloat16).save_pretrained(half)
    how = command(model, questions, tmp_path / "run")
    named = ("cannot be explored", "half precision", "--dtype float32")
    refused(leakbound(*how, "--dtype", "bfloat16"), "arm 'target'", *named)
    refused(leakbound(*how, "--dtype", "auto", "--control", half), "arm 'control'", *named)
    assert not (tmp_path / "run" / "run.json").exists()
    assert not (tmp_path / "run" / "arms").exists()


def test_another_way_of_looking_is_refused(
    explored: Path, finished: Path, model: Path, questions: Path
) -> None:
    before = (explored / "run.json").read_bytes()
    how = command(model, questions, explored)
    refused(leakbound(*how, "--budget", 41), "forwards: it has 40, this one says 41", "--out")
    refused(leakbound(*how, "--explore", "exact"), "it has 'hybrid', this one says 'exact'")
    first = how[:6]
    refused(leakbound(*first, *SMALL), str(explored), "another command")
    assert (explored / "run.json").read_bytes() == before
    refused(leakbound(*command(model, questions, finished)), str(finished), "another command")


@dataclass(frozen=True)
class Lying:
    """Settles at the first word what the whole text decides."""

    name: str = "lying"
    binary: bool = True

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [float(len(text) > 3) for text in texts]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        return (0.0, 0.0) if prefix else (0.0, 1.0)


def test_a_scorer_whose_bounds_do_not_hold_is_refused(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "make_scorer", lambda spec: Lying())
    out = tmp_path / "run"
    named = ("`bounds` must hold for every text", "'lying'", "'mine/000", "Settle only")
    refused(leakbound(*command(model, questions, out)), *named)
    assert not list(out.glob("arms/target/*/part-*"))


def test_a_damaged_masses_file_is_told_and_redone(
    explored: Path, mine: Path, model: Path, questions: Path
) -> None:
    masses = min((mine / "arms" / "target" / "masses").iterdir())
    whole = masses.read_bytes()
    masses.unlink()
    for step in ("score", "bound", "report"):
        refused(leakbound(step, mine), "'target'", "lacks 1 of ", status=3)
    masses.write_bytes(whole[:-50])
    for step in ("score", "bound"):
        refused(leakbound(step, mine), "'target'", f"`{masses}`", "Restore", status=3)
    shown = done(*command(model, questions, mine))
    assert "exploring target:" in shown.err  # what was set aside is explored again
    assert Run.open(mine).estimates == Run.open(explored).estimates
    assert masses.with_name(f"{masses.name}.set-aside-1").exists()


@pytest.mark.slow
def test_every_cell_of_a_grid_is_explored(model: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shown = done(*command(model, questions, out, "--temperature", "0,0.5,1"))
    arms = Run.open(out).arms
    explored = {name for name, arm in arms.items() if arm.explored}
    assert explored == {"target T=0.5", "target T=1"}
    for name in explored:
        assert f"{name}, explored (hybrid)" in shown.out
        assert rows(Run.open(out), arm=name, query_id=None, estimand="leak probability")
    assert (out / "report.html").is_file()


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
