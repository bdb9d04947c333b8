"""What of a growing text stands for good, whatever is written after it.

Let t = x + s + y be a text, s a blank or a character of ASCII. NFKC works within pieces that
begin with a starter which composes with nothing before it (Unicode Annex 15, section 9), and s
is one, or becomes one: a blank turns into a single blank. So the NFKC of t is that of x, then
that of s + y. Case folding and straight apostrophes go character by character; stripping and
collapsing take nothing from x but blanks at its ends. Hence `normalise(t)` begins with
`normalise(x)`.

Let s now be a separator: a blank, or a sign of ASCII that is no part of a word. Marks in y turn
it into no letter (of the signs only ≮, ≠ and ≯ are compositions), so after a `normalise(x)` that
is not empty, `normalise(t)` ends or goes on with a character that is no part of a word: x's
words are complete. So are they to ROUGE, whose words end at any separator: its lower case looks
beyond one character only for a sigma, which is no letter to it.
"""

from __future__ import annotations

import re

_BEFORE_ASCII = re.compile(r".*(?=[\s\x00-\x7f])", re.DOTALL)
_BEFORE_SEPARATOR = re.compile(r".*(?=[\s!-/:-@\[-^`{-~])", re.DOTALL)


def settled_characters(prefix: str) -> str:
    """The opening of `prefix` that also opens, normalised, every text that begins with `prefix`.

    It ends before the last blank or character of ASCII, which a mark may yet turn into another.
    """
    return _opening(_BEFORE_ASCII, prefix)


def settled_words(prefix: str) -> str:
    """The opening of `prefix` whose words are complete in every text that begins with `prefix`.

    It ends before the last separator: the last word is left out, as it may yet grow. Both as
    `normalise` and as ROUGE reads words; see above.
    """
    return _opening(_BEFORE_SEPARATOR, prefix)


def _opening(pattern: re.Pattern[str], prefix: str) -> str:
    match = pattern.match(prefix)
    return match.group() if match else ""
