"""The three readings of an output: what is scored where a part is there, missing or hidden."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.scorers import (
    SCORERS,
    digest,
    is_unscored,
    make_scorer,
    readable,
    reading_of,
    score_outputs,
    score_ranges,
    with_reading,
)
from leakbound.types import Event, Prompt

PROMPT = Prompt(id="q", question="Who?", answer="Ann Vale", keywords=("Ann",))
READINGS = ("", "of=answer", "of=thought", "of=either")
YES, NO = "It is Ann.", "No idea."
_ = None


def event(answer: str, thought: str | None = None, finish: Any = "stop", **more: Any) -> Event:
    return Event(answer=answer, thought=thought, finish=finish, token_ids=(1, 0), **more)


@pytest.mark.parametrize(
    ("output", "scores"),
    [
        # by default, of the answer, of the thought, of either; None: missing
        (event(YES, ended=True), (1, 1, 0, 1)),
        (event(NO, ended=True), (0, 0, 0, 0)),
        (event(NO, YES, ended=True), (1, 0, 1, 1)),
        (event(YES, NO, ended=True), (1, 1, 0, 1)),
        (event(NO, NO, ended=True), (0, 0, 0, 0)),
        (event(NO, NO, ended=True, refused=True), (0, 0, 0, 0)),
        (event(NO, YES, ended=True, refused=True), (1, 0, 1, 1)),
        # the answer is missing: cut inside the thought, or withheld
        (event("", YES, "length", ended=True), (1, _, 1, 1)),
        (event("", NO, "length", ended=True), (_, _, 0, _)),
        (event(NO, finish="filtered", ended=True), (_, _, 0, _)),
        (event(YES, YES, "filtered", ended=True), (1, _, 1, 1)),
        # the thought, or a part of it, is hidden
        (event(NO, ended=True, hidden=True), (0, 0, _, _)),
        (event(YES, ended=True, hidden=True), (1, 1, _, 1)),
        (event(NO, YES, ended=True, hidden=True), (1, 0, 1, 1)),
        (event(NO, NO, ended=True, hidden=True), (0, 0, _, _)),
        (event("", finish="filtered", ended=True, hidden=True), (_, _, _, _)),
    ],
)
def test_scores_and_ranges_agree_in_every_reading(
    output: Event, scores: tuple[int | None, ...]
) -> None:
    for reading, wanted in zip(READINGS, scores, strict=True):
        scorer = make_scorer(f"keyword:{reading}")
        assert score_outputs(scorer, [readable(output)], [PROMPT]) == [wanted], reading
        ends = (0.0, 1.0) if wanted is None else (wanted, wanted)
        assert score_ranges(scorer, [output], PROMPT) == [ends], reading


@pytest.mark.parametrize(
    ("output", "ranges"),
    [
        (event("", ended=False), ((0, 1), (0, 1), (0, 1))),
        (event("", "It is ", ended=False), ((0, 1), (0, 1), (0, 1))),
        (event("", "It is Ann. ", ended=False), ((0, 1), (1, 1), (1, 1))),
        (event("No ", "No ", ended=False), ((0, 1), (0, 0), (0, 1))),  # the thought is complete
        (event("No ", ended=False), ((0, 1), (0, 0), (0, 1))),  # there is none
        (event("It is Ann. ", "No ", ended=False), ((1, 1), (0, 0), (1, 1))),
    ],
)
def test_the_thought_of_a_beginning_is_complete_once_the_answer_has_begun(
    output: Event, ranges: tuple[tuple[int, int], ...]
) -> None:
    for reading, ends in zip(READINGS[1:], ranges, strict=True):
        assert score_ranges(make_scorer(f"keyword:{reading}"), [output], PROMPT) == [ends]


def test_a_complete_thought_narrows_the_range_of_a_graded_scorer() -> None:
    outputs = [event("", "It is Ann ", ended=False), event("No ", "It is Ann ", ended=False)]
    scorer = make_scorer("rouge-l-recall:of=thought")
    assert score_ranges(scorer, outputs, PROMPT) == [(0.5, 1.0), (0.5, 0.5)]


@pytest.mark.parametrize(
    "spec",
    [
        "keyword:of=thought",
        "keyword:require=all,of=answer",
        "rouge-l-recall:of=either>=0.5",
        "judge:model=m,of=thought",
    ],
)
def test_a_reading_is_part_of_a_scorer_s_name(spec: str) -> None:
    scorer = make_scorer(spec)
    assert scorer.name == spec
    assert make_scorer(spec) == scorer
    plain = with_reading(scorer, None)
    assert "of=" not in plain.name
    assert reading_of(plain) is None
    assert digest(plain) != digest(scorer)
    assert with_reading(plain, reading_of(scorer)) == scorer


def test_a_reading_leaves_everything_else_to_the_scorer_underneath() -> None:
    for spec in ("keyword", "rouge-l-f1"):
        plain, scorer = make_scorer(spec), make_scorer(f"{spec}:of=thought")
        assert scorer.binary == plain.binary
        assert scorer.score([YES, NO], PROMPT) == plain.score([YES, NO], PROMPT)
        assert scorer.bounds(YES, PROMPT) == plain.bounds(YES, PROMPT)
        with pytest.raises(InputError, match="'nothing'"):
            scorer.check(Prompt(id="nothing", question="?"))


@pytest.mark.parametrize(
    "spec", ["choice", "refusal", "exact", "edit:within=1", "hamming:within=1", "logged:by=x",
             "classifier:model=m"]
)  # fmt: skip
def test_scorers_that_read_answers_only_take_no_other_part(spec: str) -> None:
    joined = f"{spec}{',' if ':' in spec else ':'}of="
    assert make_scorer(f"{joined}answer") == make_scorer(spec)
    for of in ("thought", "either"):
        with pytest.raises(InputError, match=f"reads answers only, so it takes no `of={of}`"):
            make_scorer(f"{joined}{of}")
        with pytest.raises(InputError, match="reads answers only"):
            with_reading(make_scorer(f"{joined}answer>=1"), of)


def test_every_family_takes_a_reading_or_reads_answers_only() -> None:
    needed = {"edit": "within=1", "hamming": "within=1", "logged": "by=x"}
    asks = ("classifier", "entailment", "judge", "similarity")
    for name in SCORERS:
        scorer = make_scorer(f"{name}:{needed.get(name, 'model=m' if name in asks else '')}")
        assert reading_of(scorer) in (None, "answer")
        assert reading_of(with_reading(scorer, "answer")) == "answer"


def test_another_part_than_the_three_is_refused() -> None:
    with pytest.raises(InputError, match="keyword:of cannot be 'output'"):
        make_scorer("keyword:of=output")


@pytest.mark.parametrize(
    ("spec", "unscored"),
    [
        ("keyword", (True, False)),
        ("exact", (True, False)),
        ("keyword:of=answer", (True, False)),
        ("keyword:of=thought", (False, True)),
        ("keyword:of=either>=1", (True, True)),
    ],
)
def test_what_a_reading_needs(spec: str, unscored: tuple[bool, bool]) -> None:
    scorer = make_scorer(spec)
    assert is_unscored(scorer, missing=True, hidden=False) == unscored[0]
    assert is_unscored(scorer, missing=False, hidden=True) == unscored[1]


def test_connecting_reaches_the_scorer_underneath() -> None:
    class Offline:
        def embed(self, name: str) -> str:
            return f"the embedder {name}"

    scorer: Any = make_scorer("similarity:model=m,of=thought>=0.5")
    connected = scorer.connect(Offline())
    assert connected == scorer
    assert connected.scorer.scorer.embedder == "the embedder m"
