"""Decide whether a text contains a keyword, from the whole text or from its beginning.

**The rule.** `normalise` changes texts and keywords as follows. Quotes and hyphens become straight.
NFKC is applied, except to superscripts and fractions. Default-ignorable characters are removed.
Case is folded, and characters are composed. A run of markup (`*`, `_`, `~`, backticks) is kept if
both of its neighbours are letters, marks or digits of scripts with blanks; otherwise it is removed.
A run of blanks becomes one blank, and blanks at the start and the end are removed. Markup that is
kept counts as a letter. `places` then finds keywords at word boundaries.

**Settled text.** The settled text of a prefix is the part of the normalised prefix that no
continuation of the prefix can change. This section proves which part is settled. Let p = x d z be a
prefix of a text, where d is a character. Let N be `normalise`, and let f(c) be the NFKC of a
character c with straight quotes and hyphens (`plain_character`). f(c) is empty for an ignorable
character. The character d is an *anchor* if f(d) is not empty and begins with no mark, jamo or
markup. Let e be the last character of x whose f is not empty. A *sign* is a character that is not a
letter, mark or digit. Suppose that f(e) does not end in markup, or that f(d) begins with a sign.
Then, for every continuation y,

    N(p y) begins with N(x).                                                                    (1)

*Folding.* Straightening, removal and case folding act on each character
separately. Only marks and jamo compose with preceding characters or are
reordered. So NFKC(x d ...) is NFKC(x) followed by a piece that begins like
f(d), up to marks that compose with it. Composition and case folding preserve three classes of
characters: characters that join words, signs, and characters of scripts without blanks. The only
exception is U+0345, a mark that folds to a letter; it is not an anchor. The tests verify these
facts for every character. Let F(x) be x after these steps. The folded p y is then F(x) followed by
a character g, which is a sign if and only if f(d) begins with a sign.

*Markup.* The two neighbours of a run of markup decide whether the run is dropped. Both neighbours
of a run inside F(x) are in F(x), unless the run is at the end of F(x). At the end of F(x), g is a
sign by assumption, so the run is dropped in N(p y). The run is also dropped in N(x), because it is
at the end of the text. When a run is dropped, a mark may compose with the character before the run,
which may change the neighbour of another run. These steps are the same in N(p y) and in N(x),
because g is neither dropped nor a mark, so no character after g affects a character before g.

*Blanks.* g is dropped only if it is a blank at the end of a text or after another blank. The text
before g is then complete. Stripping and collapsing of blanks remove only blanks from F(x). QED

`settled` uses the last anchor d in a prefix that satisfies the assumption of (1). So its result
contains neither the word before a trailing run of markup or ignorable characters ("Ron*" may become
"Ron*ald"), nor a character that a mark or jamo may change. By the same argument, if N(x) is not
empty, N(p y) either ends after N(x) or continues with a character of a known class. This character
is a blank if F(x) ends in a blank or g is a blank. It is a sign, hence not kept markup, if g is a
sign. A keyword that `places` finds in N(x) with these neighbours is found in N(p y).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from leakbound.text.characters import (
    MARKUP,
    is_digit,
    is_hangul,
    is_unspaced,
    joins,
    plain,
    plain_character,
)

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


_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_RUN = re.compile(f"[{re.escape(MARKUP)}]+")


def normalise(text: str) -> str:
    """Return a text or a keyword in normal form, by the rule in the module docstring.

    Args:
        text: any text.

    Returns:
        The normalised text; normalising it again changes nothing. It is empty if no visible
            character is left.
    """
    text = text.lower() if text.isascii() else _folded(text)
    if "*" in text or "_" in text or "~" in text or "`" in text:
        text = _without_markup(text)
    return " ".join(text.split())


def _folded(text: str) -> str:
    """Return the text after all steps of `normalise` except the removal of markup and blanks.

    NFKC does not change ASCII and can be computed piece by piece, so only the runs of other
    characters are processed.
    """
    text = _FOREIGN.sub(
        lambda run: plain_character(run[0]) if len(run[0]) == 1 else plain(run[0]), text
    )
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _without_markup(text: str) -> str:
    """Return a folded text without the runs of markup that do not join letters."""
    while True:
        dropped = _RUN.sub(_kept, text)
        text = unicodedata.normalize("NFC", dropped)
        if text == dropped:  # otherwise a composed character may be the neighbour of another run
            return text


def _kept(run: re.Match[str]) -> str:
    text, start, end = run.string, run.start(), run.end()
    return run[0] if _keeps(text[start - 1 : start]) and _keeps(text[end : end + 1]) else ""


@lru_cache(maxsize=4096)
def _keeps(side: str) -> bool:
    """Return whether a run of markup is kept next to this character.

    A run is kept between characters of words in scripts with blanks.
    """
    return bool(side) and joins(side) and (is_digit(side) or not is_unspaced(side))


def places(keyword: str, text: str, following: str = ".") -> Iterator[int]:
    """Yield the places of a keyword in a text, at word boundaries.

    The edges of a keyword are its first and its last character. An edge that is a letter, mark or
    digit is at a boundary if the neighbouring character of the text is not one of these. A digit
    next to a digit is never at a boundary. In other cases, no boundary is needed if the edge or its
    neighbour belongs to a script that is written without blanks. After the keyword, no boundary is
    needed for Hangul either, because particles attach to Korean words.

    Args:
        keyword: the keyword, normalised and not empty.
        text: the text, normalised.
        following: the character after the text; empty if it may be any character.

    Yields:
        The index of each occurrence, in order; they may overlap.
    """
    at = text.find(keyword)
    while at >= 0:
        end = at + len(keyword)
        after = text[end] if end < len(text) else following
        if (not at or _apart(keyword[0], text[at - 1])) and (
            _apart(keyword[-1], after, right=True)
        ):
            yield at
        at = text.find(keyword, at + 1)


def _apart(edge: str, neighbour: str, *, right: bool = False) -> bool:
    """Return whether this neighbour leaves a boundary at this edge; "" means any neighbour."""
    if not joins(edge) or (neighbour and not joins(neighbour)):
        return True
    if is_digit(edge) and (not neighbour or is_digit(neighbour)):
        return False
    both = edge + neighbour
    return any(map(is_unspaced, both)) or (right and any(map(is_hangul, both)))


def occurs(keyword: str, text: str, following: str = ".") -> bool:
    """Return whether a text contains a keyword at word boundaries; see `places`."""
    return any(True for _ in places(keyword, text, following))


def content_words(text: str) -> tuple[str, ...]:
    """Return the distinct words of an English text without stopwords, in order, case-folded.

    A possessive "'s" is cut off.
    """
    words = (word.removesuffix("'s") for word in _WORD.findall(normalise(text)))
    return tuple(dict.fromkeys(word for word in words if word not in STOPWORDS))


def answer_keywords(question: str, answer: str) -> tuple[str, ...]:
    """Return the content words of the answer that do not occur in the question."""
    question_words = set(content_words(question))
    return tuple(word for word in content_words(answer) if word not in question_words)


class Settled(NamedTuple):
    """The normalised beginning that all texts with the same prefix share.

    Attributes:
        text: the normalised beginning.
        following: the class of the next character in longer texts: " " for a blank, "." for a sign
            (no letter, mark, digit or markup); empty if unknown.
    """

    text: str
    following: str

    @property
    def words(self) -> str:
        """Return the text without its last word; if a blank follows this word, return all words."""
        return self.text if self.following == " " else self.text.rpartition(" ")[0]


_opening = lru_cache(maxsize=4096)(normalise)  # siblings in a tree of prefixes share this beginning


def settled(prefix: str) -> Settled:
    """Return the normalised beginning of all texts with this prefix; see the module docstring.

    Args:
        prefix: the beginning of a text.

    Returns:
        The normalised beginning that no continuation changes, and the class of the next
            character, if it is known.
    """
    for at in range(len(prefix) - 1, -1, -1):
        first = plain_character(prefix[at])[:1]
        if not first or first in MARKUP or _composes(first):
            continue
        text = _opening(prefix[:at])
        if not text:
            break
        last = next(filter(None, map(plain_character, reversed(prefix[:at]))))[-1]
        if joins(first) and last in MARKUP:
            continue
        if joins(first) and not last.isspace():
            return Settled(text, "")
        return Settled(text, " " if first.isspace() or last.isspace() else ".")
    return Settled("", "")


def _composes(character: str) -> bool:
    """Return whether a character may compose with preceding characters: a mark or a jamo."""
    syllable = "\uac00" <= character <= "\ud7a3"
    return unicodedata.category(character)[0] == "M" or (is_hangul(character) and not syllable)
