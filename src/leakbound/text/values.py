"""Dates and numbers of an English text by value: "8th September 1956" equals "08/09/1956".

A date in digits has two readings where neither part exceeds 12: 08/09/1956 is 8 September or
9 August. `by_value` takes one order for a whole text; a caller compares both and accepts either.

Read are dates with a year of four digits, whole numbers with or without separators of thousands,
ordinals, and number words. Not read are years of two digits, years in words, and "one" without
another number word, which is mostly a pronoun.
"""

from __future__ import annotations

import re
from functools import partial

# A row each: cardinals, ordinals, tens, months.
_WORDS = """\
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
sixteen seventeen eighteen nineteen
zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth \
thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
twenty thirty forty fifty sixty seventy eighty ninety
January February March April May June July August September October November December
"""
_ONES, _ORDINALS, _TENS, _MONTHS = map(str.split, _WORDS.splitlines())
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_VALUES = {
    **{word: value for words in (_ONES, _ORDINALS) for value, word in enumerate(words)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    **{f"{word[:-1]}ieth": 10 * value for value, word in enumerate(_TENS, 2)},
}

_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_UNIT = "|".join([*_ONES[1:10], *_ORDINALS[1:10]])
_WRITTEN = r"\d{1,3}(?:,\d{3}){1,4}|\d{1,15}"
_SMALL = rf"(?:(?:{'|'.join(_TENS)})[-\s](?:{_UNIT})|{'|'.join(_VALUES)}|{_WRITTEN})\b"
_SCALED = rf"[-\s](?:{'|'.join(_SCALES)})\b(?:(?:\sand)?\s{_SMALL})?"
_NUMERAL = re.compile(
    rf"(?<![\w.,/:'-]){_SMALL}(?:{_SCALED}){{0,6}}(?![\w/:']|[.,-]\d)", re.IGNORECASE
)
_PART = re.compile(rf"[a-z]+|{_WRITTEN}")
_DATE = re.compile(
    r"(?<![\w/.-])(?:(\d{1,2})([/.-])(\d{1,2})\2(\d{4})|(\d{4})-(\d\d)-(\d\d))(?![\w/-]|\.\d)"
)
_SHORT = "(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
_SHORT_MONTH = re.compile(rf"(?<=\d\s){_SHORT}\b\.?|\b{_SHORT}\b\.?(?=\s\d)")


def by_value(text: str, *, day_first: bool = True, words: bool = True) -> str:
    """Write the dates and numbers of a text in one form.

    Args:
        text: an English text.
        day_first: the order of day and month in its dates in digits, where both orders fit.
        words: whether number words are read too.

    Returns:
        The text with dates as "8 September 1956", and numbers as digits without separators.
    """
    text = _DATE.sub(partial(_date, day_first=day_first), _ORDINAL.sub("", text))
    text = _SHORT_MONTH.sub(_month, text)
    return _NUMERAL.sub(partial(_digits, words=words), text)


def _date(match: re.Match[str], day_first: bool) -> str:
    first, _, second, year, iso_year, iso_month, iso_day = match.groups()
    orders = [(first, second), (second, first)] if day_first else [(second, first), (first, second)]
    for day, month in [(iso_day, iso_month)] if iso_year else orders:
        if 1 <= int(day) <= 31 and 1 <= int(month) <= 12:
            return f"{int(day)} {_MONTHS[int(month) - 1]} {iso_year or year}"
    return match[0]


def _month(match: re.Match[str]) -> str:
    return next(month for month in _MONTHS if month.startswith(match[0][:3]))


def _digits(match: re.Match[str], words: bool) -> str:
    numeral = match[0].lower()
    if numeral == "one" or (not words and not numeral[0].isdigit()):
        return match[0]
    total = below = 0
    for part in _PART.findall(numeral):
        scale = _SCALES.get(part, 0)
        if scale == 100:
            below *= scale
        elif scale:
            total, below = total + below * scale, 0
        elif part != "and":
            below += _VALUES[part] if part in _VALUES else int(part.replace(",", ""))
    return str(total + below)
