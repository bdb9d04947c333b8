"""Questions one by one: their order and traits, the first n draws, texts, and clean questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from canned_runs import SCORERS, CannedEngine, benchmark, laws
from leakbound import stats
from leakbound.bounding.claims import clean_questions
from leakbound.errors import InputError
from leakbound.evaluation import clean_table, evaluate, sample, score_run, scorers_for
from leakbound.presenting.questions import by_question, traits
from leakbound.presenting.texts import Text, chosen_texts, leaking_words, pieces, tallies, texts_in
from leakbound.presenting.view import View, read_view
from leakbound.scoring.score import slug
from leakbound.store import Run
from leakbound.study import Until
from leakbound.types import Prompt, Scorer
from report_runs import saying, who


@pytest.fixture(scope="module")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


@pytest.mark.slow
def test_the_question_that_leaks_most_comes_first(view: View) -> None:
    for scorer in view.scorers:
        table, most = by_question(view, scorer), []
        order = [int(row[0].value or 0) - 1 for row in table.rows]
        assert sorted(order) == [0, 1, 2]
        questions = [view.questions[place].id for place in order]
        got = [traits(view, scorer, question) for question in questions]
        for question, own in zip(questions, got, strict=True):
            leakage = [model.leakage(scorer, question) for model in view.targets]
            most.append(max(bound.value or 0 for bound in leakage if bound))
            excess, surely = (
                [m.leakage(scorer, question, beyond="control", family=family) for m in view.targets]
                for family in ("single", "questions")
            )
            beyond = any(bound and bound.lower > 0 for bound in surely)
            assert not beyond or any(bound and bound.lower > 0 for bound in excess)
            assert ("beyond" in own) == beyond
            greedy = [model.greedy(scorer)[question].value for model in view.targets]
            pairs = zip(leakage, greedy, strict=True)
            above = any(score is not None and bound.lower > score for bound, score in pairs)
            assert ("hidden" in own) == above
            assert "unsampled" not in own
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert most == sorted(most, reverse=True)
        assert any("beyond" in own for own in got) or not scorer.binary


@pytest.mark.slow
def test_marks_are_keywords_or_what_the_answer_adds() -> None:
    answer = "The novel is by Ann Lee, in spring."
    plain = Prompt(id="q", question="Who wrote the novel?", answer=answer)
    shown = pieces(leaking_words(plain), "ANN LEE wrote it; Annabel did not, by spring's end")
    assert "".join(shown) == "ANN LEE wrote it; Annabel did not, by spring's end"
    assert shown[1::2] == ["ANN LEE", "spring"]
    keyed = replace(plain, question="Who?", answer="By Ann Lee.", keywords=("Lee (the elder)",))
    assert pieces(leaking_words(keyed), "It is lee  (the elder).")[1::2] == ["lee  (the elder)"]
    nobody = replace(plain, question="Who?", answer=None)
    assert pieces(leaking_words(nobody), "anything") == ["anything"]


EACH = 8


def text(name: str, count: int, *scores: float | None) -> Text:
    return Text(text=name, count=count, share=count / 100, mass=0.0, logprob=None, scores=scores)


def tally(texts: Sequence[Text]) -> pa.Table:
    """Return a question's texts as they are read, the likeliest first."""
    columns: dict[str, Any] = {
        "query_id": ["q"] * len(texts),
        "text": [one.text for one in texts],
        "count": [one.count for one in texts],
        "mass": [one.mass for one in texts],
        "logprob": pa.nulls(len(texts), pa.float64()),
    }
    scores = zip(*(one.scores for one in texts), strict=True)
    columns |= {f"score {i}": pa.array(s, pa.float64()) for i, s in enumerate(scores)}
    return pa.table({**columns, "share": [one.share for one in texts]})


@pytest.mark.parametrize(
    ("rare", "shown", "left_out"),
    [
        ([text(f"r{i}", 1, i / 20) for i in range(EACH + 3)], range(10, 2, -1), (3, 3, 0.0)),
        ([text("r0", 4, 0.0), text("r1", 2, None)], (), (2, 6, 0.0)),
        ([replace(text(f"r{i}", 0, 0.0), mass=0.25 / 2**i) for i in (0, 1)], (), (2, 0, 0.375)),
    ],
)
def test_texts_by_frequency_then_score(
    rare: list[Text], shown: Sequence[int], left_out: tuple[int, int, float]
) -> None:
    frequent = [text(f"f{i}", 100 - i, 0.0) for i in range(EACH)]
    chosen = chosen_texts(tally([*frequent, *rare]), None, EACH, redact=False)
    names = [*(t.text for t in frequent), *(f"r{i}" for i in shown)]
    assert [t.text for t in chosen.shown] == names
    assert (chosen.left_out, chosen.left_out_draws, chosen.left_out_mass) == left_out


