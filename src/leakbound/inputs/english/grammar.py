"""The sentences and words that English questions are told by, as `grammar.json` lists them."""

from __future__ import annotations

import json
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
