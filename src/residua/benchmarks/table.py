"""`csv:PATH`, `jsonl:PATH`, or just the path: your own questions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import get_args

from residua.benchmarks.benchmark import Benchmark, Prompts
from residua.errors import InputError
from residua.registry import suggestion
from residua.text.rows import Form, Row, read_rows
from residua.types import Prompt, Role

COLUMNS = ("id", "question", "answer", "keywords", "paraphrases", "role")
_ROLES: tuple[Role, ...] = get_args(Role)


def load(form: Form, argument: str, data: Path | None = None) -> Benchmark:
    """The rows of a file in the given form, relative to `data` where that is given.

    Columns: `question`, and where there are any `answer`, `keywords` (a list, or a text cut at
    commas and semicolons), `paraphrases` (a list), `id`, and `role` (`forget` where it is blank:
    what is evaluated; `retain` and `holdout` stand beside it). Other columns are ignored, and
    the benchmark's notes say so.
    """
    path = Path(data or "", argument)
    rows = read_rows(path, form)
    prompts = [_prompt(path, row) for row in rows]

    def of(role: Role) -> Prompts:
        return tuple(prompt for prompt in prompts if prompt.role == role)

    forget = of("forget")
    if not forget:
        raise InputError(f"no row of {str(path)!r} has the role 'forget': nothing to evaluate.")
    ignored = sorted({key for row in rows for key in row.values} - set(COLUMNS))
    return Benchmark(
        name=f"{form}:{path.name}",
        prompts=forget,
        others={role: partial(of, role) for role in _ROLES if role != "forget" and of(role)},
        scorers=_default_scorers(forget),
        max_new_tokens=200,
        origin=str(path),
        notes=(f"ignored columns: {', '.join(ignored)}",) if ignored else (),
    )


def _prompt(path: Path, row: Row) -> Prompt:
    role = row.maybe("role") or "forget"
    if role not in _ROLES:
        raise InputError(f"unknown role {role!r} in {row.place}. {suggestion(role, _ROLES)}")
    return Prompt(
        id=row.maybe("id") or f"{path.stem}/{row.number:04d}",
        question=row.text("question"),
        answer=row.maybe("answer"),
        split=role,
        role=role,
        keywords=row.texts("keywords", separators=",;"),
        paraphrases=row.texts("paraphrases"),
    )


def _default_scorers(prompts: Prompts) -> tuple[str, ...]:
    """What every prompt has the means for."""
    keyword = ("keyword",) if all(prompt.keywords for prompt in prompts) else ()
    rouge = ("rouge-l-recall",) if all(prompt.answer for prompt in prompts) else ()
    return keyword + rouge
