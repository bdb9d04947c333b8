"""What a rewriting must keep of its question, and what of the answer it must not hand over.

English writing is assumed, and errs to the strict side elsewhere: where every noun has a capital,
as in German, every noun counts as a name and must be kept.
"""

from __future__ import annotations

import re
from functools import lru_cache

from leakbound.inputs.english.questions import QUOTED, REQUESTS
from leakbound.text.keywords import STOPWORDS, content_words, keyword_pattern, normalise
from leakbound.text.rouge import stems

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
    return all(keyword_pattern(fact).search(written) for fact in names_and_numbers(question))


def handed_over(question: str, answer: str, text: str) -> frozenset[str]:
    """The stems of content words that the text shares with the answer and not with the question.

    Porter's stems where a word is ASCII, else the word: "novel" hands over "novels".
    """
    return (_stems(text) & _stems(answer)) - _stems(question)


def _names(text: str) -> list[str]:
    found = list(_WORD.finditer(text))
    capital = [match[0][0].isupper() and match[0] != "I" for match in found]
    names = []
    for at, match in enumerate(found):
        if not capital[at] or re.search(r"\d", match[0]):
            continue
        if _SENTENCE_START.search(text[: match.start()]):
            word, followed = match[0].lower(), at + 1 < len(found) and capital[at + 1]
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
