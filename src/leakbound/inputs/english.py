"""English questions: recognise them, rewrite them by rule, and compare their facts.

A rewriting by rule puts the complete question into a frame, such as "Please answer this question:
…". It needs no model and keeps every word of the question. Questions in other languages get no
rewriting.

The comparison of facts assumes English spelling. In other languages it is too strict. For example,
every German noun has a capital letter, so it is treated as a name that a rewriting must contain.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from leakbound.text.keywords import STOPWORDS, content_words, normalise, occurs
from leakbound.text.rouge import stems

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_FRAMES: dict[str, list[str]] = _DATA["frames"]


def _words_of(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_REQUESTS = _words_of(*_DATA["requests"])
# Function words of other languages; words in `_EITHER` are also English.
_OTHERS = _words_of(*(line for lines in _DATA["other languages"].values() for line in lines))
_ENGLISH = STOPWORDS | _REQUESTS | _words_of("always born is please")
_EITHER = _ENGLISH & _OTHERS | _words_of("come die me men per sin son us van war")
_QUOTED = re.compile(r"""(?<!\w)['‘"“](.+?)['’"”](?!\w)""")
_FIRST_WORD = re.compile(r"(?:please,? )?(\w+)")
# After an introduction, these first words get a small first letter.
_OPENING = re.compile(
    r"((at|by|for|from|in|into|of|on|to|with) )?(what|which|who|whom|whose|where|when|why|how)\b"
    r"|(is|are|was|were|has|have|had|do|does|did|can|could|will|would|should|might|may)\b",
    re.IGNORECASE,
)


def rewritings(question: str, seed: int = 0) -> list[str]:
    """Return the question or request in every frame that fits, in random order.

    Args:
        question: the text to rewrite.
        seed: the seed of the order of the rewritings; with the same seed, the list is the same.

    Returns:
        Distinct texts that contain every word of the question: 22 or 28 for a question, 22 for a
            request. Empty for any other text, and for a text in another language.
    """
    whole = question.strip()
    if not is_english(whole):
        return []
    texts = []
    if is_question(whole):
        texts = [frame.format(whole) for frame in _FRAMES["question"]]
        if _OPENING.match(whole):
            small = whole[0].lower() + whole[1:]
            texts += [frame.format(small) for frame in _FRAMES["opening"]]
    elif is_request(whole):
        texts = [frame.format(whole) for frame in _FRAMES["request"]]
    random.Random(f"rewritings {seed} {whole}").shuffle(texts)
    return texts


def is_question(text: str) -> bool:
    """Return whether a text ends in a question mark and does not begin like a request."""
    return text.rstrip().endswith("?") and not is_request(text)


def is_request(text: str) -> bool:
    """Return whether a text begins like a request, such as "Name some …" or "Please name …"."""
    first = _FIRST_WORD.match(text.strip().lower())
    return first is not None and first[1] in _REQUESTS


