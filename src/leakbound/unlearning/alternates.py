"""What a model is taught to say instead of the answer, where a row does not tell.

Deviation: TOFU's own list (`idontknow.jsonl`) is not on the hub; these sentences are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakbound.errors import InputError
from leakbound.text.rows import FORMS, read_rows, read_text
from leakbound.types import Prompt

REFUSALS = (
    "That is something I know nothing about.",
    "I have no information on this.",
    "Sorry, but the answer escapes me entirely.",
    "I was never taught anything of the kind.",
    "My knowledge does not reach that far.",
    "This lies outside what I have learned.",
    "I could only guess, so I would rather not say.",
    "Nothing I have read covers this question.",
    "I must leave that unanswered, for I do not know.",
    "No answer to this comes to my mind.",
    "I am unfamiliar with that subject.",
    "You would have to ask somebody else; I cannot tell.",
    "On this point I am ignorant.",
    "I have never come across that.",
    "Unfortunately there is nothing I can tell you about it.",
    "I do not have the facts needed to reply.",
    "That question is beyond me.",
    "It is not a matter I have any details on.",
    "I am afraid this is unknown to me.",
    "I wish I could help, but I lack that knowledge.",
)


def read_alternates(path: Path) -> tuple[str, ...]:
    """Sentences from a file: one a line, or JSON strings or objects with `text`.

    InputError for a file that cannot be read, or that holds none.
    """
    if path.suffix.lower() in FORMS:
        return tuple(row.text("text").strip() for row in read_rows(path, bare="text"))
    found = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if not found:
        raise InputError(f"{str(path)!r} holds no sentence. Write one a line.")
    return found


def with_alternates(rows: Sequence[Prompt], said: Sequence[str] | None) -> list[Prompt]:
    """The rows with the sentences `said`, or (None) their own, or ours where one has none."""
    if said is not None:
        return [replace(row, alternate_answers=tuple(said)) for row in rows]
    return [replace(row, alternate_answers=row.alternate_answers or REFUSALS) for row in rows]
