"""Every form of file that samples can be read from, and how a file's own form is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from leakbound.errors import InputError
from leakbound.formats import inspect_log, lm_eval, openunlearning_answers, samples
from leakbound.formats.imported import ImportedLog
from leakbound.formats.spool import Spool
from leakbound.registry import suggestion
from leakbound.text.rows import first_line

Format = Literal["inspect", "lm-eval", "openunlearning", "jsonl"]
FORMATS = get_args(Format)


def read_logs(
    paths: Sequence[Path], spool: Spool, form: str | None = None, part: str | None = None
) -> list[ImportedLog]:
    """The logs in these files, each read as `form`, else as what its name and first line show.

    `part`: which answers are taken of a log that has those of several parts of a benchmark. Of
    several tasks that were sampled, questions go by the name of their task too. Draws of `jsonl`
    lie in `spool`; the other formats are read whole, a file at a time, and their draws held.
    """
    if form is not None and form not in FORMATS:
        raise InputError(f"unknown format {form!r}. {suggestion(form, FORMATS)}")
    logs = [_read(path, form or _form(path), part, spool) for path in paths]
    if not logs:
        raise InputError("no file to import. Name one at least.")
    if len({log.task for log in logs if not log.decoding.greedy}) <= 1:
        return logs
    return [
        replace(log, asked=tuple(replace(one, id=f"{log.task}/{one.id}") for one in log.asked))
        for log in logs
    ]


def _read(path: Path, form: str, part: str | None, spool: Spool) -> ImportedLog:
    if form == "inspect":
        return inspect_log.read(path)
    if form == "lm-eval":
        return lm_eval.read(path)
    if form == "openunlearning":
        return openunlearning_answers.read(path, part)
    return samples.read(path, spool)


def _form(path: Path) -> Format:
    if path.name.endswith("_EVAL.json"):
        return "openunlearning"
    if path.suffix in (".eval", ".json"):
        return "inspect"
    if path.suffix != ".jsonl":
        raise InputError(
            f"cannot tell the format of `{path}` from its name. Say --format inspect, lm-eval, "
            "openunlearning or jsonl."
        )
    return "lm-eval" if '"resps"' in first_line(path) else "jsonl"
