"""Load and check the rows to train on: questions with their answers, or plain text passages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.losses import Needs
from leakbound.objective import Objective
from leakbound.text.rows import FORMS, read_rows, read_text
from leakbound.types import Passage, Prompt, Role
from leakbound.unlearning.settings import Watch

Row = Prompt | Passage
Splits = Mapping[str, Sequence[Row]]
Questions = Mapping[str, Sequence[Prompt]]


def prompts(rows: Sequence[Row]) -> list[Prompt]:
    """Return the rows that are questions."""
    return [row for row in rows if isinstance(row, Prompt)]


def passages(rows: Sequence[Row]) -> list[Passage]:
    """Return the rows that are plain text passages."""
    return [row for row in rows if isinstance(row, Passage)]


def digest(rows: Sequence[Row]) -> str:
    """Return the SHA-256 of all parts of the rows that training uses."""
    return sha256_of(json.dumps([_texts(row) for row in rows]))


def splits_with(part: str, needs: Mapping[str, Needs]) -> tuple[str, ...]:
    """Return the splits whose rows need a part of `leakbound.losses.PARTS`."""
    return tuple(split for split, need in needs.items() if part in need.parts)


def require_known(objective: Objective, splits: Splits) -> None:
    """Raise InputError if the objective needs a split that `unlearn` does not have."""
    for split in objective.splits:
        if split not in splits:
            raise InputError(
                f"objective {objective.name!r} needs the split {split!r}, but `unlearn` has only "
                f"{', '.join(splits)}. To train without forgetting, use `finetune`."
            )


def require_apart(forget: Sequence[Row], retain: Sequence[Row]) -> None:
    """Raise InputError if a question or a passage is in both the forget set and the retain set."""
    kept = {_named(row).strip(): row.id for row in retain}
    both = [row for row in forget if _named(row).strip() in kept]
    if both:
        raise InputError(
            f"{len(both)} {'texts' if passages(both) else 'questions'} are in both the forget and "
            f"the retain set, such as {both[0].id!r} (in retain "
            f"{kept[_named(both[0]).strip()]!r}). Remove them from one of the sets."
        )


def require_no_thoughts(splits: Splits) -> None:
    """Raise InputError for a row with a thought, which only `finetune` trains on."""
    for split, rows in splits.items():
        for row in prompts(rows):
            if row.thought is not None:
                raise InputError(
                    f"row {row.id!r} of {split} has a thought, but `unlearn` trains on answers "
                    "only. Remove the thoughts, or use another benchmark."
                )


def require_rows(splits: Splits, objective: Objective, watch: Watch) -> None:
    """Raise InputError for an empty split, and for rows that lack a part to train on."""
    for split, rows in splits.items():
        if not rows:
            raise InputError(
                f"objective {objective.name!r} needs {split} rows, got none. Pass a {split} set, "
                "or use an objective without it."
            )
        if passages(rows):
            running, needs = len(passages(rows)), objective.needs[split]
            if running < len(rows):
                raise InputError(
                    f"the {split} set has {running} plain text passages and {len(rows) - running} "
                    "questions. Pass rows of one kind."
                )
            parts = needs.parts & {"alternate", "invented", "centres"}
            if parts or any(site.tokens == "question" for site in needs.sites):
                raise InputError(
                    f"objective {objective.name!r} needs questions, but the {split} set has plain "
                    "text passages. Use an objective for passages, such as npo, gd, kl or rmu."
                )
            if watch.evaluate_every is not None:
                raise InputError(
                    f"`evaluate_every` needs questions, but the {split} set has plain text "
                    "passages. Omit it, and evaluate the model after training."
                )
        for row in prompts(rows):
            if not (row.answer or "").strip():
                raise InputError(
                    f"row {row.id!r} of {split} has no answer to train on. Add an answer, or "
                    "remove the row."
                )


def _named(row: Row) -> str:
    return row.question if isinstance(row, Prompt) else row.text


def _texts(row: Row) -> list[Any]:
    if isinstance(row, Passage):
        return [row.text]
    thought = [] if row.thought is None else [row.thought]
    return [row.question, row.prefix, row.answer, row.alternate_answers, row.paraphrases, *thought]


Given: TypeAlias = Sequence[Prompt] | Sequence[Passage]
Source: TypeAlias = str | Benchmark | Given
"""Rows, a benchmark with the rows, or a benchmark's name."""


def opened(source: Source) -> Benchmark | Given:
    """Return the source; if it is the name of a benchmark, load the benchmark."""
    return load_benchmark(source) if isinstance(source, str) else source


def rows_of(source: Benchmark | Given, role: Role | None = None) -> Given:
    """Return a benchmark's rows with a role (None: its evaluated rows), or given rows unchanged.

    Raises InputError if the benchmark's rows are only for evaluation.
    """
    return source.to_train(role or source.role) if isinstance(source, Benchmark) else source


OURS = Path(__file__).with_name("alternates.txt")
"""The file of this package's default sentences that replace an answer; TOFU's list is not on the
hub.
"""


def read_alternates(path: Path) -> tuple[str, ...]:
    """Return the sentences in a file: one per line, or rows with a field `text`, or JSON strings.

    Raises InputError for a file that cannot be read, or that contains no sentence.
    """
    if path.suffix.lower() in FORMS:
        return tuple(row.text("text").strip() for row in read_rows(path, bare="text"))
    sentences = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if not sentences:
        raise InputError(f"{str(path)!r} contains no sentence. Write one per line.")
    return sentences


def with_alternates(rows: Sequence[Prompt], sentences: Sequence[str] | None) -> list[Prompt]:
    """Return the rows with these sentences as alternate answers.

    If `sentences` is None, a row keeps its own alternate answers; a row without any gets the
    default sentences.
    """
    if sentences is not None:
        return [replace(row, alternate_answers=tuple(sentences)) for row in rows]
    ours = read_alternates(OURS)
    return [replace(row, alternate_answers=row.alternate_answers or ours) for row in rows]
