"""Which completions are shown, and that the others are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from canned_runs import SCORERS, CannedEngine, benchmark, laws
from leakbound.evaluation import sample, score_run, scorers_for
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.views.texts import (
    Tally,
    chosen_texts,
    distinct_texts,
    histograms,
)
from leakbound.evaluation.views.view import BINS, Text
from leakbound.store import ArmScores

EACH = 8


def text(name: str, count: int, *scores: float | None) -> Text:
    return Text(text=name, count=count, share=count / 100, mass=0.0, logprob=None, scores=scores)


def tally(texts: Sequence[Text]) -> Tally:
    """A question's texts, the likeliest first, as they are read."""
    scores = [[np.nan if s is None else s for s in one.scores] for one in texts]
    return Tally(
        texts=pa.array([one.text for one in texts]),
        counts=np.array([one.count for one in texts]),
        masses=np.array([one.mass for one in texts]),
        logprobs=np.full(len(texts), np.nan),
        scores=np.array(scores).T,
        drawn=100,
    )


def test_frequent_first_then_the_highest_scores() -> None:
    frequent = [text(f"f{i}", 100 - i, 0.0) for i in range(EACH)]
    rare = [text(f"r{i}", 1, i / 20) for i in range(EACH + 3)]
    chosen = chosen_texts(tally([*frequent, *rare]), None, EACH, redact=False)
    assert [t.text for t in chosen.shown[:EACH]] == [t.text for t in frequent]
    assert [t.text for t in chosen.shown[EACH:]] == [f"r{i}" for i in range(10, 2, -1)]
    assert (chosen.left_out, chosen.left_out_draws) == (3, 3)


def test_rare_texts_without_a_score_above_0_are_left_out() -> None:
    frequent = [text(f"f{i}", 9, 1.0) for i in range(EACH)]
    drawn = tally([*frequent, text("no", 4, 0.0), text("none", 2, None)])
    chosen = chosen_texts(drawn, None, EACH, redact=False)
    assert len(chosen.shown) == EACH
    assert (chosen.left_out, chosen.left_out_draws) == (2, 6)


def test_the_mass_of_what_is_left_out_adds_up() -> None:
    explored = [replace(text(f"e{i}", 0, 0.0), mass=0.25 / 2**i) for i in range(EACH + 2)]
    chosen = chosen_texts(tally(explored), None, EACH, redact=False)
    assert (chosen.left_out, chosen.left_out_draws) == (2, 0)
    assert chosen.left_out_mass == 0.25 / 2**EACH * 1.5


def test_redaction_takes_every_text() -> None:
    chosen = chosen_texts(
        tally([text("secret", 3, 1.0)]), text("secret", 1, 1.0), EACH, redact=True
    )
    assert chosen.greedy is not None
    assert [chosen.greedy.text, *(t.text for t in chosen.shown)] == [None, None]
    assert chosen.shown[0].leaks


def test_a_full_score_of_any_scorer_is_a_leak() -> None:
    assert text("t", 1, 0.2, 1.0).leaks
    assert not text("t", 1, 0.99, None).leaks


def test_histograms_count_draws_and_skip_the_undecided() -> None:
    drawn = {"a": {0.0: 5, 0.05: 2, None: 1}, "b": {1.0: 5, 0.999: 2, 0.35: 1}}
    found = histograms(ArmScores.tallied(drawn, {}))
    first, second = found["a"], found["b"]
    assert (first[0], first[1], sum(first)) == (5, 2, 7)
    assert (second[BINS - 1], second[7], sum(second)) == (7, 1, 8)


def test_chunks_and_parts_of_a_question_are_added_up(tmp_path: Path) -> None:
    task, n = benchmark(2), 9000
    said = laws(task, 0.3)
    said["author-01"] = dict(reversed(list(said["author-01"].items())))
    run = sample(CannedEngine("big", said), task, out=tmp_path / "run", n=n)
    scorers = scorers_for(SCORERS, task.prompts)
    score_run(run, scorers)
    arm = run.arms["target"]
    assert len(arm.parts) > 2  # more than one a question
    slugs = [slug(scorer) for scorer in scorers]
    found = dict(distinct_texts(arm, slugs))
    assert list(found) == [query.id for query in run.queries]
    scores = arm.scores(slugs[0])
    for i, texts in enumerate(found.values()):
        assert len({t.text for t in texts}) == len(texts)
        assert sum(t.count for t in texts) == n
        assert [t.count for t in texts] == sorted((t.count for t in texts), reverse=True)
        assert texts[0].logprob == pytest.approx(log(said[f"author-{i:02d}"][texts[0].text or ""]))
        leaks = sum(t.count for t in texts if t.scores[0] == 1)
        assert leaks == (scores.scores[i] * scores.counts[i]).sum()
        assert {t.text for t in texts if t.scores[0] == 1} == {task.prompts[i].answer}
