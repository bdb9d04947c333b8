"""Scores that a model gives: made once, found without it, never mixed with another model's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine
from fake_models import FakeModels, WordClassifier
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError, MixError
from leakbound.evaluation import bound_run, evaluate, sample, score_run, scorers_for, summary
from leakbound.evaluation.scoring import score as scoring
from leakbound.reporting import write_report
from leakbound.scorers import connect, make_scorer
from leakbound.store import Run
from leakbound.types import Prompt, Scorer

GOALS = 20
LEAKS = {f"g{i:02d}": 0.0 if i < 5 else 0.002 if i < 15 else 0.6 for i in range(GOALS)}
FEW = [*LEAKS][::2]  # where all that is bounded counts
SPEC = "classifier:harm>=0.5"
WORDS = "Ada Vale 1953 Velmora."


def benchmark(goals: Sequence[str] = tuple(LEAKS)) -> Benchmark:
    prompts = tuple(Prompt(id=q, question=f"Tell {q}") for q in goals)
    return Benchmark(name="goals", prompts=prompts, origin="", scorers=(SPEC,), max_new_tokens=8)


def engine() -> CannedEngine:
    return CannedEngine({q: {"no": 1 - p, f"{WORDS} {q}": p} for q, p in LEAKS.items()})


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    found = FakeModels()
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: found)
    return found


def scored(out: Path) -> Run:
    run = sample(engine(), benchmark(), out=out)
    score_run(run, scorers_for([SPEC], run.prompts, {"device": "cpu"}))
    return run


def evaluated(out: Path, **how: Any) -> Run:
    return evaluate(engine(), benchmark(FEW), out=out, **how)


def asking(classifier: WordClassifier) -> tuple[Scorer]:
    return (connect(make_scorer(SPEC), FakeModels(classifier=classifier)),)


def test_distinct_completions_of_all_questions_share_batches(
    tmp_path: Path, models: FakeModels
) -> None:
    run = scored(tmp_path / "r")
    batches = models.classifier.batches
    assert len(batches) == sum(len(arm.parts) for arm in run.arms.values())
    assert all(len(batch) == len(set(batch)) for batch in batches)
    assert sum(map(len, batches)) <= 3 * GOALS
    assert max(len({goal for goal, _ in batch}) for batch in batches) >= 8
    hits = run.arms["target"].scores(scoring.slug(make_scorer(SPEC))).hits
    assert hits[:5].sum() == 0
    assert all(500 < hit < 730 for hit in hits[15:])


def test_scores_are_found_without_the_model(
    tmp_path: Path, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evaluated(tmp_path / "r")
    assert run.arms["target"].scored.model(scoring.slug(make_scorer(SPEC)))["weights"] == "w1"
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: pytest.fail("a model was opened"))
    found = scorers_for([SPEC], run.prompts)
    bound_run(run, found, confidence=0.9)
    assert {row.confidence for row in run.estimates} >= {0.9}
    write_report({"r": run}, tmp_path / "r.html")
    score_run(run, found)  # nothing is left to do
    with pytest.raises(InputError, match=r"not open.*open_scorer"):
        score_run(run, scorers_for(["classifier:other"], run.prompts))


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path, models: FakeModels) -> None:
    run = scored(tmp_path / "r")
    slug = scoring.slug(make_scorer(SPEC))
    changed = WordClassifier(weights="w2")
    before = run.arms["target"].scored.stored.digest(slug), run.arms["target"].scored.rows(slug)
    with pytest.raises(MixError, match=r"another model of that name: its weights differ"):
        score_run(run, asking(changed))
    run.arms["target"].scored.stored.file(slug).unlink()
    with pytest.raises(MixError, match="arm 'greedy'"):
        score_run(run, asking(changed))
    assert changed.batches == []
    run.arms["greedy"].scored.stored.file(slug).unlink()
    score_run(run, asking(changed))
    after = run.arms["target"].scored.stored.digest(slug), run.arms["target"].scored.rows(slug)
    assert after[1] == before[1]
    assert after[0] != before[0]  # estimates of the other model's scores are not of these
    assert run.arms["target"].scored.model(slug)["weights"] == "w2"


def test_another_model_of_the_name_is_refused_before_anything_is_drawn(
    tmp_path: Path, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evaluated(tmp_path / "r")
    next((run.arms["target"].folder / "completions").iterdir()).unlink()
    monkeypatch.setattr(models, "classifier", WordClassifier(weights="w2"))
    monkeypatch.setattr(CannedEngine, "generate", lambda *_: pytest.fail("something was drawn"))
    with pytest.raises(MixError, match=r"another model of that name: its weights differ"):
        evaluated(tmp_path / "r")


def test_scoring_goes_on_where_it_was_stopped(tmp_path: Path, models: FakeModels) -> None:
    run = sample(engine(), benchmark(), out=tmp_path / "r")

    class Dying(WordClassifier):
        def classify(self, texts: Any) -> Any:
            if len(self.batches) == 3:
                raise RuntimeError("the machine was switched off")
            return super().classify(texts)

    with pytest.raises(RuntimeError, match="switched off"):
        score_run(run, asking(Dying()))
    again = WordClassifier()
    score_run(run, asking(again))
    assert len(again.batches) == sum(len(arm.parts) for arm in run.arms.values()) - 3
    whole = scored(tmp_path / "whole")
    slug = scoring.slug(make_scorer(SPEC))
    for name, arm in run.arms.items():
        assert arm.scored.stored.digest(slug) == whole.arms[name].scored.stored.digest(slug)
        assert arm.scored.has(make_scorer(SPEC).name, slug)


def test_the_questions_that_leak_at_all_stand_beside_the_greedy_answers(
    tmp_path: Path, models: FakeModels
) -> None:
    run = evaluated(tmp_path / "r")
    hits = run.arms["target"].scores(scoring.slug(make_scorer(SPEC))).hits
    leaked = int((hits > 0).sum())
    assert leaked > 2
    (table,) = summary(run)
    assert f"{leaked} of {len(FEW)} questions leaked in 1,024 draws, 2 in the greedy" in table.note
    row = run.estimates.mean("leak@k", parameter=1024)
    assert row.value == pytest.approx(leaked / len(FEW))
    truth = np.mean([1 - (1 - LEAKS[q]) ** 1024 for q in FEW])
    assert 0.1 < row.lower < truth < row.upper


def test_a_score_between_0_and_1_has_no_such_count(tmp_path: Path, models: FakeModels) -> None:
    run = evaluated(tmp_path / "r", scorers=["classifier:harm"], n=32)
    (table,) = summary(run)
    assert "questions leaked" not in table.note
    assert [r.parameter for r in run.estimates.where(quantity="leak@k", scope="mean")] == [32]
