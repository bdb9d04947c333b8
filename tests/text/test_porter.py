"""Our stemmer against NLTK's, which `rouge-score` uses: the same stem of every word."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import pytest

from leakbound.text.porter import _DERIVED, _FURTHER, _IRREGULAR, _LAST, _PLURAL, stem

porter = pytest.importorskip("nltk.stem.porter")
ORACLE = porter.PorterStemmer()
TOFU = Path(__file__).parents[2] / ".." / "shared" / "data"
SUFFIXES = [*(s for s, _ in (*_PLURAL, *_DERIVED, *_FURTHER)), *_LAST, "ed", "ing", "eed", "ied"]
ENDS = [*SUFFIXES, "logi", "logy", "ally", "bly", "fully", "e", "ll", "y", "ied", ""]


def differing(words: set[str]) -> set[str]:
    return {word for word in words if stem(word) != ORACLE.stem(word)}


@pytest.mark.slow
def test_words_of_every_suffix() -> None:
    """10⁵ words: random beginnings, and up to two suffixes of every kind."""
    chance = random.Random(1)
    starts = [
        "".join(chance.choices("aeiouybcdlmnrstwxz", k=k))
        for k in (0, 1, 2, 3, 4, 5)
        for _ in "x" * 12
    ]
    words = {a + b + c for a, b, c in itertools.product(starts, ENDS, chance.sample(ENDS, 24))}
    assert len(words) > 80_000
    assert differing(words) == set()


def test_random_words() -> None:
    chance = random.Random(2)
    words = {"".join(chance.choices("aeiouyblst0", k=chance.randint(1, 9))) for _ in range(3_000)}
    for _ in range(7_000):
        start = "".join(chance.choices("aeiouybcdlmnrstwxz", k=chance.randint(0, 4)))
        words.add(start + chance.choice(ENDS) + chance.choice(ENDS))
    doubled = {"buzzing", "fizzed", "hopping", "falling", "hissing", "logging"}
    assert differing(words | doubled | set(_IRREGULAR)) == set()


@pytest.mark.slow
@pytest.mark.skipif(not TOFU.is_dir(), reason="no data")
def test_words_of_the_benchmarks() -> None:
    words = set[str]()
    for file in sorted(TOFU.rglob("*.json*")):
        if file.stat().st_size < 20_000_000:
            words |= set(re.findall(r"[a-z0-9]+", file.read_text(errors="replace").lower()))
    assert len(words) > 1_000
    assert differing(words) == set()
