"""The demo shows the finding, and resumes if it is stopped."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cli.commands import done
from leakbound.demo import LABELS, Finding, run_demo
from leakbound.types import Headway


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was stopped after its first evaluation, and then finished."""
    out = tmp_path_factory.mktemp("demo") / "run"

    class StopError(Exception):
        pass

    def stop(now: Headway) -> None:
        if now.phase == "full: sampling target" and now.done:
            raise StopError

    with pytest.raises(StopError):
        run_demo(out, progress=stop)
    return out


@pytest.mark.slow
def test_the_demo_shows_the_finding(folder: Path) -> None:
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    made = run_demo(folder)
    redone = [
        p for p, at in kept.items() if p.suffix == ".safetensors" and p.stat().st_mtime_ns != at
    ]
    assert redone == []

    finding = made.finding
    assert finding.questions >= 20
    assert finding.greedy_leaks["full"] == finding.questions
    assert finding.greedy_leaks["NPO"] <= 1
    assert finding.question is not None
    assert finding.lower > finding.upper
    assert finding.worst["NPO + entropy"] <= finding.worst["NPO"] / 3
    assert finding.shown
    for label in ("NPO", "NPO + entropy"):
        assert finding.recall[label] >= 0.8 * finding.recall["full"]

    assert tuple(made.runs) == LABELS
    (results, phases) = made.tables
    assert [row[0].text for row in results.rows] == list(LABELS)
    assert phases.rows[-1][0].text == "all"
    page = made.report.read_text(encoding="utf-8")
    for question in made.runs["NPO"].prompts:
        assert question.question in page

    printed = done("demo", "--out", folder, "--json").json
    assert printed["finding"] == {**dataclasses.asdict(finding), "shown": True}


BASE = Finding(
    greedy_leaks={"full": 24, "NPO": 1},
    mean={},
    worst={"NPO": 0.09, "NPO + entropy": 0.03},
    recall={"full": 1.0, "NPO": 0.9, "NPO + entropy": 0.95},
    questions=24,
    question="q",
    lower=0.05,
    upper=0.01,
)


@pytest.mark.parametrize(
    "changed",
    [
        {"greedy_leaks": {"full": 24, "NPO": 2}},
        {"question": None},
        {"worst": {"NPO": 0.09, "NPO + entropy": 0.031}},
    ],
    ids=lambda c: next(iter(c)),
)
def test_each_part_of_the_finding_is_needed(changed: dict[str, object]) -> None:
    assert BASE.shown
    assert not dataclasses.replace(BASE, **changed).shown  # type: ignore[arg-type]
