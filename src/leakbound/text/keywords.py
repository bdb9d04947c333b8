"""One rule for whether a text contains a secret, and bounds from the opening of a text.

**The rule.** `normalise` applies, to texts and keywords: straight quotes and
hyphens; NFKC, except superscripts and fractions; no default-ignorable
characters; case folding and composition; no run of markup (`*`, `_`, `~`,
backticks) unless letters, marks or digits of scripts with blanks are on both
its sides; single blanks, none at the ends. Markup that stays counts as a
letter. `places` then finds keywords at word boundaries.

**What settles.** Let p = x d z be a prefix, N the rule, and f(c) a character's
NFKC, straightened, empty if it is ignorable (`plain_character`). The character
d is an *anchor* if f(d) is not empty and begins with no mark, jamo or markup.
Let e be the last character of x whose f is not empty. Suppose that f(e) does
not end in markup, or that f(d) begins with a *sign*, which is no letter, mark
or digit. Then, for every y,

    N(p y) begins with N(x).                                                                    (1)

*Folding.* Straightening, removal and case folding go character by character.
Only marks and jamo compose with what precedes them or are reordered, so NFKC(x
d ...) is NFKC(x), then a piece that begins as f(d) does, up to marks composed
with it. Such a composition and case folding keep the classes of characters that
join words, of signs, and of scripts without blanks, except for U+0345, a mark
that folds to a letter and is no anchor. The tests verify these facts for every
character. Let F(x) be the folding of x. The folding of p y is F(x), then a
character g, a sign or not as f(d) begins.

*Markup.* Dropping a run looks at the run's two neighbours. Those of a run
inside F(x) are in F(x), or the run ends F(x). In that case g is a sign by
assumption, and in N(x) the run is at the end of the text: dropped in both. A
run that is dropped may let a mark compose with the character before the run,
and so change the neighbour of another run. These rounds proceed in F(x) as in
N(x), since g is neither dropped nor a mark: nothing after it reaches a
character before it.

*Blanks.* g is dropped only as a blank at the end of a text or after another blank, when what
precedes it is complete. Stripping and collapsing remove only blanks from F(x).  QED

`settled` takes the last such d, hence never the word before a trailing run of markup or
ignorable characters ("Ron*" may become "Ron*ald"), nor a character that a mark or jamo may change.
By the same argument, if N(x) is not empty, N(p y) ends after it, or continues with a blank if F(x)
ends in one or g is one; with a sign, hence no kept markup, if g is one. A keyword that `places`
finds in N(x) under these neighbours is found in N(p y).
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


_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_RUN = re.compile(f"[{re.escape(MARKUP)}]+")


def normalise(text: str) -> str:
    """Normalise a text or a keyword by the matching rule; see above.

    Args:
        text: any text.

    Returns:
        The text as it is compared; normalising it again changes nothing. Empty if nothing visible
        is left.
    """
    text = text.lower() if text.isascii() else _folded(text)
    if "*" in text or "_" in text or "~" in text or "`" in text:
        text = _without_markup(text)
    return " ".join(text.split())


def _folded(text: str) -> str:
    """Return a text with straight quotes and hyphens, NFKC, nothing ignorable, folded and composed.

    NFKC changes no ASCII and is the NFC of its pieces, so only the runs between ASCII are read.
    """
    text = _FOREIGN.sub(_plain, text)
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _plain(run: re.Match[str]) -> str:
    return plain_character(run[0]) if len(run[0]) == 1 else plain(run[0])


def _without_markup(text: str) -> str:
    """Return a folded text without the runs of markup that do not join letters."""
    while True:
        dropped = _RUN.sub(_kept, text)
        text = unicodedata.normalize("NFC", dropped)
        if text == dropped:  # else what composed may be another run's neighbour
            return text


def _kept(run: re.Match[str]) -> str:
    text, start, end = run.string, run.start(), run.end()
    return run[0] if _holds(text[start - 1 : start]) and _holds(text[end : end + 1]) else ""


@lru_cache(maxsize=4096)
def _holds(side: str) -> bool:
    """Return whether a neighbour keeps a run of markup: it joins, in a script with blanks."""
    return bool(side) and joins(side) and (is_digit(side) or not is_unspaced(side))


def places(keyword: str, text: str, following: str = ".") -> Iterator[int]:
    """Find a keyword at word boundaries.

    An edge of the keyword that is a letter, mark or digit is at a boundary if its neighbour is not
    one of these. A digit next to a digit is never at a boundary. Otherwise, no boundary is needed
    where the edge or its neighbour belongs to a script written without blanks, or, after the
    keyword, to Hangul, whose particles attach.

    Args:
        keyword: the keyword, normalised and not empty.
        text: the text, normalised.
        following: the neighbour after the text; empty if it may be any character.

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
    """Return whether a keyword may have this neighbour at this edge; "" is any neighbour."""
    if not joins(edge) or (neighbour and not joins(neighbour)):
        return True
    if is_digit(edge) and (not neighbour or is_digit(neighbour)):
        return False
    both = edge + neighbour
    return any(map(is_unspaced, both)) or (right and any(map(is_hangul, both)))


def occurs(keyword: str, text: str, following: str = ".") -> bool:
    """Return whether a keyword is anywhere in a text; see `places`."""
    return any(True for _ in places(keyword, text, following))


def content_words(text: str) -> tuple[str, ...]:
    """Return the distinct words of an English text without stopwords, in order, case-folded.

    A possessive "'s" is cut off.
    """
    words = (word.removesuffix("'s") for word in _WORD.findall(normalise(text)))
    return tuple(dict.fromkeys(word for word in words if word not in STOPWORDS))


def answer_keywords(question: str, answer: str) -> tuple[str, ...]:
    """Return the content words of the answer that are not in the question."""
    question_words = set(content_words(question))
    return tuple(word for word in content_words(answer) if word not in question_words)


class Settled(NamedTuple):
    """The normalised beginning that all texts with a prefix share.

    Attributes:
        text: the opening of all these texts.
        following: the next character of longer texts: " " a blank, "." a sign, hence no
            letter, mark, digit or markup; empty if unknown.
    """

    text: str
    following: str

    @property
    def words(self) -> str:
        """Return the opening without its last word, unless a blank follows that word."""
        return self.text if self.following == " " else self.text.rpartition(" ")[0]


_opening = lru_cache(maxsize=4096)(normalise)  # siblings in a tree of prefixes share it


def settled(prefix: str) -> Settled:
    """Return the opening that a prefix settles for any continuation; see above.

    Args:
        prefix: the beginning of a text.

    Returns:
        The normalised opening that no continuation changes, and its known neighbour.
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
    """Return whether a character may compose with what precedes it: a mark or a jamo."""
    syllable = "\uac00" <= character <= "\ud7a3"
    return unicodedata.category(character)[0] == "M" or (is_hangul(character) and not syllable)
