"""ROUGE-1 and ROUGE-L equal rouge-score to the last bit."""

from __future__ import annotations

import random

import pytest

from leakbound.errors import InputError
from leakbound.text import rouge
from leakbound.text.rouge import has_rouge_words, rouge_1, rouge_l

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


def test_equals_rouge_score_on_random_texts() -> None:
    rng = random.Random(0)
    for _ in range(20):
        reference = "cat " + " ".join(rng.choices(WORDS, k=rng.randint(1, 25)))
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 40))) for _ in range(30)]
        assert_equal([*texts, reference, "", "…"], reference)


def test_equals_rouge_score_on_random_letters() -> None:
    """Stems of nonsense, separators of every kind."""
    rng = random.Random(1)
    letters = "abeinsgtdzy' -_.\n\u0130\u212a0"
    texts = ["".join(rng.choices(letters, k=30)) for _ in range(300)]
    assert_equal(texts, "singing beaten days in a tin tent " + texts[0])


def test_order_counts() -> None:
    assert rouge_l(["b a"], "a b").recall.tolist() == [0.5]
    assert rouge_1(["b a a"], "a b").recall.tolist() == [1.0]


def test_a_full_memory_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word{i} the cat" if i % 2 else "nothing" for i in range(10)]
    monkeypatch.setattr(rouge, "_FULL", 2)
    for _ in range(2):
        assert rouge_l(texts, "the cat").recall.tolist() == [0.0, 1.0] * 5
    rouge_l(["a"], "a")
    assert set(rouge._stems(True)) == {"a", " a"}


class Numbered(dict[str, int]):
    """A number for every word."""

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, len(self))


def test_a_reference_of_many_stems(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there are one-byte characters; among the later ones are surrogates."""
    numbered = Numbered()
    monkeypatch.setattr(rouge, "_stems", lambda stemmed: numbered)
    reference = [f"w{i}" for i in range(0xE010)]
    late = reference[0xD7F0:]
    got = rouge_l([" ".join(late), "x w0 w300 w299"], " ".join(reference))
    assert got.precision.tolist() == [1.0, 0.5]
    assert got.recall.tolist() == [len(late) / 0xE010, 2 / 0xE010]


def test_a_lone_surrogate_is_no_word() -> None:
    assert rouge_l(["cat \ud800 cat\ud800s"], "cat").precision.tolist() == [1 / 3]


def test_no_texts() -> None:
    assert rouge_l([], "cat").recall.shape == (0,)


@pytest.mark.parametrize("reference", ["", "  ", "猫が好き", "…"])
def test_a_reference_it_cannot_read_is_refused(reference: str) -> None:
    assert not has_rouge_words(reference)
    with pytest.raises(InputError, match="ASCII"):
        rouge_l(["cat"], reference)


@pytest.mark.parametrize("reference", ["x", "7", "\u212a"])
def test_a_reference_it_can_read(reference: str) -> None:
    """The Kelvin sign in lower case is an ASCII k."""
    assert has_rouge_words(reference)
    assert rouge_l([reference], reference).recall.tolist() == [1.0]
