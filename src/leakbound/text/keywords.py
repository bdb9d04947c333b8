"""Finding keywords in a text, the words of an answer that make it one, and what of a text settles.

Why settled openings are settled: let t = x + s + y be a text, s a blank or a character of ASCII.
NFKC works within pieces that begin with a starter which composes with nothing before it (Unicode
Annex 15, section 9), and s is one, or becomes one: a blank turns into a single blank. So the NFKC
of t is that of x, then that of s + y. Case folding and straight apostrophes go character by
character; stripping and collapsing take nothing from x but blanks at its ends. Hence `normalise(t)`
begins with `normalise(x)`.

Let s now be a separator: a blank, or a sign of ASCII that is no part of a word. Marks in y turn
it into no letter (of the signs only ≮, ≠ and ≯ are compositions), so after a `normalise(x)` that
is not empty, `normalise(t)` ends or goes on with a character that is no part of a word: x's
words are complete. So are they to ROUGE, whose words end at any separator: its lower case looks
beyond one character only for a sigma, which is no letter to it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# English words that carry no fact: without them, what an answer says beyond its question is left.
STOPWORDS = frozenset(
    """
    a about after all also an and any are as at be been before being both but by can could did do
    does each every for from had has have he her hers him his how i if in into is it its just may
    might more most must my no nor not of on once only or other our out over own shall she should
    since so some such than that the their them then there these they this those through to too
    under until up upon very was we were what when where whether which while who whom whose why
    will with would yet you your
    """.split()  # noqa: SIM905
)

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


def normalise(text: str) -> str:
    """Compatibility-composed (NFKC), case-folded, straight apostrophes, single blanks, stripped."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(folded.split())


@lru_cache(maxsize=4096)
def keyword_pattern(keyword: str) -> re.Pattern[str]:
    """A pattern that finds the keyword as whole words in a text that `normalise` has been over.

    A keyword may begin or end with a sign that is no letter ("J.K."): there, no word boundary is
    asked for.
    """
    word = normalise(keyword)
    written = re.escape(word)
    # what is before it is looked at behind it: a pattern that begins with letters is found faster
    before = rf"(?<!\w{written})" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    return re.compile(written + before + after)


def content_words(text: str) -> tuple[str, ...]:
    """The distinct words of an English text that are no stopwords, in order, case-folded.

    A possessive "'s" is cut off.
    """
    words = (word.removesuffix("'s") for word in _WORD.findall(normalise(text)))
    return tuple(dict.fromkeys(word for word in words if word not in STOPWORDS))


def answer_keywords(question: str, answer: str) -> tuple[str, ...]:
    """The content words of the answer that the question does not hold already."""
    question_words = set(content_words(question))
    return tuple(word for word in content_words(answer) if word not in question_words)


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
