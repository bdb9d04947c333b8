"""Classes of characters that the matching rule (`leakbound.text.keywords`) uses.

Sources: `DerivedCoreProperties.txt` (Default_Ignorable_Code_Point),
`PropList.txt` (Quotation_Mark), `ScriptExtensions.txt` and `UnicodeData.txt`
(<super>, <fraction>) of Unicode 15.1. Classes are ranges of code points. Ranges
of scripts include code points without a letter, mark or digit.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MARKUP = "*_~`"
UNSPACED = (  # Thai, Lao, Myanmar, Khmer; Han and kana with their repeat and length marks
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
    "\U000116d0-\U000116e3\u3005-\u3007\u3021-\u302d\u3031-\u303c\u3041-\u30ff\u3190-\u319f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00016fe2-\U00016fe3"
    "\U00016ff0-\U00016fff\U0001aff0-\U0001b16f\U0001d360-\U0001d371\U00020000-\U0003ffff"
)
_HANGUL = "\u1100-\u11ff\u302e-\u302f\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_KEPT = (  # <super> and <fraction>
    "\u00aa\u00b2\u00b3\u00b9\u00ba\u00bc-\u00be\u02b0-\u02b8\u02e0-\u02e4\u10fc\u1d2c-\u1d2e"
    "\u1d30-\u1d3a\u1d3c-\u1d4d\u1d4f-\u1d61\u1d78\u1d9b-\u1dbf\u2070\u2071\u2074-\u207f\u2120"
    "\u2122\u2150-\u215f\u2189\u2c7d\u2d6f\u3192-\u319f\ua69c\ua69d\ua770\ua7f1-\ua7f4\ua7f8\ua7f9"
    "\uab5c-\uab5f\uab69\U00010781-\U00010785\U00010787-\U000107b0\U000107b2-\U000107ba"
    "\U0001f16a-\U0001f16c"
)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
# Characters that are written for an apostrophe.
_SINGLE = (
    "\u2018\u2019\u201a\u201b\u2039\u203a\u2032\u2035\u02b9\u02bb\u02bc\u02bd\u02be\u02bf"
    "\u02ca\u02cb\u00b4\u0374\u0384\u1fbd\u1fbf\u1ffd\u1ffe\u055a\u05f3"
)
_DOUBLE = (
    "\u00ab\u00bb\u201c\u201d\u201e\u201f\u2033\u2036\u2e42\u300c\u300d\u300e\u300f\u301d\u301e"
    "\u301f\ufe41\ufe42\ufe43\ufe44\uff62\uff63\u05f4\u02ba\u02dd\u02ee"
)

_STRAIGHT = dict.fromkeys(_DASHES, "-") | dict.fromkeys(_SINGLE, "'") | dict.fromkeys(_DOUBLE, '"')
_UNIFIED = re.compile(f"[{IGNORABLE}{''.join(_STRAIGHT)}]")
_KEPT_RUN = re.compile(f"([{_KEPT}]+)")
_UNSPACED, _OF_HANGUL = re.compile(f"[{UNSPACED}]"), re.compile(f"[{_HANGUL}]")


def plain(text: str) -> str:
    """Return the text in NFKC with straight quotes and hyphens, without ignorable characters.

    Superscripts and fractions are not changed. In Unicode's terms, superscripts and fractions are
    starters that no canonical composition contains. So the pieces of text between them compose
    separately. NFKC may turn presentation forms into dashes or ignorable characters, so dashes and
    ignorable characters are replaced again after NFKC.
    """
    parts = _KEPT_RUN.split(_UNIFIED.sub(_straight, text))
    parts[::2] = (unicodedata.normalize("NFKC", part) for part in parts[::2])
    return _UNIFIED.sub(_straight, "".join(parts))


def _straight(match: re.Match[str]) -> str:
    return _STRAIGHT.get(match[0]) or ""


plain_character = lru_cache(maxsize=2**12)(plain)


def is_digit(character: str) -> bool:
    """Return whether a character is a number of any kind (general category N)."""
    return unicodedata.category(character)[0] == "N"


def joins(character: str) -> bool:
    """Return whether a character can be part of a word: a letter, mark, digit, or kept markup."""
    return unicodedata.category(character)[0] in ("L", "M", "N") or character in MARKUP


def is_unspaced(character: str) -> bool:
    """Return whether a character's script has no blanks (Han, kana, Thai, Lao, Khmer, Myanmar)."""
    return _UNSPACED.match(character) is not None


def is_hangul(character: str) -> bool:
    """Return whether a character is a syllable or jamo of Hangul."""
    return _OF_HANGUL.match(character) is not None
