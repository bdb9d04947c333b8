"""Taking an English question apart, where its pattern is a sure one, and the verbs it is made of.

Every function returns a phrase that keeps the question's own words, or None where it is not sure
of the grammar: a form left out costs nothing, an ungrammatical one is no rewriting. Titles in
quotation marks count as one word throughout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

_LISTED = json.loads(Path(__file__).with_name("grammar.json").read_text(encoding="utf-8"))

FRAMES: dict[str, tuple[str, ...]] = {k: tuple(v) for k, v in _LISTED["frames"].items()}
"""The sentences that a part of a question is put into, by the part that they take."""

IRREGULAR: dict[str, tuple[str, str]] = {
    base: (past, participle) for base, (past, participle) in _LISTED["irregular verbs"].items()
}
"""Base form: past tense, past participle."""


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


def listed(*names: str) -> frozenset[str]:
    """The words of the lists that are called so."""
    return words_of(" ".join(line for name in names for line in _LISTED["words"][name]))


_Y = re.compile(r"(?<![aeiou])y$")

BASES = listed("regular verbs") | set(IRREGULAR)
_PARTICIPLES = {"been", "born", "known"} | {participle for _, participle in IRREGULAR.values()}


def third_person(base: str) -> str:
    """The present of a verb of BASES after a name: `writes`, `studies`."""
    if base == "have":
        return "has"
    stem = _Y.sub("ie", base)
    return stem + ("es" if stem.endswith(("s", "sh", "ch", "o")) else "s")


def past(base: str) -> str:
    """The past tense of a verb of BASES: `wrote`, `studied`."""
    if base in IRREGULAR:
        return IRREGULAR[base][0]
    stem = _Y.sub("ie", base)
    return stem + ("d" if stem.endswith("e") else "ed")


def is_participle(word: str) -> bool:
    """True for a past participle: a long enough word in -ed, or an irregular one known here."""
    return word in _PARTICIPLES or (word.endswith("ed") and len(word) > 4)


_WH = words_of("what which who whom whose where when why how what's who's where's")
_BE = words_of("is are was were")
_HAVE = words_of("has have had")
_DO = words_of("do does did")
_MODAL = words_of("can could would will should might may")
_AUXILIARIES = _BE | _HAVE | _DO | _MODAL
_FRONTED = words_of("in on at to from by for with of into")
_ADVERBS = words_of("also always ever first mostly never often still")
_AFTER_BE = words_of("a active afraid allergic an available best famous in most the")
_PRONOUNS = words_of("fans he one people readers she they we you")
_BELONGINGS = words_of("books career father mother novels parents works writing")
REQUESTS = listed("requests")
# After these, what or who is the subject: an indirect question keeps their order.
SUBJECT_VERBS = listed("subject verbs")

QUOTED = re.compile(r"""(?<!\w)['‘"“](.+?)['’"”](?!\w)""")
_SENTENCE_END = re.compile(r"(?<![A-Z])[.?!]['’\"”]?\s+\S")
_SECOND_CLAUSE = re.compile(
    r"(?:,|\band|\bor|\bbut)\s+(?:(?:in|at|of|by|to|with|for|on)\s+)?"
    r"(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|has|have|had|do|does|did)\b"
)
_DANGLING = listed("dangling")
_SPLIT = re.compile(r"\b(?:called|considered|known|like|named|such as)\b")
_CLAUSE_WORD = re.compile(
    r"\b(?:who|that|which|where|when|is|are|was|were|has|have|had|do|does|did|can|could)\b"
)
# A noun phrase that can only be the thing asked for: "the main genre of", "Ada Vale's birth date".
_THE_NOUN_OF = re.compile(r"the (?:(?!\w+ing\b|\w+ed\b)[\w'-]+ ){1,4}?(?:behind|for|in|of) ")
_OWN_NOUN = re.compile(r"(?:[^\W\d_a-zß-ÿ][\w.-]*\s)*[^\W\d_a-zß-ÿ][\w.-]*['’]s(?: [a-z-]+){1,3}$")
_NAMEABLE = re.compile(r"(?:some|one|another)(?: of)? ")
_WHICH_ONE = rf"(?:Who|What|(?:Which|What)(?: (?!(?:{'|'.join(_AUXILIARIES)})\b)[\w-]+){{1,3}})"
_FOR_SUBJECT = re.compile(
    rf"{_WHICH_ONE} (?:(?:{'|'.join(SUBJECT_VERBS)}) (?!by\b)"
    r"|(?:is|was) (?:best |most |well-)?(?:famous|known) for\b)"
)
_LONGEST = 10


