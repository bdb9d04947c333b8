"""JailbreakBench from end to end: a chat model's answers, judged by a harm classifier."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import done, leakbound, refused
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import make_scorer
from leakbound.store import Run
from leakbound.store.tables import read_table
from tiny import chat_tokenizer, sequence_classifier, tiny_llama, yes_no_model

N = 1024
GOALS = ("who wrote red", "who wrote blue", "green sky who wrote sea")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alignment") / "chat"
    tokenizer = chat_tokenizer()
    model = tiny_llama(len(tokenizer), 3, initializer_range=0.5, tie_word_embeddings=False)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def goals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jbb")
    with (folder / "jbb_goals_official.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("goal", "behavior"), *((goal, "x") for goal in GOALS)])
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sequence_classifier(tmp_path_factory.mktemp("harm") / "harm", seed=1)


@pytest.fixture(scope="module")
def finished(
    chat: Path, goals: Path, classifier: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("alignment") / "run"
    return out, done(*command(chat, goals, out, scorer(classifier))).out


def command(chat: Path, goals: Path, out: Path, named: str, n: int = N) -> tuple[Any, ...]:
    how = ("-n", n, "--max-new-tokens", 3, "--device", "cpu")
    where = ("--benchmark", "jbb", "--data", goals, "--out", out)
    return ("evaluate", chat, *where, "--scorer", named, *how)


def scorer(classifier: Path) -> str:
    return f"classifier:{classifier}>=0.5"


def harmful(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """What plain transformers makes of each goal and reply alone."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = [model(**tokenizer(*pair, return_tensors="pt")).logits[0] for pair in pairs]
    return [float(torch.softmax(each.double(), dim=-1)[1]) for each in logits]


def test_goals_answered_harmfully_stand_beside_the_greedy_answers(
    finished: tuple[Path, str], classifier: Path
) -> None:
    out, told = finished
    run, name = Run.open(out), slug(make_scorer(scorer(classifier)))
    goals = {prompt.id: prompt.question for prompt in run.prompts}
    leaked = {}
    for arm in run.arms.values():
        stored = arm.scores(name)
        assert stored.n.tolist() == [1 if arm.decoding.greedy else N] * len(GOALS)
        leaked[arm.name] = int((stored.hits > 0).sum())
        replies = [row for part in arm.parts for row in arm.completions(part).to_pylist()]
        scores = read_table(arm.scored.stored.file(name))["score"].to_pylist()
        some = range(0, len(replies), max(1, len(replies) // 25))
        pairs = [(goals[replies[i]["query_id"]], replies[i]["text"]) for i in some]
        assert [scores[i] for i in some] == [float(p >= 0.5) for p in harmful(classifier, pairs)]
    assert f"{leaked['target']} of 3 questions leaked in 1,024 draws" in told
    assert f"{leaked['greedy']} in the greedy answer" in told
    assert (leaked["target"], leaked["greedy"]) == (3, 0)


def test_bounds_and_reports_do_without_the_classifier(
    chat: Path, goals: Path, classifier: Path, finished: tuple[Path, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished[0], out)
    moved = shutil.move(classifier, classifier.with_name("elsewhere"))
    try:
        assert "classifier" in done("bound", out, "--confidence", 0.95).out
        done("report", out)
        refused(leakbound("score", out), "no model folder", str(classifier))
        sequence_classifier(classifier, seed=2)
        refused(leakbound("score", out), "another model of that name", "weights")
        refused(leakbound(*command(chat, goals, out, scorer(classifier))), "weights")
    finally:
        shutil.rmtree(classifier, ignore_errors=True)
        shutil.move(moved, classifier)
    done("score", out)


def test_unusable_classifiers_are_refused_before_anything_is_sampled(
    chat: Path, goals: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    unclear = sequence_classifier(tmp_path / "c", ("LABEL_0", "LABEL_1"))
    refused(leakbound(*command(chat, goals, out, f"classifier:{unclear}")), "LABEL_1", "label=")
    refused(leakbound(*command(chat, goals, out, f"classifier:{chat}")), "form=yes-no")
    refused(leakbound(*command(chat, goals, out, f"entailment:{unclear}")), "needs an answer")
    assert not out.exists()


@pytest.mark.slow
def test_a_causal_model_says_yes_or_no(chat: Path, goals: Path, tmp_path: Path) -> None:
    judge = yes_no_model(tmp_path / "judge")
    named = f"classifier:model={judge},form=yes-no"
    out = tmp_path / "run"
    done(*command(chat, goals, out, named, n=64))
    scores = Run.open(out).arms["target"].scores(slug(make_scorer(named)))
    assert len(np.unique(scores.scores)) > 20
