"""Load the user's questions from a file: `csv:PATH`, `jsonl:PATH`, or only the path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from leakbound.benchmarks.benchmark import Benchmark, Prompts
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.text.rows import Form, Row, read_rows
from leakbound.types import Prompt, Role

COLUMNS = (
    "id", "question", "answer", "keywords", "paraphrases", "alternate_answers", "role", "split",
    "subject", "thought",
)  # fmt: skip
_ROLES: tuple[Role, ...] = get_args(Role)
_SHOWN = 5  # the maximum number of rows that a note names


def load(form: Form, argument: str, data: Path | None = None) -> Benchmark:
    """Load the rows of a file in the given form. The file's path is relative to `data`, if given.

    The column `question` is required. Optional columns:

    - `id`; `answer`; `thought` (the reasoning before the answer, which `finetune` teaches);
    - `keywords` (a list, or texts separated by semicolons); `paraphrases` (a list);
    - `alternate_answers` (a list of answers to give after unlearning);
    - `subject` (the person or thing that the question is about);
    - `role` or `split`: `forget`, `retain` or `holdout`. Rows with `forget` are evaluated, and a
      blank means `forget`. A number may follow the name of a split, as in forget10.

    The notes of the benchmark list the columns that are ignored, and the rows that have the same
    question. If only some rows have an answer, the notes list the rows without an answer. The same
    applies to keywords.

    Raises InputError for an unknown role, for a row whose `role` and `split` differ, and for a text
    of keywords that contains commas, because such a text may be one keyword or several keywords.
    """
    path = Path(data or "", argument)
    rows = read_rows(path, form)
    prompts = [_prompt(path, row) for row in rows]

    def of(role: Role) -> Prompts:
        return tuple(prompt for prompt in prompts if prompt.role == role)

    forget = of("forget")
    if not forget:
        raise InputError(
            f"no row of {str(path)!r} has the role 'forget'. Set this role in the rows to evaluate."
        )
    defaults = {
        "keyword": all(prompt.keywords for prompt in forget),
        "rouge-l-recall": all(prompt.answer for prompt in forget),
    }
    return Benchmark(
        name=f"{form}:{path.name}",
        prompts=forget,
        others={role: partial(of, role) for role in _ROLES if role != "forget" and of(role)},
        scorers=tuple(scorer for scorer, fits in defaults.items() if fits),
        max_new_tokens=200,
        origin=str(path),
        notes=tuple(_notes(rows, prompts)),
        subjects=_subjects(path, rows, prompts),
    )


def _prompt(path: Path, row: Row) -> Prompt:
    role, split = _role(row)
    return Prompt(
        id=row.maybe("id") or f"{path.stem}/{row.number:04d}",
        question=row.text("question"),
        answer=row.maybe("answer"),
        split=split,
        role=role,
        keywords=_keywords(row),
        paraphrases=row.texts("paraphrases"),
        alternate_answers=row.texts("alternate_answers"),
        thought=row.maybe("thought"),
    )


def _subjects(path: Path, rows: Sequence[Row], prompts: Sequence[Prompt]) -> dict[str, str]:
    """Return the subject of each evaluated prompt, by id; raise InputError if some are blank."""
    pairs = [(p, row.maybe("subject")) for row, p in zip(rows, prompts, strict=True)]
    subjects = {p.id: subject.strip() for p, subject in pairs if p.role == "forget" and subject}
    blank = [row.number for row, (p, subject) in zip(rows, pairs, strict=True)
             if p.role == "forget" and not subject]  # fmt: skip
    if subjects and blank:
        raise InputError(
            f"the column `subject` of {str(path)!r} is blank in {_numbers(blank)}. Fill in the "
            "subject of every question, or remove the column."
        )
    return subjects


def _role(row: Row) -> tuple[Role, str]:
    """Return the role of a row and the name of its split. The default name is the role."""
    named = {column: text.strip() for column in ("role", "split") if (text := row.maybe(column))}
    roles = {column: _known_role(row, column, text) for column, text in named.items()}
    if len(set(roles.values())) > 1:
        raise InputError(
            f"`role` {named['role']!r} and `split` {named['split']!r} of {row.place} differ. "
            "Remove one of the columns."
        )
    role: Role = next(iter(roles.values()), "forget")
    return role, named.get("split", role)


def _known_role(row: Row, column: str, text: str) -> Role:
    for role in _ROLES:
        if text.casefold().rstrip("0123456789") == role:
            return role
    raise InputError(
        f"unknown {column} {text!r} in {row.place}. {suggestion(text, _ROLES)} Rename the column "
        "if it has another meaning."
    )


def _keywords(row: Row) -> tuple[str, ...]:
    """Return the keywords of a cell; raise InputError if commas make their number ambiguous."""
    value = row.values.get("keywords")
    if isinstance(value, str) and "," in value and ";" not in value and value.strip()[0] != "[":
        whole, parts = json.dumps([value], ensure_ascii=False), value.replace(",", ";")
        raise InputError(
            f"`keywords` {value!r} of {row.place} may be one keyword or several. Write {whole} for "
            f"one keyword, or {parts!r} for several keywords."
        )
    return row.texts("keywords", separators=";")


def _notes(rows: Sequence[Row], prompts: Sequence[Prompt]) -> Iterator[str]:
    """Yield notes on ignored columns, missing values and repeated questions."""
    if ignored := sorted({key for row in rows for key in row.values} - set(COLUMNS)):
        yield f"ignored columns: {', '.join(ignored)}; known columns: {', '.join(COLUMNS)}"
    evaluated = [(row, p) for row, p in zip(rows, prompts, strict=True) if p.role == "forget"]
    for column, scorer in (("answer", "rouge-l-recall"), ("keywords", "keyword")):
        blank = [row.number for row, prompt in evaluated if not getattr(prompt, column)]
        if 0 < len(blank) < len(evaluated):
            yield f"no {column} in {_numbers(blank)}, so {scorer} is not a default scorer"
    places: dict[str, list[int]] = {}
    for row, prompt in zip(rows, prompts, strict=True):
        places.setdefault(" ".join(prompt.question.casefold().split()), []).append(row.number)
    for numbers in [same for same in places.values() if len(same) > 1][:_SHOWN]:
        yield f"the same question is in {_numbers(numbers)}: each row is a separate question"


def _numbers(rows: Sequence[int]) -> str:
    shown = ", ".join(map(str, rows[:_SHOWN]))
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    return f"{'rows' if len(rows) > 1 else 'row'} {shown}{more}"
