"""What a model is taught to say instead of the answer, where a row does not tell.

Deviation: TOFU's own list (`idontknow.jsonl`) is not on the hub; `alternates.txt` is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakbound.errors import InputError
from leakbound.text.rows import FORMS, read_rows, read_text
from leakbound.types import Prompt

OURS = Path(__file__).with_name("alternates.txt")


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
    ours = read_alternates(OURS)
    return [replace(row, alternate_answers=row.alternate_answers or ours) for row in rows]
