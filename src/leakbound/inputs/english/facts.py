"""Whether a question is in English, what a rewriting must keep of it and must not hand over.

English writing is assumed, and errs to the strict side elsewhere: where every noun has a capital,
as in German, every noun counts as a name and must be kept.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from leakbound.inputs.english.questions import QUOTED, REQUESTS, listed, masked, words_of
from leakbound.text.keywords import STOPWORDS, content_words, normalise, occurs
from leakbound.text.rouge import stems

# What questions in German, Dutch, French, Spanish, Portuguese, Italian and Scandinavian languages
# are made of. A word that English has as well speaks for neither (`_EITHER`).
_OTHERS = listed("German", "Dutch", "French", "Spanish", "Portuguese", "Italian", "Scandinavian")
_ENGLISH = STOPWORDS | REQUESTS | words_of("always born is please")
_EITHER = _ENGLISH & _OTHERS | words_of("come die me men per sin son us van war")
_SPOKEN = re.compile(r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*")
_OWNER = re.compile(r"\w['’]s?(?= [a-z])")
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
    english = sum(word.lower() in _ENGLISH for word in words) + len(_OWNER.findall(bare))
    others = sum(
        word.lower() in _OTHERS or (word.islower() and not word.isascii()) for word in words
    )
    return english > others or not words


def _words(sentence: str) -> list[str]:
    """The words that speak for a language: in small letters, or the first of the sentence."""
    words = [match[0] for match in _SPOKEN.finditer(_IN_NAME.sub(r"\1", sentence))]
    counted = [word for at, word in enumerate(words) if at == 0 or word[0].islower()]
    return [word for word in counted if word.lower() not in _EITHER]


_NUMBER = re.compile(r"[^\W_]*\d(?:[\w/.:,'-]*\w)?")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.?!:]\s+)\W*$")
_POSSESSIVE = re.compile(r"['’]s$")
# "Wei-Jun" is a name; of "Nobel Prize-winning" only what stands before the hyphen is one.
_ADJECTIVE_TAIL = re.compile(r"(?:-[a-z]{3,})+$")


def names_and_numbers(question: str) -> tuple[str, ...]:
    """The titles, numbers, dates and names of a question, in that order, each once.

    A title stands in quotation marks. A name is a word with a capital inside a sentence; at its
    start, only before another such word. Ordinals are read as numbers: "April 4" says what "the
    4th of April" says. A date in digits stays as it is, since 08/09 may be read in two ways.
    """
    text = _ORDINAL.sub("", question)
    titles = [match[1].rstrip(",.") for match in QUOTED.finditer(text)]
    plain = QUOTED.sub("", text)
    return tuple(dict.fromkeys([*titles, *_NUMBER.findall(plain), *_names(plain)]))


def keeps_facts(question: str, text: str) -> bool:
    """True if every name, number, date and title of the question stands in the text as well."""
    written = normalise(_ORDINAL.sub("", text))
    facts = filter(None, map(normalise, names_and_numbers(question)))
    return all(occurs(fact, written) for fact in facts)


def handed_over(question: str, answer: str, text: str) -> frozenset[str]:
    """The stems of content words that the text shares with the answer and not with the question.

    Porter's stems where a word is ASCII, else the word: "novel" hands over "novels".
    """
    return (_stems(text) & _stems(answer)) - _stems(question)


def _names(text: str) -> list[str]:
    matches = list(_WORD.finditer(text))
    capital = [match[0][0].isupper() and match[0] != "I" for match in matches]
    names = []
    for at, match in enumerate(matches):
        if not capital[at] or re.search(r"\d", match[0]):
            continue
        if _SENTENCE_START.search(text[: match.start()]):
            word, followed = match[0].lower(), at + 1 < len(matches) and capital[at + 1]
            if word in STOPWORDS or word in REQUESTS or not followed:
                continue
        names.append(_ADJECTIVE_TAIL.sub("", _POSSESSIVE.sub("", match[0])))
    return names


def _stems(text: str) -> frozenset[str]:
    parts = (part for word in content_words(text) for part in re.split(r"[-']", word))
    return frozenset(map(_stem, parts))


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    return "".join(stems(word)) if word.isascii() else word
