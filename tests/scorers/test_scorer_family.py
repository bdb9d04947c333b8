from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.scorers import (
    Threshold,
    check_bounds,
    check_prompts,
    digest,
    make_scorer,
    score_texts,
    settings,
)
from leakbound.scorers.distance import Edit, Hamming
from leakbound.scorers.family import text_ranges
from leakbound.scorers.judge import Judge
from leakbound.scorers.meaning import Classifier, Entailment
from leakbound.scorers.rouge import RougeLRecall
from leakbound.scorers.wording import Exact, Keyword
from leakbound.types import Prompt, Scorer

PROMPT = Prompt(id="p5", question="Who?", answer="the cat sat")


@dataclass
class Stub:
    """Returns prepared scores and records the texts."""

    scores: list[float | None]
    binary: bool = False
    name: str = "stub"
    weight: float = 1.0

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        self.queried = list(texts)
        return self.scores


def test_equal_texts_are_scored_once() -> None:
    stub = Stub([0.25, None])
    assert score_texts(stub, ["a", "b", "a", "a"], PROMPT) == [0.25, None, 0.25, 0.25]
    assert stub.queried == ["a", "b"]
    assert score_texts(stub, [], PROMPT) == []
    assert score_texts(Stub([1 + 5e-10, -5e-10]), ["a", "b"], PROMPT) == [1.0, 0.0]  # clipped


NUMBERS = (math.nan, -0.01, 1.01, math.inf, 10**999, 0.5j)
OBJECTS = (np.array([0.5]), [0.5], np.str_("0.5"), b"0.5")
SHAPES = {"2": [0.5, 0.5], "dict": {"a": 0.5}, "set": {0.5}, r"\(\)": np.array(0.5)}
SHAPES |= {r"\(1, 1\)": np.array([[0.5]]), r"\(1, 2\)": np.array([[0.5, 0.5]])}


@pytest.mark.parametrize(
    ("scores", "binary", "message"),
    [
        *(([bad], False, r"in \[0, 1\].*'stub'.*'p5'") for bad in (*NUMBERS, *OBJECTS)),
        ([0.5], True, r"0 or 1, got 0\.5"),
        *((bad, False, f"'stub'.* got {got} for 1 texts at prompt 'p5'. Return")
          for got, bad in SHAPES.items()),
    ],
)  # fmt: skip
def test_invalid_scores_are_refused(scores: Any, binary: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_texts(Stub(scores, binary=binary), ["a"], PROMPT)


def test_a_threshold_is_inclusive_and_keeps_undecided_scores() -> None:
    scorer = Threshold(Stub([0.5, 0.499, None, 1.0]), 0.5)
    assert scorer.binary
    assert scorer.name == "stub>=0.5"
    assert score_texts(scorer, ["a", "b", "c", "d"], PROMPT) == [1.0, 0.0, None, 1.0]


def test_check_prompts_stops_at_the_first_bad_one() -> None:
    bad = Prompt(id="p6", question="Who?")
    check_prompts(RougeLRecall(), [PROMPT])
    check_prompts(Stub([]), [bad])
    for scorer in (RougeLRecall(), Threshold(RougeLRecall(), 0.5), Exact()):
        with pytest.raises(InputError, match="needs an answer, got none at prompt 'p6'"):
            check_prompts(scorer, [PROMPT, bad])
        with pytest.raises(
            InputError, match=r"needs an answer, got ' ' \(nothing visible\) at prompt 'p8'"
        ):
            check_prompts(scorer, [Prompt(id="p8", question="Who?", answer=" ")])


@pytest.mark.parametrize(
    ("spec", "scorer"),
    [
        ("keyword", Keyword()),
        ("keyword: match = substring , require = any", Keyword(match="substring")),
        ("rouge-l-recall>=0.5", Threshold(RougeLRecall(), 0.5)),
        ("rouge-l-recall >= .123456789", Threshold(RougeLRecall(), 0.123456789)),
        (" edit: unit=characters <= 5 ", Edit(within=5)),
        ("hamming:unit=words<=0", Hamming(within=0, unit="words")),
        ("classifier:a/b", Classifier(model="a/b")),
        ("classifier:a/b,form=yes-no,prompt=p", Classifier(model="a/b", form="yes-no", prompt="p")),
        ("classifier:model=x:y,z,label=a b", Classifier(model="x:y,z", label="a b")),
        ("entailment:rouge=0.2", Entailment(rouge=0.2)),
        ("judge:openai:http://here/v1#m", Judge(model="openai:http://here/v1#m")),
    ],
)
def test_specs(spec: str, scorer: Scorer) -> None:
    assert make_scorer(spec) == scorer


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("keywrd", "Did you mean 'keyword'.*rouge-l-recall"),
        ("keyword:mtch=word", "no setting 'mtch'. Did you mean 'match'"),
        ("keyword:match", "name=value"),
        ("keyword:of=output", "keyword:of cannot be 'output'"),
        ("edit", r"needs its setting 'within'. Write `edit:within=…`"),
        ("hamming<=-1", "0 or more, got -1"),
        *((f"rouge-l-recall>={at}", r"\(0, 1\]") for at in (0, -1, 1.5, "nan")),
        ("keyword<=2", "'keyword' counts no changes, so `<=` is not valid"),
        ("classifier:label=x", "needs its setting 'model'"),
        ("entailment:rouge=1.5", r"`rouge` must be in \[0, 1\], got 1\.5"),
    ],
)
def test_bad_specs_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_scorer(spec)


