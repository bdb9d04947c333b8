"""What is trained on: questions with their answers, or running texts; what is refused of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from leakbound.errors import InputError
from leakbound.losses import Needs
from leakbound.objective import Objective
from leakbound.types import Passage, Prompt
from leakbound.unlearning.settings import Watch

Row = Prompt | Passage
Splits = Mapping[str, Sequence[Row]]
Questions = Mapping[str, Sequence[Prompt]]


def prompts(rows: Sequence[Row]) -> list[Prompt]:
    """Those that ask something."""
    return [row for row in rows if isinstance(row, Prompt)]


def passages(rows: Sequence[Row]) -> list[Passage]:
    """The running texts."""
    return [row for row in rows if isinstance(row, Passage)]


def digest(rows: Sequence[Row]) -> str:
    """SHA-256 over all of the rows that training reads."""
    return sha256([_texts(row) for row in rows])


def sha256(value: Any) -> str:
    """SHA-256 over a value's JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def require_known(objective: Objective, given: Splits) -> None:
    """Raise InputError for a split that unlearning does not have, or that is empty."""
    for split in objective.splits:
        if split not in given:
            raise InputError(
                f"objective {objective.name!r} trains on {split!r}, which `unlearn` does not "
                f"have ({', '.join(given)}). Use `finetune` for plain training."
            )
        if not given[split]:
            raise InputError(
                f"objective {objective.name!r} needs {split} rows, got none. "
                f"Name a {split} set, or an objective without it."
            )


def require_apart(forget: Sequence[Row], retain: Sequence[Row]) -> None:
    """Raise InputError for a question or a text on both sides."""
    kept = {_named(row).strip(): row.id for row in retain}
    both = [row for row in forget if _named(row).strip() in kept]
    if both:
        raise InputError(
            f"{len(both)} {'texts' if passages(both) else 'questions'} are in both forget and "
            f"retain, the first as {both[0].id!r} and {kept[_named(both[0]).strip()]!r}. Take them "
            "out of one."
        )


def require_rows(splits: Splits, objective: Objective, watch: Watch) -> None:
    """Raise InputError for an empty split, and for rows that lack what is trained on."""
    for split, rows in splits.items():
        if not rows:
            raise InputError(f"the {split} set is empty. Give it at least one row.")
        needs = objective.needs[split]
        if running := passages(rows):
            _require_texts_will_do(split, rows, running, needs, objective.name, watch)
        for row in prompts(rows):
            _require_answer(row, split)


def _require_texts_will_do(
    split: str,
    rows: Sequence[Row],
    running: Sequence[Passage],
    needs: Needs,
    objective: str,
    watch: Watch,
) -> None:
    if len(running) < len(rows):
        raise InputError(
            f"the {split} set has {len(running)} running texts and {len(rows) - len(running)} "
            "questions. Give it rows of one kind."
        )
    asked = needs.parts & {"alternate", "sampled", "centres"}
    if asked or any(site.tokens == "question" for site in needs.sites):
        raise InputError(
            f"objective {objective!r} reads or asks the questions of {split}, which is of running "
            "texts. Use one that does not, such as npo, gd, kl or rmu."
        )
    if watch.evaluate_every is not None:
        raise InputError(
            f"`evaluate_every` measures what is answered to questions, and {split} is of running "
            "texts. Leave it out, and evaluate the model afterwards."
        )


def _require_answer(row: Prompt, split: str) -> None:
    if not (row.answer or "").strip():
        raise InputError(
            f"row {row.id!r} of {split} has no answer to train on. Add one, or leave the row out."
        )


def _named(row: Row) -> str:
    return row.question if isinstance(row, Prompt) else row.text


def _texts(row: Row) -> list[Any]:
    if isinstance(row, Passage):
        return [row.text]
    return [row.question, row.prefix, row.answer, row.alternate_answers, row.paraphrases]
