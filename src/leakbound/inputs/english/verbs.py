"""The forms of the English verbs that questions about people and their works are made of."""

from __future__ import annotations

import re

# Base form: past tense, past participle.
_IRREGULAR = {
    "become": ("became", "become"),
    "begin": ("began", "begun"),
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "choose": ("chose", "chosen"),
    "come": ("came", "come"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "feel": ("felt", "felt"),
    "find": ("found", "found"),
    "get": ("got", "got"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "grow": ("grew", "grown"),
    "have": ("had", "had"),
    "hold": ("held", "held"),
    "make": ("made", "made"),
    "meet": ("met", "met"),
    "speak": ("spoke", "spoken"),
    "spend": ("spent", "spent"),
    "take": ("took", "taken"),
    "undergo": ("underwent", "undergone"),
    "win": ("won", "won"),
    "write": ("wrote", "written"),
}
_REGULAR = frozenset(
    """
    achieve address admire approach attend belong celebrate collaborate collect combine complete
    conduct connect contribute create depict derive describe develop differ earn embrace employ
    engage enjoy explore express face follow handle hope identify incorporate inspire integrate
    interact intertwine invade learn like live maintain manage marry participate perceive play
    portray prepare publish pursue react receive recognize reflect release specialize start study
    tackle use utilize venture
    """.split()  # noqa: SIM905
)

_Y = re.compile(r"(?<![aeiou])y$")

BASES = _REGULAR | set(_IRREGULAR)
_PARTICIPLES = {"been", "born", "known"} | {participle for _, participle in _IRREGULAR.values()}


def third_person(base: str) -> str:
    """The present of a verb of BASES after a name: `writes`, `studies`."""
    if base == "have":
        return "has"
    stem = _Y.sub("ie", base)
    return stem + ("es" if stem.endswith(("s", "sh", "ch", "o")) else "s")


def past(base: str) -> str:
    """The past tense of a verb of BASES: `wrote`, `studied`."""
    if base in _IRREGULAR:
        return _IRREGULAR[base][0]
    stem = _Y.sub("ie", base)
    return stem + ("d" if stem.endswith("e") else "ed")


def is_participle(word: str) -> bool:
    """True for a past participle: a long enough word in -ed, or an irregular one known here."""
    return word in _PARTICIPLES or (word.endswith("ed") and len(word) > 4)
