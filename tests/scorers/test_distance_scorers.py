"""Near-verbatim answers: what a unit is, what follows the answer, and what is refused."""

from __future__ import annotations

from itertools import product

import pytest

from leakbound.errors import InputError
from leakbound.scorers import check_prompts, make_scorer, score_ranges, score_texts
from leakbound.scorers.distance import Edit, Hamming
from leakbound.types import Prompt

ANSWER = " the cat\n sat on a mat"


@pytest.mark.parametrize(
    ("spec", "text", "score"),
    [
        ("edit<=0", "the cat sat on a mat", 1),
        ("edit<=0", "\n the  cat sat\ton a mat, and the dog ran", 1),
        ("edit<=0", "The cat sat on a mat", 0),
        ("edit<=1", "The cat sat on a mat", 1),
        ("edit<=0", "the cat sat on a ma", 0),
        ("edit<=1", "the cat sat on a ma", 1),
        ("edit<=1", "the cat sat on a mat", 1),
        ("edit<=1", "a the cat sat on a mat", 0),  # two more in front push two off the end
        ("edit<=4", "a the cat sat on a mat", 1),
        ("edit:unit=words<=0", "the cat sat on a mats", 0),
        ("edit:unit=words<=1", "the cat sat on a mats", 1),
        ("edit:unit=words<=1", "a the cat sat on a mat", 0),
        ("edit:unit=words<=2", "a the cat sat on a mat", 1),
        ("hamming<=0", "the cat sat on a mat, and", 1),
        ("hamming<=1", "the bat sat on a mat", 1),
        ("hamming<=2", "a the cat sat on a mat", 0),
        ("hamming<=2", "the cat sat on a m", 1),
        ("hamming<=1", "the cat sat on a m", 0),
        ("hamming:unit=words<=1", "the cat lay on a mat", 1),
        ("hamming:unit=words<=0", "the cat lay on a mat", 0),
        ("edit<=0", "", 0),
    ],
)
def test_scores(spec: str, text: str, score: int) -> None:
    assert score_texts(make_scorer(spec), [text], ANSWER) == [score]


@pytest.mark.parametrize("family", [Edit, Hamming])
@pytest.mark.parametrize("unit", ["characters", "words"])
def test_no_short_text_leaves_the_bounds_of_its_prefixes(family: type[Edit], unit: str) -> None:
    """Every text of up to five signs, a blank among them, within the bounds of each prefix."""
    scorer = family(within=1, unit=unit)  # type: ignore[arg-type]
    texts = ["".join(signs) for n in range(6) for signs in product("ab ", repeat=n)]
    scores = dict(zip(texts, score_texts(scorer, texts, "ab b"), strict=True))
    ranges = score_ranges(scorer, [(text, False) for text in texts], "ab b")
    for prefix, (low, high) in zip(texts, ranges, strict=True):
        said = [score for text, score in scores.items() if text.startswith(prefix)]
        assert low <= min(said)  # type: ignore[type-var]
        assert max(said) <= high  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("edit<=5", "edit<=5"),
        ("edit:within=5", "edit<=5"),
        (" edit: unit=characters <= 5 ", "edit<=5"),
        ("hamming:unit=words<=0", "hamming:unit=words<=0"),
        ("hamming:within=3,unit=words", "hamming:unit=words<=3"),
    ],
)
def test_names(spec: str, name: str) -> None:
    scorer = make_scorer(spec)
    assert scorer.name == name
    assert make_scorer(name) == scorer


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("edit", r"needs its setting 'within'. Write `edit<=…`"),
        ("hamming<=-1", "0 or more, got -1"),
        ("edit<=2.5", r"edit<= must be a whole number, got '2\.5'"),
        ("edit<=", "must be a whole number, got ''"),
        ("edit:unit=tokens<=2", "cannot be 'tokens'. There is: characters, words"),
        ("keyword<=2", "'keyword' counts no changes, so it takes no `<=`"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_scorer(spec)


def test_an_answer_that_nothing_would_be_too_far_from_is_refused() -> None:
    short = Prompt(id="p7", question="Who?", answer=" Ann  Lee ")
    check_prompts(make_scorer("edit<=6"), [short])
    for spec, units in (("edit<=7", "7"), ("hamming:unit=words<=2", "2")):
        with pytest.raises(InputError, match=rf"one of {units} at prompt 'p7'.*Allow fewer"):
            check_prompts(make_scorer(spec), [short])
    with pytest.raises(InputError, match="needs an answer, got none at prompt 'p8'"):
        check_prompts(make_scorer("edit<=7"), [Prompt(id="p8", question="Who?")])
