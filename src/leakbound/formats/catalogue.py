"""Every form of file that samples can be read from, and the scores that such files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from leakbound.errors import InputError
from leakbound.formats import garak, inspect_log, lighteval, lm_eval, promptfoo, samples
from leakbound.formats.imported import Draw, ImportedLog
from leakbound.formats.openunlearning import read_answers
from leakbound.formats.spool import Mapped, Spool
from leakbound.registry import suggestion
from leakbound.scorers import make_scorer
from leakbound.scorers.spec import Logged
from leakbound.text.rows import first_line, read_text
from leakbound.types import Scorer

Format = Literal[
    "inspect", "lm-eval", "openunlearning", "garak", "promptfoo", "lighteval", "jsonl", "csv"
]
FORMATS = get_args(Format)


def read_logs(
    paths: Sequence[Path], spool: Spool, form: str | None = None, part: str | None = None
) -> list[ImportedLog]:
    """The logs in these files, each read as `form`, else as what its name and first line show.

    `part`: which answers are taken of a log that has those of several parts of a benchmark. Of
    several tasks that were sampled, questions go by the name of their task too. Draws of `jsonl`
    lie in `spool`; the other formats are read whole, a file at a time, and their draws held.
    """
    name, _, probe = (form or "").partition(":")  # of garak's reports, one probe
    if form is not None and (name not in FORMATS or (probe and name != "garak")):
        raise InputError(f"unknown format {form!r}. {suggestion(form, FORMATS)}")
    logs = [_read(path, name or _form(path), probe or part, spool) for path in paths]
    if not logs:
        raise InputError("no file to import. Name one at least.")
    if len({log.task for log in logs if not log.decoding.greedy}) <= 1:
        return logs
    return [
        replace(log, asked=tuple(replace(q, id=f"{log.task}/{q.id}") for q in log.asked))
        for log in logs
    ]


_OF_A_PATH = {
    "inspect": inspect_log.read,
    "lm-eval": lm_eval.read,
    "promptfoo": promptfoo.read,
    "lighteval": lighteval.read,
}
_WHOLE = {
    "inspect": ("log of inspect_ai", "a finished `.eval` or `.json` log that has its samples"),
    "garak": ("report of garak", "the `.report.jsonl` of a run that has ended"),
    "promptfoo": ("output of promptfoo", "a file that `promptfoo eval --output FILE.json` wrote"),
    "lighteval": ("table of lighteval's details", "a `details_*.parquet` of --save-details"),
}
"""What a file is not in which the reader misses something, and which one to name instead."""
_MISSED = (LookupError, TypeError, AttributeError, ValueError, EOFError, ArithmeticError)


def _read(path: Path, form: str, part: str | None, spool: Spool) -> ImportedLog:
    try:
        if form == "openunlearning":
            return read_answers(path, part)
        if form == "garak":
            return garak.read(path, part or "")
        if form in _OF_A_PATH:
            return _OF_A_PATH[form](path)
        return samples.read(path, spool, "csv" if form == "csv" else "jsonl")
    except (*_MISSED, pa.ArrowException) as error:
        if isinstance(error, InputError) or form not in _WHOLE:
            raise
        quotes = isinstance(error, ValueError) and not isinstance(error, pa.ArrowException)
        why = type(error).__name__ if quotes else f"{type(error).__name__}: {error}"
        kind, right = _WHOLE[form]
        raise InputError(f"`{path}` is no whole {kind} ({why}). Name {right}.") from error


def _form(path: Path) -> Format:
    if path.name.endswith("_EVAL.json"):
        return "openunlearning"
    if path.suffix == ".json" and '"evalId"' in read_text(path)[:200]:
        return "promptfoo"
    if path.suffix in (".eval", ".json"):
        return "inspect"
    if path.suffix in (".parquet", ".csv"):
        return "lighteval" if path.suffix == ".parquet" else "csv"
    if path.suffix != ".jsonl":
        raise InputError(
            f"cannot tell the format of `{path}` from its name. Say --format, one of "
            f"{', '.join(FORMATS)}."
        )
    first = first_line(path)
    return "garak" if '"entry_type"' in first else "lm-eval" if '"resps"' in first else "jsonl"


NONE = "none"


def take_scores(
    logs: Sequence[ImportedLog], wanted: Sequence[str] | None = None
) -> list[ImportedLog]:
    """The logs with the scores that are `wanted`, all by default, under the names of scorers.

    What another tool's log calls a score becomes the scorer `logged:by=NAME`: binary where
    every log says that it can be 0 and 1 only and none has another, else of [0, 1]. Scores without
    texts keep the names of the scorers that gave them. A draw that a log has no score of is
    undecided. InputError for a name that no log has, and for a score outside [0, 1].
    """
    names = list(dict.fromkeys(name for log in logs for name in log.scorers))
    chosen = names if wanted is None else [name for name in wanted if name != NONE]
    if unknown := next((name for name in chosen if name not in names), None):
        raise InputError(f"no file has scores {unknown!r}. {suggestion(unknown, names)}")
    if not names:
        return list(logs)
    scorers = {name: _scorer(name, logs) for name in chosen}
    return [_renamed(log, {name: scorer.name for name, scorer in scorers.items()}) for log in logs]


def _scorer(name: str, logs: Sequence[ImportedLog]) -> Scorer:
    """The scorer that a name stands for, once its scores are found to be such."""
    scored = [log for log in logs if name in log.scorers]
    others = sum(score not in (0, 1) for log in scored for score in _scores(log, name))
    binary = all(log.scorers[name] for log in scored) and not others
    if all(log.texts for log in scored):
        plain = name.replace(">=", "_").replace(",", "_").replace("=", "_")
        return Logged(by=plain, values="binary" if binary else "unit")
    scorer = make_scorer(name)
    if scorer.binary and others:
        raise InputError(
            f"scorer {name!r} gives 0 or 1, and `{scored[0].path}` has others of it. Export the "
            "scores anew."
        )
    return scorer


def _scores(log: ImportedLog, name: str) -> Iterator[float]:
    """The scores of that name in a log, those that are undecided left out."""
    for question in log.asked:
        for draw in filter(None, question.draws):
            score = dict(draw.scores).get(name)
            if score is None:
                continue
            if not 0 <= score <= 1 or math.isnan(score):
                raise InputError(
                    f"scores must lie in [0, 1], got {score!r} of {name!r} at question "
                    f"{question.id!r} in `{log.path}`. Rescale them there, or take others: "
                    "--scores NAME, or --scores none."
                )
            yield score


def _renamed(log: ImportedLog, names: dict[str, str]) -> ImportedLog:
    taken = {name: new for name, new in names.items() if name in log.scorers}
    scored = partial(_scored, names)
    questions = tuple(replace(q, draws=Mapped(q.draws, scored)) for q in log.asked)
    return replace(log, asked=questions, scorers={new: log.scorers[n] for n, new in taken.items()})


def _scored(names: dict[str, str], draw: Draw) -> Draw:
    scores = dict(draw.scores)
    return draw._replace(scores=tuple((new, scores.get(name)) for name, new in names.items()))