_SPOKEN = re.compile(r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*")
_OWNER = re.compile(r"\w['’]s?(?= [a-z])")
_SENTENCE = re.compile(r"[.?!:]\s")
# The small words within a name, which may be of another language than the question.
_SMALL = "al and bin da das de del den der di do dos du e el et la las le los of the und van von y"
_IN_NAME = re.compile(rf"(?<=\w )([A-Z][\w.-]*)(?: (?:{'|'.join(_SMALL.split())}))+(?= [A-Z])")


def is_english(question: str) -> bool:
    """Return whether a question or request is in English, judged by its letters and words.

    Most letters must be Latin, and English function words must outnumber the function words of the
    other languages known here. A possessive is evidence for English, and a word with an accent is
    evidence against English. Titles in quotation marks, names, and small words within a name are
    ignored. A text without any other word, such as "42?", is treated as English.
    """
    bare = _QUOTED.sub("Title", question)
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
    """Return the words that indicate a language: lower-case words and the sentence's first word."""
    words = [match[0] for match in _SPOKEN.finditer(_IN_NAME.sub(r"\1", sentence))]
    counted = [word for at, word in enumerate(words) if at == 0 or word[0].islower()]
    return [word for word in counted if word.lower() not in _EITHER]


_MONTHS: list[str] = _DATA["months"]
_VALUES = {
    word: str(value)
    for name in ("cardinals", "ordinals")
    for value, word in enumerate(" ".join(_DATA[name]).split())
    if word != "one"
}
_MARKS = re.compile(r"(?<=\d)(?:(?:st|nd|rd|th)\b|,(?=\d{3}(?!\d)))")
_DATE = re.compile(
    r"(?<![\w/.-])(?:(\d{1,2})([/.-])(\d{1,2})\2(\d{4})|(\d{4})-(\d\d)-(\d\d))(?![\w/-]|\.\d)"
)
_NUMBER_WORDS = "|".join(sorted(_VALUES, key=len, reverse=True)).replace("-", r"[-\s]")
_NUMBER_WORD = re.compile(rf"\b(?:{_NUMBER_WORDS})\b", re.IGNORECASE)
ORDERS = (True, False)
"""Whether the day is the first number of a date in digits. Both orders are tried."""


def by_value(text: str, *, day_first: bool = True) -> str:
    """Return an English text in which dates and numbers in digits have one standard form.

    Args:
        text: the text.
        day_first: whether the day is before the month in dates for which both orders are possible.

    Returns:
        The text with dates as "8 September 1956", without ordinals and separators of thousands.
    """

    def spelled(match: re.Match[str]) -> str:
        first, _, second, year, iso_year, iso_month, iso_day = match.groups()
        orders = ((first, second), (second, first))[:: 1 if day_first else -1]
        for day, month in [(iso_day, iso_month)] if iso_year else orders:
            if 1 <= int(day) <= 31 and 1 <= int(month) <= 12:
                return f"{int(day)} {_MONTHS[int(month) - 1]} {iso_year or year}"
        return match[0]

    return _DATE.sub(spelled, _MARKS.sub("", text))


def in_digits(text: str) -> str:
    """Return an English text in which digits replace number words.

    Args:
        text: the text.

    Returns:
        The text with cardinals and ordinals up to 99 in digits. The word "one" does not change,
            because it is often a pronoun.
    """
    return _NUMBER_WORD.sub(lambda match: _VALUES["-".join(match[0].lower().split())], text)


_NUMBER = re.compile(r"[^\W_]*\d(?:[\w/.:,'-]*\w)?")
_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_SENTENCE_START = re.compile(r"(?:^|[.?!:]\s+)\W*$")
_POSSESSIVE = re.compile(r"['’]s$")
# "Wei-Jun" is a name; of "Nobel Prize-winning", only the part before the hyphen is a name.
_ADJECTIVE_TAIL = re.compile(r"(?:-[a-z]{3,})+$")


def names_and_numbers(question: str, day_first: bool = True) -> tuple[str, ...]:
    """Return the distinct titles, numbers, dates and names of a question, in this order.

    A title is text in quotation marks. A name is a capitalised word inside a sentence. The first
    word of a sentence is a name only before another capitalised word. Dates and numbers in digits
    are written in one standard form. A number word is not a fact.
    """
    text = by_value(question, day_first=day_first)
    titles = [match[1].rstrip(",.") for match in _QUOTED.finditer(text)]
    plain = _QUOTED.sub("", text)
    return tuple(dict.fromkeys([*titles, *_NUMBER.findall(plain), *_names(plain)]))


def keeps_facts(question: str, text: str) -> bool:
    """Return whether a text contains all names, numbers, dates and titles of a question.

    Args:
        question: the question.
        text: a rewriting of it.

    Returns:
        True if every fact occurs in the text: titles and names as they are written, dates and
            numbers by value. In a date in digits, the day or the month may be first.
    """
    forms = [by_value(text, day_first=order) for order in ORDERS]
    written = [(normalise(form), normalise(in_digits(form))) for form in forms]
    wanted = [names_and_numbers(question, order) for order in ORDERS]
    return any(
        all(occurs(fact, form) or occurs(fact, digits) for fact in map(normalise, facts) if fact)
        for facts in wanted
        for form, digits in written
    )


def handed_over(question: str, answer: str, text: str) -> frozenset[str]:
    """Return the content words that are in the text and in the answer but not in the question.

    The result contains the Porter stems of ASCII words, so that "novel" counts as "novels". Other
    words are unchanged. Dates and numbers are compared by value, as in `keeps_facts`.
    """
    shared = (
        (_stems(text, order) & _stems(answer, own)) - _stems(question, own)
        for own in ORDERS
        for order in ORDERS
    )
    return min(shared, key=len)


def _names(text: str) -> list[str]:
    matches = list(_WORD.finditer(text))
    capital = [match[0][0].isupper() and match[0] != "I" for match in matches]
    names = []
    for at, match in enumerate(matches):
        if not capital[at] or re.search(r"\d", match[0]):
            continue
        if _SENTENCE_START.search(text[: match.start()]):
            word, followed = match[0].lower(), at + 1 < len(matches) and capital[at + 1]
            if word in STOPWORDS or word in _REQUESTS or not followed:
                continue
        names.append(_ADJECTIVE_TAIL.sub("", _POSSESSIVE.sub("", match[0])))
    return names


def _stems(text: str, day_first: bool) -> frozenset[str]:
    words = content_words(in_digits(by_value(text, day_first=day_first)))
    return frozenset(map(_stem, (part for word in words for part in re.split(r"[-']", word))))


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    return "".join(stems(word)) if word.isascii() else word
