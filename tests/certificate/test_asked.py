"""A certificate says what was asked: rewritings are not the questions alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import leakbound
from asked import AskedEngine
from leakbound.benchmarks import Benchmark
from leakbound.certificate import verify
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.study import Rewritings
from leakbound.types import Prompt

TASK = Benchmark(
    name="asked", origin="", scorers=("contains",), max_new_tokens=8,
    prompts=tuple(Prompt(id=f"q{i}", question=f"Who wrote {i}?", answer="hush") for i in range(3)),
)  # fmt: skip


def made(out: Path, **how: object) -> Run:
    return evaluate(AskedEngine(lambda query, decoding: 0.1), TASK, out=out, n=64, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ("allocated", "in its own words or a rewriting of it, drawn anew for every output"),
        ("fixed", "in its own words and in rewritings of it, equally often"),
    ],
)
def test_rewritings_are_named_with_source_and_design(
    design: str, said: str, tmp_path: Path
) -> None:
    run = made(tmp_path / "r", rewritings=Rewritings("rules", queries=3, design=design))  # type: ignore[arg-type]
    found = leakbound.certify(run, max_leak=0.5, arm="target inputs")
    number = len(run.queries) - len(run.questions)
    words = f"{said} ({number} rewritings, source rules, design {design}; 3 tried of each, seed 0"
    assert words in found.sentence
    stored = json.loads((run.path / "certificate.json").read_text())
    assert words in stored["specification"]["Asked"]
    assert words in stored["sentence"]
    own = leakbound.certify(run, max_leak=0.5, out=run.path / "own.json")
    assert "rewriting" not in own.sentence
    told = json.loads((run.path / "own.json").read_text())["specification"]
    assert told["Asked"] == "each in its own words"


def test_a_certificate_that_says_something_else_is_not_verified(tmp_path: Path) -> None:
    run = made(tmp_path / "r", rewritings=Rewritings("rules", queries=3))
    leakbound.certify(run, max_leak=0.5, arm="target inputs")
    file = run.path / "certificate.json"
    assert verify(file, run.path).verified
    stored = json.loads(file.read_text())
    stored["specification"]["Asked"] = "each in its own words"
    file.write_text(json.dumps(stored))
    found = verify(file, run.path)
    assert not found.verified
    (sentence,) = (check for check in found.checks if check.name == "sentence")
    assert [one.where for one in sentence.differences] == ["specification.Asked"]  # by itself
