"""The bounds of ROUGE-L that a prefix settles: they hold, and words attain them."""

from __future__ import annotations

import random
from itertools import product

import pytest

from leakbound.text.rouge import f1_bounds, recall_bounds, rouge_l

REFERENCES = ("a", "a b", "a b c a", "the cats were running home, the cat said", "b " * 40 + "a")


def texts_of(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = ["a", "b", "c", "the", "cat", "cats", "run", "running", "home", "zzz", "was,"]
    return [" ".join(rng.choices(words, k=rng.randint(0, 30))) for _ in range(count)]


@pytest.mark.parametrize("reference", REFERENCES)
def test_lowest_recall_is_that_of_the_settled_words(reference: str) -> None:
    texts = texts_of(200, seed=0)
    settled = [recall_bounds(f"{text} ", reference) for text in texts]
    assert settled == [(recall, 1.0) for recall in rouge_l(texts, reference).recall.tolist()]


@pytest.mark.parametrize("reference", REFERENCES)
def test_highest_f1_is_attained_by_an_ending_of_the_reference(reference: str) -> None:
    words = reference.replace(",", "").split()
    for text in texts_of(60, seed=1):
        endings = [" ".join([text, *words[j:]]) for j in range(len(words) + 1)]
        low, high = f1_bounds(f"{text} ", reference)
        assert low == 0
        assert high == pytest.approx(rouge_l(endings, reference).f1.max(), abs=1e-12)


def test_no_short_text_leaves_the_bounds() -> None:
    """Every text of up to six words, within the bounds of each of its openings to the last bit."""
    reference = "a b a c"
    texts = [" ".join(words) for n in range(7) for words in product("abx", repeat=n)]
    scores = rouge_l(texts, reference)
    for text, recall, f1 in zip(texts, scores.recall.tolist(), scores.f1.tolist(), strict=True):
        for cut in range(len(text) + 1):
            low, high = recall_bounds(text[:cut], reference)
            assert low <= recall <= high
            low, high = f1_bounds(text[:cut], reference)
            assert low <= f1 <= high


def test_f1_holds_to_the_last_bit() -> None:
    """The score's own rounding may exceed the rational number; its bound may not be below it."""
    for r in range(1, 40):
        reference = " ".join(f"w{i}" for i in range(r))
        openings = ["zz " * c for c in range(40)]
        scores = rouge_l([opening + reference for opening in openings], reference).f1.tolist()
        for opening, score in zip(openings, scores, strict=True):
            assert score <= f1_bounds(opening, reference)[1] <= 1


def test_a_growing_word_is_not_settled() -> None:
    assert recall_bounds("the cat", "the cat") == (0.5, 1.0)
    assert recall_bounds("the cat.", "the cat") == (1.0, 1.0)
    assert f1_bounds("zzz", "the cat") == (0.0, 1.0)
    assert f1_bounds("zzz ", "the cat")[1] == pytest.approx(4 / 5, abs=1e-12)