def test_settings_and_digest_identify_scorers() -> None:
    assert settings(Keyword()) == {
        "name": "keyword", "binary": True, "rule": 2, "match": "word", "require": "any",
    }  # fmt: skip
    several = [Keyword(), Keyword(require="all"), Threshold(RougeLRecall(), 0.5), RougeLRecall()]
    assert len({digest(scorer) for scorer in several}) == 4
    assert digest(Keyword()) == digest(make_scorer("keyword:match=word"))
    hidden = [Threshold(Stub([], weight=w), 0.5) for w in (1.0, 2.0)]
    assert digest(hidden[0]) != digest(hidden[1])


@dataclass
class Bounded(Stub):
    """A stub with prepared bounds as well."""

    pair: tuple[float, float] = (0.0, 1.0)
    calls: int = 0

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        self.calls += 1
        return self.pair


def test_ranges_are_scores_of_ended_texts_and_bounds_of_growing_ones() -> None:
    scorer = Bounded([0.5, None], pair=(0.25, 0.75))
    texts = [("a", True), ("a", False), ("b", True), ("a", True), ("a", False)]
    wanted = [(0.5, 0.5), (0.25, 0.75), (0.0, 1.0), (0.5, 0.5), (0.25, 0.75)]
    assert text_ranges(scorer, texts, PROMPT) == wanted
    assert scorer.queried == ["a", "b"]
    assert scorer.calls == 1


def test_a_scorer_without_bounds_settles_no_prefix() -> None:
    for scorer in (Stub([0.5]), Threshold(Stub([0.5]), 0.5)):
        ranges = text_ranges(scorer, [("a", False), ("a", True)], PROMPT)
        assert ranges[0] == (0, 1)
        assert ranges[1][0] == ranges[1][1]
    check_bounds(Stub([2.0]), ["a"], PROMPT)


@pytest.mark.parametrize(
    ("pair", "settles"),
    [((0.25, 0.5), (0, 1)), ((0.5, 1.0), (1, 1)), ((0.0, 0.49), (0, 0)), ((0.49, 0.9), (0, 1))],
)
def test_ranges_of_a_threshold(pair: tuple[float, float], settles: tuple[float, float]) -> None:
    scorer = Threshold(Bounded([], pair=pair), 0.5)
    assert text_ranges(scorer, [("a", False)], PROMPT) == [settles]


@pytest.mark.parametrize("pair", [(0.5, 0.4), (-0.1, 1.0), (0.0, 1.1), (float("nan"), 1.0)])
def test_impossible_bounds_name_scorer_and_prompt(pair: tuple[float, float]) -> None:
    """Bounds of a binary scorer are 0 or 1."""
    scorer = Bounded([], pair=pair)
    for either in (scorer, Threshold(scorer, 0.5)):
        with pytest.raises(InputError, match=r"in \[0, 1\].*'stub'.* at prompt 'p5'"):
            text_ranges(either, [("a", False)], PROMPT)
    with pytest.raises(InputError, match=r"0 and 1.*\(0\.5, 1\.0\).*the reference answer"):
        text_ranges(Bounded([], binary=True, pair=(0.5, 1.0)), [("a", False)], "cat")


@pytest.mark.parametrize(
    ("score", "pair"), [(0.2, (0.3, 1.0)), (0.8, (0.0, 0.7)), (None, (0.0, 0.9)), (None, (0.1, 1))]
)
def test_check_bounds_checks_both_bounds(score: float | None, pair: tuple[float, float]) -> None:
    check_bounds(Bounded([None if score is None else 0.5], pair=(0.0, 1.0)), ["ab"], PROMPT)
    with pytest.raises(InputError, match=f"gives .* for '', and {score} for 'ab' at prompt 'p5'"):
        check_bounds(Bounded([score], pair=pair), ["ab"], PROMPT)


def test_a_float32_score_has_its_printed_value() -> None:
    """.7 reaches .7, although a float32 .7 is stored as .69999999; and .3 does not exceed .3."""
    low, high = np.float32(0.3), np.float32(0.7)
    single = Bounded([low, high], pair=(low, high))
    scores = score_texts(single, ["a", "b"], PROMPT)
    assert scores == [0.3, 0.7]
    assert {type(score) for score in scores} == {float}
    assert text_ranges(single, [("a", False)], PROMPT) == [(0.3, 0.7)]
    cut = Threshold(single, 0.7)
    assert cut.score(["a", "b"], PROMPT) == [0.0, 1.0]
    assert text_ranges(cut, [("a", False)], PROMPT) == [(0.0, 1.0)]
    assert score_texts(Stub([np.float16(0.1)]), ["a"], PROMPT) == [0.1]
