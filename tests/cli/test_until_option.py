"""`leakbound evaluate --until`: a claim that stops sampling, from the shell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import done, leakbound, refused

from leakbound.store import Arm, Run, StoppedDraws

HOW = ("-n", 64, "--max-new-tokens", 4, "--until", "p<=0.6")


def command(model: Path, questions: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("evaluate", model, "--benchmark", questions, "--out", out, *HOW, *more)


@pytest.fixture(scope="module")
def stopped(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with --until that no test may change."""
    out = tmp_path_factory.mktemp("until") / "run"
    result = done(*command(model, questions, out))
    claims = [r for r in Run.open(out).estimates if r.estimand == "claim p<=0.6"]
    drawn = sum(r.n for r in claims)
    assert drawn < 128
    assert f"target, p<=0.6: holds for {len(claims)}, refuted for 0, open for 0" in result.out
    assert f"{drawn} draws instead of 128" in result.out
    assert "n ≤ 64" in result.out
    return out


def test_looks_are_recorded_with_the_run(stopped: Path) -> None:
    target = Run.open(stopped).arms["target"]
    assert isinstance(target.spec.draws, StoppedDraws)
    assert target.spec.draws.claim == "p<=0.6"
    assert len(target.looks) == len(target.rounds) - 1
    assert Run.open(stopped).record.study["sampling"]["until"] == "p<=0.6"


def test_bounding_again_needs_no_model_and_keeps_what_was_decided(
    stopped: Path, tmp_path: Path, no_model: None
) -> None:
    run = shutil.copytree(stopped, tmp_path / "run")
    rows: Any = done("bound", run, "--confidence", 0.9, "--json").json["estimates"]
    claims = [r for r in rows if r["estimand"] == "claim p<=0.6"]
    assert {(r["confidence"], r["value"]) for r in claims} == {(0.99, 1)}
    leaks = [r for r in rows if r["estimand"] == "leak probability" and r["arm"] == "target"]
    assert {r["confidence"] for r in leaks} == {0.9}


@pytest.mark.slow
def test_a_stopped_command_goes_on_with_the_same_looks(
    stopped: Path, model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_part, parts = Arm.write_part, []

    def stops(arm: Arm, part: Any, *args: Any) -> None:
        parts.append(part)
        if len(parts) == 3:
            raise KeyboardInterrupt
        write_part(arm, part, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Arm, "write_part", stops)
        assert leakbound(*command(model, questions, tmp_path / "run")).status == 3
    assert leakbound("bound", tmp_path / "run").status == 3
    done(*command(model, questions, tmp_path / "run"))
    runs = [Run.open(path) for path in (stopped, tmp_path / "run")]
    assert runs[0].estimates == runs[1].estimates
    assert runs[0].arms["target"].looks == runs[1].arms["target"].looks


@pytest.mark.slow
def test_like_repeats_the_rule(stopped: Path, control: Path, tmp_path: Path) -> None:
    done("evaluate", control, "--like", stopped, "--out", tmp_path / "run")
    ours, theirs = (Run.open(path).arms["target"] for path in (tmp_path / "run", stopped))
    assert ours.spec.draws == theirs.spec.draws
    refused(leakbound("sample", control, "--like", stopped, "--out", tmp_path / "s"), "'p<=0.6'")
    assert not (tmp_path / "s").exists()


def test_a_dry_run_says_the_most_it_would_cost(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    shown = done(*command(model, questions, tmp_path / "run", "--dry-run"))
    assert "128 draws" in shown.out
    assert "this is the most: --until" in shown.out
    assert done(*command(model, questions, tmp_path / "run", "--dry-run", "--json")).json
    assert list(tmp_path.iterdir()) == []


def test_another_n_or_rule_names_the_difference(
    stopped: Path, model: Path, questions: Path
) -> None:
    before = (stopped / "run.json").read_bytes()
    how = command(model, questions, stopped)
    refused(leakbound(*how, "-n", 65), "n = 64, fixed before", "--out")
    refused(leakbound(*how, "--until", "p<=0.4"), "it has 'p<=0.6', this one says 'p<=0.4'")
    refused(leakbound(*how, "--confidence", 0.9), "confidence: it has 0.99, this one says 0.9")
    assert (stopped / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--until", "p=0.02"], ["'p=0.02'", "p<=0.02"]),
        (["--until", ""], ["''", "p<=0.02"]),
        (["--until", "leak<=0.02"], ["'leak<=0.02'", "mean<=0.1"]),
        (["--until", "p<=x"], ["'p<=x'"]),
        (["--until", "p<=0"], ["strictly between 0 and 1", "0.0"]),
        (["--until", "p<=1"], ["strictly between 0 and 1", "1.0"]),
        (["--until", "p<=2"], ["strictly between 0 and 1", "2.0"]),
        (["--until", "mean<=0.1"], ["'keyword:require=all'", "Say 'p<=0.1'"]),
        (["--scorer", "rouge-l-recall"], ["'rouge-l-recall>=0.5'", "mean<=0.6"]),
        (["-n", 1], ["`n`", "got 1", "Raise it"]),
    ],
    ids=lambda values: " ".join(map(str, values)),
)
@pytest.mark.usefixtures("no_model")
def test_claims_that_make_no_sense(
    arguments: Sequence[object], named: Sequence[str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    how = ("--benchmark", "fictitious", "--limit", 2, "--out", out, *HOW, *arguments)
    refused(leakbound("evaluate", "model", *how), *named)
    assert not out.exists()
