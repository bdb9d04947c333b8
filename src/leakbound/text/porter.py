"""Porter's stemmer with NLTK's changes, on which ROUGE's scores depend.

Porter (1980), "An algorithm for suffix stripping", Program 14(3). All differences from that
algorithm are NLTK's, in its default mode NLTK_EXTENSIONS:

- A list contains the stems of irregular words.
- At the end of words with four letters, `ies` and `ied` become `ie`; `ied` of other words becomes
  `i`.
- `y` becomes `i` after a consonant that is not the first letter.
- If removing `ed` or `ing` leaves a vowel and a consonant, an `e` is appended.
- Step 2 processes a word that ends in `alli` again, without its last two letters.
- `bli`, `fulli` and `logi` are suffixes of step 2.
- Words of two letters are not changed.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise
from typing import TypeAlias

_Rule: TypeAlias = tuple[str, str]  # a suffix, and its replacement

_IRREGULAR = {
    "sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news",
    "innings": "inning", "inning": "inning", "outings": "outing", "outing": "outing",
    "cannings": "canning", "canning": "canning", "howe": "howe", "proceed": "proceed",
    "exceed": "exceed", "succeed": "succeed",
}  # fmt: skip
_PLURAL: tuple[_Rule, ...] = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
_DERIVED: tuple[_Rule, ...] = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
    ("fulli", "ful"),
)  # fmt: skip
_FURTHER: tuple[_Rule, ...] = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_LAST = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=2**16)
def stem(word: str) -> str:
    """Return the stem of a lowercase word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in _STEPS:
        word = step(word)
    return word


def _plural(word: str) -> str:
    """Apply step 1a."""
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return _ruled(word, _PLURAL, least=0)


def _past(word: str) -> str:
    """Apply step 1b: remove `ed` and `ing`, and restore the end of the word."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        base = word.removesuffix(suffix)
        if base != word and not all(_consonants(base)):
            return _mended(base)
    return word


def _mended(word: str) -> str:
    """Return the base of a word that lost `ed` or `ing`, with its original ending restored."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) >= 2 and word[-1] == word[-2] and _consonants(word)[-1]:
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short(word) else word


def _ending_y(word: str) -> str:
    """Apply step 1c."""
    fits = word.endswith("y") and len(word) > 2 and _consonants(word)[-2]
    return word[:-1] + "i" if fits else word


def _derived(word: str) -> str:
    """Apply step 2."""
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _derived(word[:-2])
    if word.endswith("logi") and not word.endswith(tuple(suffix for suffix, _ in _DERIVED)):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _ruled(word, _DERIVED)


def _last(word: str) -> str:
    """Apply step 4."""
    suffix = next((suffix for suffix in _LAST if word.endswith(suffix)), "")
    base = word.removesuffix(suffix)
    fits = suffix != "ion" or base.endswith(("s", "t"))
    return base if suffix and fits and _measure(base) > 1 else word


def _ending_e(word: str) -> str:
    """Apply step 5a."""
    base = word.removesuffix("e")
    measure = _measure(base)
    return base if measure > 1 or (measure == 1 and not _short(base)) else word


def _double_l(word: str) -> str:
    """Apply step 5b."""
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _ruled(word: str, rules: tuple[_Rule, ...], least: int = 1) -> str:
    """Apply the first rule whose suffix fits, if the measure of the base is at least `least`."""
    for suffix, instead in rules:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + instead if _measure(base) >= least else word
    return word


_further = partial(_ruled, rules=_FURTHER)  # step 3
_STEPS = (_plural, _past, _ending_y, _derived, _further, _last, _ending_e, _double_l)


def _consonants(word: str) -> list[bool]:
    """Return whether each letter is a consonant; a `y` at the start or after a vowel is one."""
    kinds: list[bool] = []
    for letter in word:
        after_consonant = bool(kinds) and kinds[-1]
        kinds.append(not after_consonant if letter == "y" else letter not in "aeiou")
    return kinds


def _measure(word: str) -> int:
    """Return the number of consonants that follow a vowel."""
    return sum(second and not first for first, second in pairwise(_consonants(word)))


def _short(word: str) -> bool:
    """Return whether a word ends in a short syllable, as Porter's rules define it.

    A word of two letters must be vowel, consonant. A longer word must end in consonant, vowel,
    consonant (not w, x, y); such a word may have lost an `e`, like `hop` of `hoping`.
    """
    kinds = _consonants(word)
    if len(word) == 2:
        return kinds == [False, True]
    return kinds[-3:] == [True, False, True] and word[-1] not in "wxy"