def is_question(text: str) -> bool:
    """True for a text that ends in a question mark and asks for no action."""
    return text.rstrip().endswith("?") and _first_word(text) not in REQUESTS


def opening(text: str) -> str | None:
    """The question as it goes on after an introduction: without its capital."""
    words = text.split()
    first, second = _first_word(text), words[1].lower() if len(words) > 1 else ""
    small = first in _WH | _AUXILIARIES or (first in _FRONTED and second in _WH)
    return _uncapitalised(text.strip()) if small and is_question(text) else None


def task(text: str) -> str | None:
    """The task without its subject, as a request has it: `name some books by Ada Vale`.

    From "Can you name ...?", "Please name ...", and from questions for some things or for a
    person, which can be named.
    """
    body = body_of(text)
    if _SENTENCE_END.search(masked(body)):
        return None
    request = re.sub(r"^(?:(?:can|could|will|would) you )?(?:please )?", "", body, flags=re.I)
    verb = request.split()[0].lower() if request else ""
    if verb in REQUESTS:
        return request[: len(verb)].lower() + request[len(verb) :]
    thing = _nameable(body)
    return f"name {thing}" if thing else None


def wanted(text: str) -> str | None:
    """The thing that a "What is ...?" asks for, as a noun phrase: `the genre of his books`."""
    parts = _after_what_is(body_of(text))
    return parts[1] if parts else None


def indirect(text: str) -> str | None:
    """The indirect question, as it stands after "I would like to know": `where she was born`."""
    body = body_of(text)
    bare = masked(body)
    if not is_question(text) or _SENTENCE_END.search(bare) or _SECOND_CLAUSE.search(bare):
        return None
    words = body.split()
    if _first_word(text) in _AUXILIARIES:
        # "Can you ...?" asks for an action, not whether you can.
        clause = None if words[1:2] == ["you"] else _inverted(words[0].lower(), words[1:])
        return f"whether {clause}" if clause else None
    if _FOR_SUBJECT.match(bare):  # who wrote it, which author is known for it: the order stays
        return _uncapitalised(body)
    return _turned(words) or _thing_last(body)


def body_of(text: str) -> str:
    """The text without the mark it ends in."""
    return re.sub(r"\s*[?.]+$", "", text.strip())


def masked(body: str) -> str:
    """The text with every title in quotation marks replaced by one word."""
    return QUOTED.sub("Title", body)


def split_wh(words: Sequence[str]) -> int | None:
    """Where the auxiliary stands after an opening wh-phrase of a few plain words."""
    start = 1 if words and words[0].lower() in _FRONTED else 0
    if len(words) <= start or words[start].lower() not in _WH:
        return None
    for index, word in enumerate(words[start + 1 : start + 7], start=start + 1):
        if word in _AUXILIARIES:
            return index
        if not re.fullmatch(r"[\w-]+", word):
            return None
    return None


def one_clause(text: str) -> bool:
    """True for one sentence that asks one thing."""
    bare = masked(body_of(text))
    return not _SENTENCE_END.search(bare) and not _SECOND_CLAUSE.search(bare)


def _first_word(text: str) -> str:
    words = text.split(maxsplit=1)
    return words[0].lower().replace("’", "'") if words else ""


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]


