"""Whether a question is in English, told by its script and its function words."""

from __future__ import annotations

import re
import unicodedata

from leakbound.inputs.english.grammar import listed, words_of
from leakbound.inputs.english.questions import REQUESTS, masked
from leakbound.text.keywords import STOPWORDS

# What questions in German, Dutch, French, Spanish, Portuguese, Italian and Scandinavian languages
# are made of. A word that English has as well speaks for neither (`_EITHER`).
_OTHERS = listed("German", "Dutch", "French", "Spanish", "Portuguese", "Italian", "Scandinavian")
_ENGLISH = STOPWORDS | REQUESTS | words_of("always born is please")
_EITHER = _ENGLISH & _OTHERS | words_of("come die me men per sin son us van war")
_WORD = re.compile(r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"\w['’]s?(?= [a-z])")
_SENTENCE = re.compile(r"[.?!:]\s")
# The small words within a name, which need not be of the question's language.
_SMALL = "al and bin da das de del den der di do dos du e el et la las le los of the und van von y"
_IN_NAME = re.compile(rf"(?<=\w )([A-Z][\w.-]*)(?: (?:{'|'.join(_SMALL.split())}))+(?= [A-Z])")


def is_english(question: str) -> bool:
    """True if a question or request is in English, as far as its words show.

    Most of its letters are Latin, and of its function words more are English than are of the
    other languages known here; a possessive speaks for English, a word with an accent against.
    Titles in quotation marks, names, and small words within a name do not count. A text without
    any other word, as "42?", is of every language.
    """
    bare = masked(question)
    letters = [sign for sign in bare if sign.isalpha()]
    latin = sum(unicodedata.name(sign, "").startswith("LATIN") for sign in letters)
    if 2 * latin < len(letters):
        return False
    words = [word for part in _SENTENCE.split(bare) for word in _words(part)]
    english = sum(word.lower() in _ENGLISH for word in words) + len(_POSSESSIVE.findall(bare))
    others = sum(word.lower() in _OTHERS or _accented(word) for word in words)
    return english > others or not words


def _words(sentence: str) -> list[str]:
    """The words that speak for a language: in small letters, or the first of the sentence."""
    found = [match[0] for match in _WORD.finditer(_IN_NAME.sub(r"\1", sentence))]
    counted = [word for at, word in enumerate(found) if at == 0 or word[0].islower()]
    return [word for word in counted if word.lower() not in _EITHER]


def _accented(word: str) -> bool:
    return word.islower() and not word.isascii()
