"""The forms of the English verbs that questions about people and their works are made of."""

from __future__ import annotations

import re

from leakbound.inputs.english.grammar import IRREGULAR, listed

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
