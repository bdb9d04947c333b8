"""The sentences and words that English questions are told by, and the forms of their verbs."""

from __future__ import annotations

import json
import re
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