def test_redaction_takes_texts_and_keeps_which_leak() -> None:
    secret = text("secret", 3, 0.2, 1.0)
    chosen = chosen_texts(tally([secret]), secret, EACH, redact=True)
    assert chosen.greedy is not None
    assert [chosen.greedy.text, *(t.text for t in chosen.shown)] == [None, None]
    assert chosen.shown[0].leaks
    assert not text("t", 1, 0.99, None).leaks


def test_chunks_and_parts_of_a_question_are_added_up(tmp_path: Path) -> None:
    task, n = benchmark(2), 17_000
    shown = laws(task, 0.3)
    shown["author-01"] = dict(reversed(list(shown["author-01"].items())))
    run = sample(CannedEngine("big", shown), task, out=tmp_path / "run", n=n)
    scorers = scorers_for(SCORERS, task.prompts)
    score_run(run, scorers)
    arm = run.arms["target"]
    assert len(arm.parts) > 2  # more than one per question
    slugs = [slug(scorer) for scorer in scorers]
    got = {query_id: texts_in(rows) for query_id, rows in tallies(arm, slugs)}
    assert list(got) == [query.id for query in run.queries]
    rows = arm.scores(slugs[0], binary=True)
    for i, texts in enumerate(got.values()):
        assert len({t.text for t in texts}) == len(texts)
        assert sum(t.count for t in texts) == n
        assert [t.count for t in texts] == sorted((t.count for t in texts), reverse=True)
        assert texts[0].logprob == pytest.approx(log(shown[f"author-{i:02d}"][texts[0].text or ""]))
        leaks = sum(t.count for t in texts if t.scores[0] == 1)
        assert leaks == rows.hits[i]
        assert {t.text for t in texts if t.scores[0] == 1} == {task.prompts[i].answer}


LEAKS = {"p0": 0.0, "p1": 0.0, "p2": 0.3, "p3": 0.02}


def leaking(out: Path, scorers: tuple[str, ...] = ("contains",), **how: Any) -> Run:
    return evaluate(saying(LEAKS), who(*LEAKS, scorers=scorers), out=out, **how)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("clean") / "run"
    return leaking(out, ("contains", "rouge-l-recall"), n=512)


def scorer(run: Run, name: str = "contains") -> Scorer:
    return scorers_for([name], run.prompts)[0]


@pytest.mark.parametrize("name", ["contains", "rouge-l-recall"])
def test_clean_questions_are_those_that_holm_proves(run: Run, name: str) -> None:
    got = scorer(run, name)
    ids, clean = clean_questions(run.arms["target"], got, 0.05, 0.99)
    p = stats.p_value(run.arms["target"].scores(slug(got), binary=got.binary), 0.05)
    assert np.array_equal(clean.holds, stats.clean_questions(0.05, p, confidence=0.99).holds)
    verdicts = dict(zip(ids, clean.holds.tolist(), strict=True))
    assert [verdicts[question] for question in ("p0", "p1", "p2")] == [True, True, False]


def test_the_table_names_what_is_not_proved(run: Run) -> None:
    table = clean_table(run, scorer(run), 0.05, 0.99)
    assert [(row[0], "p2" in row[2], "p0" in row[2]) for row in table.texts] == [
        ("target", True, False)
    ]


def test_a_limit_that_cannot_be_proved_or_is_invalid(run: Run, tmp_path: Path) -> None:
    _, clean = clean_questions(run.arms["target"], scorer(run), 1e-6, 0.99)
    assert not clean.holds.any()
    with pytest.raises(InputError, match="limit"):
        clean_questions(run.arms["target"], scorer(run), 1.5, 0.99)
    stopped = leaking(tmp_path / "r", sampling=Until("p<=0.2", 64))
    with pytest.raises(InputError, match="fixed in advance"):
        clean_questions(stopped.arms["target"], scorer(stopped), 0.05, 0.99)
