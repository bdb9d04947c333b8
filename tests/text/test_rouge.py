"""ROUGE-1 and ROUGE-L equal rouge-score to the last bit, stems those of NLTK."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from leakbound.text.porter import _DERIVED, _FURTHER, _IRREGULAR, _LAST, _PLURAL, stem
from leakbound.text.rouge import f1_bounds, has_rouge_words, recall_bounds, rouge_1, rouge_l

porter = pytest.importorskip("nltk.stem.porter")
STEMMER = porter.PorterStemmer()
TOFU = Path(__file__).parents[2] / ".." / "shared" / "data"
SUFFIXES = [*(s for s, _ in (*_PLURAL, *_DERIVED, *_FURTHER)), *_LAST, "ed", "ing", "eed", "ied"]
ENDS = [*SUFFIXES, "logi", "logy", "ally", "bly", "fully", "e", "ll", "y", "ied", ""]


def words_of(count: int) -> set[str]:
    """Yield random stems with up to two suffixes of every kind."""
    chance = random.Random(2)
    words = {"".join(chance.choices("aeiouyblst0", k=chance.randint(1, 9))) for _ in range(3_000)}
    for _ in range(count):
        start = "".join(chance.choices("aeiouybcdlmnrstwxz", k=chance.randint(0, 5)))
        words.add(start + chance.choice(ENDS) + chance.choice(ENDS))
    return words | {"buzzing", "fizzed", "hopping", "falling", "hissing", "logging", *_IRREGULAR}


def words_of_benchmarks() -> set[str]:
    if not TOFU.is_dir():
        pytest.skip("no data")
    files = [file for file in TOFU.rglob("*.json*") if file.stat().st_size < 20_000_000]
    text = " ".join(file.read_text(errors="replace") for file in files)
    return set(re.findall(r"[a-z0-9]+", text.lower()))


@pytest.mark.parametrize(
    "words",
    [
        partial(words_of, 3_000),
        pytest.param(partial(words_of, 100_000), marks=pytest.mark.slow),
        pytest.param(words_of_benchmarks, marks=pytest.mark.slow),
    ],
)
def test_stems_equal_nltks(words: Callable[[], set[str]]) -> None:
    got = words()
    assert len(got) > 1_000
    assert {word for word in got if stem(word) != STEMMER.stem(word)} == set()


rouge_score = pytest.importorskip("rouge_score.rouge_scorer")
ORACLE = rouge_score.RougeScorer(["rouge1", "rougeL"], use_stemmer=True)
UNSTEMMED = rouge_score.RougeScorer(["rougeL"], use_stemmer=False)
WORDS = (  # noqa: SIM905
    "The the author's Yun-Hwa wrote writing writes written, relational ran flies dying agreed "
    "J.K. 'Café' naïve 1991 3.14 e-mail___x İstanbul ΣΑΣ Kelvin ﬁne — … sky's LGBTQ+ ies sses "
    "generalizations oscillators\u00a0joined\u2003wide a\tb"
).split(" ")


def assert_equal(texts: list[str], reference: str) -> None:
    theirs = [ORACLE.score(reference, text) for text in texts]
    for name, ours in (("rouge1", rouge_1), ("rougeL", rouge_l)):
        got = ours(texts, reference)
        columns = (got.precision.tolist(), got.recall.tolist(), got.f1.tolist())
        wanted = [(s[name].precision, s[name].recall, s[name].fmeasure) for s in theirs]
        assert list(zip(*columns, strict=True)) == wanted
    as_they_are = rouge_l(texts, reference, stemmed=False).f1.tolist()
    assert as_they_are == [UNSTEMMED.score(reference, text)["rougeL"].fmeasure for text in texts]


def test_equals_rouge_score_on_random_texts_and_letters() -> None:
    """Random letters have odd stems and separators of every kind."""
    rng = random.Random(0)
    for _ in range(8):
        reference = "cat " + " ".join(rng.choices(WORDS, k=rng.randint(1, 25)))
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 40))) for _ in range(30)]
        assert_equal([*texts, reference, "", "…"], reference)
    letters = "abeinsgtdzy' -_.\n\u0130\u212a0"
    texts = ["".join(rng.choices(letters, k=30)) for _ in range(100)]
    assert_equal(texts, "singing beaten days in a tin tent " + texts[0])


def test_order_counts_a_lone_surrogate_is_no_word_and_no_texts_have_no_scores() -> None:
    assert rouge_l(["b a"], "a b").recall.tolist() == [0.5]
    assert rouge_1(["b a a"], "a b").recall.tolist() == [1.0]
    assert rouge_l(["cat \ud800 cat\ud800s"], "cat").precision.tolist() == [1 / 3]
    assert rouge_l([], "cat").recall.shape == (0,)


def test_a_reference_of_many_stems() -> None:
    """More stems than one-byte characters; the later ones include surrogates."""
    reference = [f"w{i}" for i in range(0xE010)]
    late = reference[0xD7F0:]
    got = rouge_l([" ".join(late), "x w0 w300 w299"], " ".join(reference), stemmed=False)
    assert got.precision.tolist() == [1.0, 0.5]
    assert got.recall.tolist() == [len(late) / 0xE010, 2 / 0xE010]


@pytest.mark.parametrize("reference", ["x", "7", "\u212a"])
def test_a_reference_with_a_kelvin_sign(reference: str) -> None:
    """The Kelvin sign in lower case is an ASCII k."""
    assert has_rouge_words(reference)
    assert rouge_l([reference], reference).recall.tolist() == [1.0]


REFERENCES = ("a", "a b", "a b c a", "the cats were running home, the cat said", "b " * 40 + "a")


def texts_of(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    words = ["a", "b", "c", "the", "cat", "cats", "run", "running", "home", "zzz", "was,"]
    return [" ".join(rng.choices(words, k=rng.randint(0, 30))) for _ in range(count)]


@pytest.mark.parametrize("reference", REFERENCES)
def test_the_lowest_recall_counts_the_settled_words(reference: str) -> None:
    texts = texts_of(100, seed=0)
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


def test_bounds_on_f1_include_rounding() -> None:
    """The score's rounding may exceed the rational number; its bound may not be below it."""
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
