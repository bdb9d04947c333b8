"""Rewritings in a file of your own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbound.errors import InputError
from leakbound.text.rows import FORMS, Row, read_rows
from leakbound.types import Prompt


def read_rewritings(prompts: Sequence[Prompt], path: Path) -> dict[str, tuple[str, ...]]:
    """The rewritings that a file has of each prompt, by prompt id, in the file's order.

    A CSV file or JSON lines. A row names a prompt by `id`, or by `question` as it stands in the
    benchmark, and has a list `rewritings` or one `rewriting`; several rows may name one prompt.
    Raises InputError, with file and row, for a prompt that is not there and for a row that has no
    rewriting or one that is no text.
    """
    if path.suffix.lower() not in FORMS:
        raise InputError(
            f"{str(path)!r} must be a {', '.join(FORMS)} file. Give each row a `question` or an "
            "`id`, and `rewritings`."
        )
    ids = {prompt.id: [prompt.id] for prompt in prompts}
    questions = defaultdict(list)
    for prompt in prompts:
        questions[prompt.question.strip()].append(prompt.id)
    found: dict[str, tuple[str, ...]] = {prompt.id: () for prompt in prompts}
    for row in read_rows(path, FORMS[path.suffix.lower()]):
        for named in _named(row, ids, questions):
            found[named] += _rewritings(row)
    return found


def _named(
    row: Row, ids: Mapping[str, list[str]], questions: Mapping[str, list[str]]
) -> Sequence[str]:
    """The ids of the prompts a row is about."""
    by_id = row.maybe("id")
    key, value = ("id", by_id) if by_id else ("question", row.text("question").strip())
    known = ids if by_id else questions
    if value not in known:
        raise InputError(
            f"no prompt of the benchmark has the {key} {str(value)[:80]!r} of {row.place}. One is "
            f"{next(iter(known), '')!r}. Correct it, or remove the row."
        )
    return known[value]


def _rewritings(row: Row) -> tuple[str, ...]:
    single = row.maybe("rewriting")
    found = row.texts("rewritings") + ((single.strip(),) if single else ())
    if not found:
        raise InputError(f"{row.place} has no `rewritings`. Fill them in, or remove the row.")
    return found
