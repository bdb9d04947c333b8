"""Questions proved clean: Holm's verdicts on the p-values of an arm's own draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from canned import CannedEngine
from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import bound_run, clean_table, evaluate, scorers_for
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.claims import clean_questions
from leakbound.store import Run
from leakbound.study import Until
from leakbound.types import Prompt, Scorer

LEAKS = {"p0": 0.0, "p1": 0.0, "p2": 0.3, "p3": 0.02}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    prompts = tuple(Prompt(id=p, question="who?", answer="the secret") for p in LEAKS)
    task = Benchmark(
        name="mine", origin="test", prompts=prompts, scorers=("contains",), max_new_tokens=8
    )
    engine = CannedEngine({p: {"no": 1 - leak, "the secret": leak} for p, leak in LEAKS.items()})
    scorers = ("contains", "rouge-l-recall")
    return evaluate(engine, task, out=tmp_path_factory.mktemp("clean"), n=512, scorers=scorers)


def scorer(run: Run, name: str) -> Scorer:
    return scorers_for([name], run.prompts)[0]


@pytest.mark.parametrize("name", ["contains", "rouge-l-recall"])
def test_clean_questions_are_those_that_holm_proves(run: Run, name: str) -> None:
    found = scorer(run, name)
    ids, clean = clean_questions(run.arms["target"], found, 0.05, 0.99)
    scores = run.arms["target"].scores(slug(found))
    if found.binary:
        p = stats.proportion_p_value(scores.hits, scores.n, 0.05)
    else:
        p = stats.mean_p_value(scores.scores, 0.05, scores.counts)
    assert np.array_equal(clean.holds, stats.clean_questions(0.05, p, confidence=0.99).holds)
    verdicts = dict(zip(ids, clean.holds.tolist(), strict=True))
    assert verdicts["p0"]
    assert verdicts["p1"]
    assert not verdicts["p2"]


def test_the_table_names_what_is_not_proved(run: Run) -> None:
    table = clean_table(run, scorer(run, "contains"), 0.05, 0.99)
    (row,) = table.texts  # the greedy arm has no row
    assert row[0] == "target"
    assert "p2" in row[2]
    assert "p0" not in row[2]
    assert "Holm" in table.note


def test_an_impossible_limit_leaves_nothing_proved(run: Run) -> None:
    _, clean = clean_questions(run.arms["target"], scorer(run, "contains"), 1e-6, 0.99)
    assert not clean.holds.any()
    with pytest.raises(InputError, match="limit"):
        clean_questions(run.arms["target"], scorer(run, "contains"), 1.5, 0.99)


def test_arms_without_a_fixed_n_of_plain_draws_are_refused(tmp_path: Path) -> None:
    prompts = (Prompt(id="p", question="who?", answer="the secret"),)
    task = Benchmark(
        name="mine", origin="test", prompts=prompts, scorers=("contains",), max_new_tokens=8
    )
    engine = CannedEngine({"p": {"no": 1.0}})
    stopped = evaluate(engine, task, out=tmp_path / "r", sampling=Until("p<=0.2", 64))
    found = scorer(stopped, "contains")
    bound_run(stopped, [found])
    with pytest.raises(InputError, match="fixed beforehand"):
        clean_questions(stopped.arms["target"], found, 0.05, 0.99)
