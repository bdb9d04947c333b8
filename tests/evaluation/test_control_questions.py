"""Questions that a model was never taught, as a control without a second model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canned import LEAK, SpyEngine, benchmark_of
from contents import contents, rows
from leakbound.benchmarks import load_benchmark
from leakbound.bounding.control_questions import OTHERS
from leakbound.engines.ray_workers import RayWorkers
from leakbound.errors import InputError
from leakbound.evaluation import evaluate, run_verdicts, sample, summary
from leakbound.store import Run
from leakbound.study import Attack
from leakbound.types import Decoding, Query

TASK = benchmark_of(("0", "1"), question="Who wrote {}?", answer=LEAK, keywords=("hush",))


def taught(query: Query, decoding: Decoding) -> float:
    return 0.6 if "wrote" in query.text else 0.1


@pytest.fixture
def others(tmp_path: Path) -> str:
    file = tmp_path / "others.csv"
    rows = (f"Who drew {i}?,It is hush.,hush" for i in range(3))
    file.write_text("\n".join(["question,answer,keywords", *rows]))
    return str(file)


def made(out: Path, **how: Any) -> Run:
    fields: dict[str, Any] = {"n": 128, "scorers": ["keyword"], **how}
    return evaluate(SpyEngine(taught, name="m"), TASK, out=out, **fields)


def test_the_two_sets_differ_in_this_model(others: str, tmp_path: Path) -> None:
    run = made(tmp_path / "run", control_questions=others)
    (row,) = rows(run, beyond="other questions")
    assert (row.arm, row.scope, row.query_id) == ("target", "mean", None)
    assert 0.3 < row.lower < 0.5 < row.upper < 0.7
    (verdict,) = run_verdicts(run)
    assert verdict.kind == "uncontrolled", "it is no control"
    excess = verdict.control_questions
    assert excess.startswith("excess over the control questions, which the model was ")
    assert "does not compare this model with a model that never saw the data" in excess
    assert excess in verdict.lines
    assert f"target, {excess}" in summary(run)[0].lead
    assert len(Run.open(run.path / OTHERS).questions) == 3


def test_a_later_request_is_drawn_once(others: str, tmp_path: Path) -> None:
    before = contents(made(tmp_path / "run"))
    run = made(tmp_path / "run", control_questions=others)
    assert rows(run, beyond="other questions")
    again = contents(run)
    assert before["target", "completions"] == again["target", "completions"]
    assert contents(made(tmp_path / "run", control_questions=others)) == again
    assert rows(made(tmp_path / "run"), beyond="other questions"), "what is known stays"


def test_two_sets_that_leak_equally_do_not_differ(others: str, tmp_path: Path) -> None:
    engine = SpyEngine(lambda query, decoding: 0.3, name="m")
    run = evaluate(
        engine, TASK, out=tmp_path / "run", n=64, scorers=["keyword", "rouge-l-recall"],
        control_questions=others,
    )  # fmt: skip
    both = rows(run, beyond="other questions")
    assert {row.scorer for row in both} == {"keyword", "rouge-l-recall"}
    assert all(row.lower < 0 < row.upper for row in both)


def test_refusals_come_before_draws(others: str, tmp_path: Path) -> None:
    file = tmp_path / "same.csv"
    file.write_text("question,answer,keywords\nWho  wrote 0?,It is hush.,hush\n")
    wanted, out = SpyEngine(taught), tmp_path / "run"
    with pytest.raises(InputError, match="include evaluated questions, such as"):
        evaluate(wanted, TASK, out=out, control_questions=str(file), scorers=("keyword",))
    with pytest.raises(InputError, match="cannot be used with workers"):
        evaluate("m", TASK, out=out, control_questions=others, workers=RayWorkers("local"))
    with pytest.raises(InputError, match="`--only sample` computes none"):
        sample(wanted, TASK, out=out, control_questions=others)
    assert not wanted.queried
    assert not out.exists()


def test_control_questions_get_plain_draws_only(others: str, tmp_path: Path) -> None:
    prompts = tuple(replace(prompt, id=f"p{prompt.id}") for prompt in TASK.prompts)
    retained = tuple(replace(p, id=f"r{p.id}", question="Where?", role="retain") for p in prompts)
    task = replace(TASK, prompts=prompts, others={"retain": lambda: retained})
    run = evaluate(
        SpyEngine(taught, name="m"), task, out=tmp_path / "run", n=64, scorers=["keyword"],
        control_questions=others, stress="opener:1", attack=Attack(64),
    )  # fmt: skip
    assert set(Run.open(run.path / OTHERS).arms) == {"greedy", "target"}


def test_a_coin_that_chose_subjects_tests_the_effect_of_teaching(
    others: str, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    rows = (f"Who wrote {i}{who}?,{LEAK},hush,{who}" for who in "abcdefgh" for i in range(2))
    file.write_text("\n".join(["question,answer,keywords,subject", *rows]))
    half = load_benchmark(f"taught:4,{file}")

    def leaky(query: Query, decoding: Decoding) -> float:
        return 0.6 if query.prompt_id in half.subjects else 0.1

    run = evaluate(
        SpyEngine(leaky, name="m"), half, out=tmp_path / "run", n=128, scorers=["keyword"],
        control_questions=f"untaught:4,{file}",
    )  # fmt: skip
    (row,) = run.estimates.matching(quantity="randomisation p-value")
    assert (row.value, row.over, row.scope) == (1 / 70, 8, "halves"), "all four leak more"
    (verdict,) = run_verdicts(run)
    assert verdict.control_questions.endswith(
        "decided which of 8 subjects the model was taught. If teaching changed nothing, a "
        "difference at least as large would have probability 0.015 (exact test by all 70 choices)"
    )
    other = run.path.parent / "other"
    evaluate(
        SpyEngine(leaky, name="m"), half, out=other, n=32, scorers=["keyword"],
        control_questions=others,
    )  # fmt: skip
    assert not Run.open(other).estimates.matching(quantity="randomisation p-value")
