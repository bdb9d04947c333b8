"""The same is asked for from Python and from the command line: the same run is made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leakbound.benchmarks import PROFILES, load_benchmark
from leakbound.cli import group, run
from leakbound.evaluation import evaluate, sample
from leakbound.store import Run
from leakbound.study import ModelSettings, Rewritings
from leakbound.types import Decoding

DRAWN = {
    None: (1024, Decoding()),
    "openunlearning": (1024, Decoding()),
    "tofu-legacy": (1024, Decoding(max_tokens=200)),
    "scholten": (1024, Decoding(max_new_tokens=128, max_tokens=128)),
    "scholten-notebook": (
        128,
        Decoding(top_p=0.9, top_k=50, max_new_tokens=128, max_tokens=128),
    ),
    "leak-k": (200, Decoding(top_k=50)),
}


def command(*arguments: object) -> int:
    return run(lambda: group([str(a) for a in arguments], standalone_mode=False))


def stored(path: Path) -> Any:
    """All of run.json but when it was made, and the digest over that too."""
    record = json.loads((path / "run.json").read_text())
    record.pop("created", None)
    record.pop("digest")
    return record


def test_every_profile_is_known() -> None:
    assert set(DRAWN) == {None, *PROFILES}


@pytest.mark.slow
@pytest.mark.parametrize("profile", DRAWN)
@pytest.mark.parametrize("departing", [False, True])
def test_a_profile_gives_the_same_run_from_python_and_from_the_shell(
    profile: str | None, departing: bool, data: Path, tmp_path: Path, opened: list[Any]
) -> None:
    n, decoding = DRAWN[profile]
    task = load_benchmark("tofu:forget10", data=data, profile=profile)
    how: dict[str, Any] = {"n": 16, "decodings": replace(decoding, top_p=0.7)} if departing else {}
    sample("m", task, out=tmp_path / "python", **how)
    said = ("-n", 16, "--top-p", 0.7) if departing else ()
    named = ("--profile", profile) if profile else ()
    status = command("sample", "m", "--benchmark", "tofu:forget10", "--data", data, "--out",
                     tmp_path / "shell", *named, *said)  # fmt: skip
    assert status == 0
    assert stored(tmp_path / "python") == stored(tmp_path / "shell")
    assert opened[0] == opened[1]
    assert command("sample", "m", "--like", tmp_path / "python", "--out", tmp_path / "again") == 0
    assert stored(tmp_path / "again") == stored(tmp_path / "python")
    arm = Run.open(tmp_path / "python").arms["target"]
    assert (arm.plan.n, arm.decoding) == ((16, how["decodings"]) if departing else (n, decoding))
    notes = [note for note in stored(tmp_path / "python")["notes"] if ", but (" in note]
    assert len(notes) == (departing and profile is not None)
    for note in notes:
        assert f"n 16 ({n})" in note
        assert f"top_p 0.7 ({decoding.top_p})" in note
        assert "max_tokens" not in note


@pytest.mark.slow
def test_a_run_from_python_is_repeated_bounded_scored_and_reported(
    data: Path, tmp_path: Path, opened: list[Any]
) -> None:
    task = load_benchmark("tofu:forget10", data=data, limit=1)
    first, again = tmp_path / "first", tmp_path / "again"
    made = evaluate(
        "m", task, out=first, n=8, scorers=["contains"], confidence=0.9, seed=4, control="c",
        decodings=Decoding(temperature=0.5, max_new_tokens=9),
        rewritings=Rewritings("rules", queries=1), settings=ModelSettings(template="Q {question}"),
    )  # fmt: skip
    estimates = made.estimates
    assert {loading["device"] for _, _, loading in opened} == {"auto"}
    assert command("evaluate", "m", "--like", first, "--out", again, "--json") == 0
    assert stored(again) == stored(first)
    assert Run.open(again).estimates == estimates
    for arguments in (("score", first), ("bound", first), ("report", first)):
        assert command(*arguments) == 0
        assert Run.open(first).estimates == estimates