def _turned(words: Sequence[str]) -> str | None:
    """A wh-phrase, then the clause in the order of a statement."""
    place = split_wh(words)
    if place is None:
        return None
    clause = _inverted(words[place], words[place + 1 :])
    return f"{_uncapitalised(' '.join(words[:place]))} {clause}" if clause else None


def _thing_last(body: str) -> str | None:
    """`what the capital of Peru is`, where the noun phrase is short and holds no clause."""
    parts = _after_what_is(body)
    if parts is None:
        return None
    verb, thing = parts
    bare = masked(thing)
    if len(bare.split()) > _LONGEST or _CLAUSE_WORD.search(bare) or "," in bare:
        return None
    return f"what {thing} {verb}"


def _after_what_is(body: str) -> tuple[str, str] | None:
    match = re.match(r"What (is|are|was|were) (.+)$", body)
    if match is None or not _whole(match[2]):
        return None
    bare = masked(match[2])
    return (match[1], match[2]) if _THE_NOUN_OF.match(bare) or _OWN_NOUN.match(bare) else None


def _nameable(body: str) -> str | None:
    match = re.match(r"(What|Who) (?:is|are|was|were) (.+)$", body)
    if match is None or not _whole(match[2]):
        return None
    bare = masked(match[2])
    person = match[1] == "Who" and bare.startswith("the ") and not re.search(r"\bby\b", bare)
    return match[2] if person or _NAMEABLE.match(bare) else None


def _whole(phrase: str) -> bool:
    """False where the phrase may have lost its verb to the front: "the bird called", "it for"."""
    bare = masked(phrase)
    last = bare.split()[-1].lower()
    cut = last in _DANGLING or last.endswith("ing") or _SPLIT.search(bare)
    return not cut and not _SENTENCE_END.search(bare) and not _SECOND_CLAUSE.search(bare)


def _inverted(auxiliary: str, words: Sequence[str]) -> str | None:
    """Subject before verb: `did` + `Ada Vale first write` -> `Ada Vale first wrote`."""
    length = _subject(words)
    if not length:
        return None
    subject, rest = " ".join(words[:length]), list(words[length:])
    at = next(
        (i for i, w in enumerate(rest) if w not in _ADVERBS and not w.endswith("ly")), len(rest)
    )
    verb = rest[at] if at < len(rest) else ""
    if auxiliary in _DO:
        return _inflected(auxiliary, subject, rest, at) if verb in BASES else None
    if auxiliary in _BE:
        fits = not rest or at > 0 or verb in _AFTER_BE or is_participle(verb)
    else:
        fits = is_participle(verb) if auxiliary in _HAVE else verb in BASES
    return " ".join([subject, auxiliary, *rest]) if fits else None


def _inflected(auxiliary: str, subject: str, rest: list[str], at: int) -> str | None:
    """Without the auxiliary, its tense on the verb; None where a second verb would want it too."""
    if any(a in ("and", "or") and b in BASES for a, b in pairwise(rest[at:])):
        return None
    forms = {"do": rest[at], "does": third_person(rest[at]), "did": past(rest[at])}
    return " ".join([subject, *rest[:at], forms[auxiliary], *rest[at + 1 :]])


def _subject(words: Sequence[str]) -> int:
    """How many words the subject has: a name, one of its belongings, a pronoun; 0 if unsure."""
    if words and words[0] in _PRONOUNS:
        return 1
    at = 0
    while at < len(words) and words[at] in ("the", "author", "writer"):
        at += 1
    start = at
    while at < len(words) and words[at][0].isupper() and re.fullmatch(r"[\w.-]+", words[at]):
        at += 1
    owner = at < len(words) and words[at][0].isupper() and words[at].endswith(("'s", "’s"))
    if owner:
        return at + 2 if at + 1 < len(words) and words[at + 1] in _BELONGINGS else 0
    return at if at > start else 0
