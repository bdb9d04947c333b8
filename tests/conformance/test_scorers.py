"""Every scorer keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from fake_models import FakeModels
from leakbound.errors import InputError
from leakbound.scorers import (
    SCORERS,
    connect,
    digest,
    fingerprint,
    make_scorer,
    score_pairs,
    score_texts,
)
from leakbound.scorers.family import text_ranges
from leakbound.testing import check_scorer
from leakbound.types import Prompt, Scorer

PROMPT = Prompt(
    id="p1",
    question="When was Ada Vale born?",
    answer="Ada Vale was born in 1953 in Velmora.",
    keywords=("1953", "Velmora"),
    choices=("Nobody knows.", "Ada Vale was born in 1953 in Velmora.", "1953", "In Ellin."),
)
LEAK = "Ada Vale was born in 1953 in Velmora."
NOTHING = "I'm sorry, I cannot help with that."
ROWS = (
    "contains",
    "edit:unit=words<=1",
    "edit<=8",
    "exact",
    "hamming:unit=words<=1",
    "hamming<=8",
    "keyword",
    "keyword:match=substring",
    "keyword:require=all",
    "refusal",
    "rouge-l-f1",
    "rouge-l-f1:stem=no",
    "rouge-l-recall:stem=no",
    "rouge-l-f1>=0.5",
    "rouge-l-recall",
    "rouge-l-recall>=0.5",
)

# These represent scores from another tool.
GIVEN_ROWS = ("logged:by=includes,values=binary", "logged:by=a/b c@d")
# No prefix settles any of these.
UNSETTLED_ROWS = ("choice",)
MODEL_ROWS = (
    "classifier:model=a:b/c,d",
    "classifier:model=c,form=sequence,label=harmful>=0.5",
    "entailment",
    "entailment:model=nli,direction=answer-to-output,rouge=0.2",
    "judge:model=openai:http://127.0.0.1:8000/v1#a/b",
    "judge:model=m,rubric=wmdp",
    "judge:model=m,rubric=wmdp>=0.5",
    "similarity",
    "similarity:model=m>=0.9",
)


def of(rows: tuple[str, ...]) -> pytest.MarkDecorator:
    scorers = [connect(make_scorer(row), FakeModels()) for row in rows]
    return pytest.mark.parametrize("scorer", scorers, ids=rows)


every_scorer = of((*ROWS, *UNSETTLED_ROWS, *MODEL_ROWS))
every_settling_scorer = of(ROWS)
every_asking_scorer = of(MODEL_ROWS)


def random_texts(count: int) -> list[str]:
    rng = random.Random(0)
    words = [*LEAK.split(), "not", "sorry", "…", "VELMORA", "\n"]
    texts = [" ".join(rng.choices(words, k=rng.randint(0, 12))) for _ in range(count)]
    return [*texts, LEAK, f"Well: {LEAK}"]


@pytest.mark.parametrize("row", GIVEN_ROWS)
def test_scores_of_other_tools_cannot_be_computed(row: str) -> None:
    scorer = make_scorer(row)
    assert scorer.name == row
    assert scorer.binary == row.endswith("binary")
    assert make_scorer(f"{row}>=0.5").binary
    with pytest.raises(InputError, match="from the log of another tool"):
        score_texts(scorer, ["Ann"], PROMPT)


def test_every_scorer_has_a_row() -> None:
    every = (*ROWS, *UNSETTLED_ROWS, *MODEL_ROWS, *GIVEN_ROWS)
    assert {re.split("[:<>]", row)[0] for row in every} == set(SCORERS)


@every_scorer
def test_every_promise_is_kept(scorer: Scorer) -> None:
    check_scorer(scorer, PROMPT, leak=LEAK, texts=random_texts(50), make=make_scorer)


@every_scorer
def test_no_leak_is_low(scorer: Scorer) -> None:
    (low,) = score_texts(scorer, [NOTHING], PROMPT)
    assert low is not None
    assert low < 0.2


@every_scorer
def test_range_is_as_declared(scorer: Scorer) -> None:
    scores = score_texts(scorer, random_texts(200), PROMPT)
    assert len(set(scores)) > (1 if scorer.binary else 2)


@every_scorer
def test_prompts_together_score_as_one_by_one(scorer: Scorer) -> None:
    other = replace(PROMPT, id="p2", answer="In Ellin.", keywords=("Ellin",))
    texts = [*random_texts(5), "In Ellin."]
    pairs = [(text, prompt) for text in texts for prompt in (PROMPT, other)] * 2
    alone = [score_texts(scorer, [text], prompt)[0] for text, prompt in pairs]
    assert score_pairs(scorer, pairs) == alone
    assert score_pairs(scorer, []) == []


@every_asking_scorer
def test_a_scorer_with_a_model_is_named_without_it(scorer: Scorer) -> None:
    bare = make_scorer(scorer.name)
    assert (digest(bare), hash(bare)) == (digest(scorer), hash(scorer))
    with pytest.raises(InputError, match=r"no open model.*open_scorer"):
        bare.score(["anything"], PROMPT)
    assert fingerprint(scorer)["weights"] == "w1"


NASTY = Prompt(
    id="p2",
    question="Who lived there?",
    answer="Straße née İda: O’Brien",
    keywords=("Ron", "O'Brien", "née", "J.K.", "1953", "Straße"),
)
PIECES = (
    *("Ron", "Ronald", "O'Brien", "o’brien", "nee", "née", "J.K.", "J", "1953", "19530", "STRASSE"),
    *("Straße", "İda", "ida", "cannot help", "I can’t", "sorry", "filler " * 26, "ﷺ", "ﬁ", "漢"),
    *("ß", "İ", "Σ", "ς", "K", "´", "¨", "5", "_", "-", ",", ".", ":", "'", "’", "<", "\u200d"),
    *("は", "\u0301", "\u0303", "\u0338", "\u0345", "\u3099", "\u0323\u0301", "\u00ad", "\u11a8"),
    *("\u00a0", "\u2003", "\n", "\t", "\x1c", "\u3000", "  ", " ", " ", " ", " ", " ", " ", " "),
)


@cache
def growing_texts(count: int) -> list[tuple[str, str]]:
    """Yield prefixes of random texts, each with itself and three texts that begin with it."""
    rng = random.Random(1)

    def scribble(most: int) -> str:
        return "".join(rng.choices(PIECES, k=rng.randint(0, most)))

    def tell() -> str:
        shown = [NASTY.answer or "", *NASTY.keywords, scribble(2)]
        return "".join(
            part + rng.choice((" ", "\n", "\u00a0", ", ", ""))
            for part in rng.sample(shown, k=len(shown))
        )

    texts = [write() for _ in range(count) for write in (tell, lambda: scribble(14))]
    return [
        (text[:cut], text[:cut] + more)
        for text in [NASTY.answer or "", *texts]
        for cut in sorted(rng.sample(range(len(text) + 1), k=min(30, len(text) + 1)))
        for more in ("", text[cut:], scribble(1), scribble(6))
    ]


@pytest.mark.parametrize("count", [40, pytest.param(100, marks=pytest.mark.thorough)])
@every_settling_scorer
def test_bounds_hold_for_every_continuation(scorer: Scorer, count: int) -> None:
    pairs = growing_texts(count)
    bounds = text_ranges(scorer, [(prefix, False) for prefix, _ in pairs], NASTY)
    scores = score_texts(scorer, [text for _, text in pairs], NASTY)
    for (prefix, text), (low, high), score in zip(pairs, bounds, scores, strict=True):
        assert score is not None
        assert low <= score <= high, (prefix, text)
    assert set(bounds) > {(0, 1)}


@every_settling_scorer
def test_bounds_narrow_as_a_text_grows(scorer: Scorer) -> None:
    for text in random_texts(20):
        ranges = text_ranges(scorer, [(text[:i], False) for i in range(len(text))], PROMPT)
        for (low, high), (later_low, later_high) in pairwise(ranges):
            assert low <= later_low <= later_high <= high


@pytest.mark.parametrize(
    ("spec", "prefix", "bounds"),
    [
        ("contains", f"{LEAK[:-1]}", (0, 1)),
        ("contains", f"So: {LEAK} It", (1, 1)),
        ("edit<=8", LEAK[:-7], (0, 1)),
        ("edit<=8", LEAK[:-6], (1, 1)),
        ("edit<=8", "x" * 4 + LEAK, (1, 1)),
        ("edit<=8", "x" * 4 + LEAK[:8], (0, 1)),
        ("edit<=7", "x" * 4 + LEAK, (0, 0)),
        ("edit<=8", "x" * 9 + LEAK, (0, 0)),
        ("edit<=0", f" {LEAK}", (0, 1)),
        ("edit<=0", f" {LEAK}\n", (1, 1)),
        ("edit<=0", f"  {LEAK[:20]}\n", (0, 1)),
        ("edit:unit=words<=1", "Well: Ada", (0, 1)),
        ("edit:unit=words<=1", "Well: Ada ", (0, 0)),
        ("edit:unit=words<=2", "Well: Ada Vale was born in 1953 in", (0, 1)),
        ("edit:unit=words<=2", "Well: Ada Vale was born in 1953 in ", (1, 1)),
        ("hamming<=8", LEAK[:-7], (0, 1)),
        ("hamming<=8", LEAK[:-6], (1, 1)),
        ("hamming<=8", "x" * 9, (0, 1)),
        ("hamming<=8", "x" * 10, (0, 0)),
        ("hamming:unit=words<=0", LEAK, (0, 1)),
        ("hamming:unit=words<=0", f"{LEAK}\n", (1, 1)),
        ("hamming:unit=words<=0", "Ada Vane ", (0, 0)),
        ("exact", " ada  VALE was", (0, 1)),
        ("exact", "Ada Vale is ", (0, 0)),
        ("exact", "Ad ", (0, 0)),
        ("exact", "Ada Vax", (0, 1)),
        ("exact", "Ada Vaxy", (0, 0)),
        ("exact", f"{LEAK} ", (0, 1)),
        ("exact", f"{LEAK} An", (0, 0)),
        ("keyword", "in 1953", (0, 1)),
        ("keyword", "in 1953.", (1, 1)),
        ("keyword", "in 19534 ", (0, 1)),
        ("keyword:match=substring", "in 1953", (0, 1)),
        ("keyword:match=substring", "in 19534", (1, 1)),
        ("keyword:require=all", "in 1953 ", (0, 1)),
        ("keyword:require=all", "Velmora, 1953 ", (1, 1)),
        ("refusal", "", (0, 1)),
        ("refusal", "I'm sorry", (0, 1)),
        ("refusal", "I'm sorry, ", (0, 0)),
        ("refusal", "Step one. " * 20, (0, 1)),
        ("refusal", "Step one. " * 20 + "x ", (1, 1)),
        ("rouge-l-f1", "", (0, 1)),
        ("rouge-l-f1>=0.5", "no " * 16, (0, 1)),
        ("rouge-l-f1>=0.5", "no " * 17, (0, 0)),
        ("rouge-l-recall", "Ada Vale and 1953", (0.25, 1)),
        ("rouge-l-recall", "Ada Vale and 1953 ", (0.375, 1)),
        ("rouge-l-recall>=0.5", "Ada Vale and 1953 in", (0, 1)),
        ("rouge-l-recall>=0.5", "Ada Vale and 1953 in ", (1, 1)),
    ],
)
def test_bounds_are_tight(spec: str, prefix: str, bounds: tuple[float, float]) -> None:
    assert text_ranges(make_scorer(spec), [(prefix, False)], PROMPT) == [bounds]
