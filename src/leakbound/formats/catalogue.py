"""Find the format of a file with samples, and read the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats import garak, inspect_log, lighteval, lm_eval, promptfoo, samples
from leakbound.formats.openunlearning import read_answers
from leakbound.formats.rows import SampleFile, reading
from leakbound.registry import suggestion
from leakbound.text.rows import first_line, read_text

_READERS: dict[str, Callable[..., SampleFile]] = {
    "inspect": inspect_log.read,
    "lm-eval": lm_eval.read,
    "openunlearning": read_answers,
    "garak": garak.read,
    "promptfoo": promptfoo.read,
    "lighteval": lighteval.read,
    "jsonl": samples.read,
    "csv": partial(samples.read, form="csv"),
}
FORMATS = tuple(_READERS)
_ENDINGS = {".eval": "inspect", ".parquet": "lighteval", ".csv": "csv"}
_COLUMNS = {"garak": '"entry_type"', "lm-eval": '"resps"', "promptfoo": '"promptIdx"'}
"""A column that identifies the format, for formats with one record per line or array entry."""
_PROMPTFOO = re.compile(r'"evalId"|"results"\s*:\s*\{\s*"(version|timestamp|results)"')
_HEAD = 400  # characters of a JSON object that show its format
_LINES = re.compile(r"\{.*\}\s*\n\s*\{")  # one JSON object on the first line, another on the next


def read_file(path: Path, form: str | None = None, part: str | None = None) -> SampleFile:
    """Read a file of samples.

    Args:
        path: the file.
        form: one of `FORMATS`, or "garak:PROBE" (None: detected from the file's name and content).
        part: the part of OpenUnlearning's log whose answers are imported (None: the first part in
            the log).

    Returns:
        The rows of the file. The rows of JSON lines are read on demand; other files are loaded
        completely.

    Raises:
        InputError: for an unknown format, or a file that cannot be read.
    """
    name, _, probe = (form or "").partition(":")
    if form is not None and (name not in FORMATS or (probe and name != "garak")):
        raise InputError(f"unknown format {form!r}. {suggestion(form, FORMATS)}")
    name = name or _form(path)
    more = {"part": part} if name == "openunlearning" else {"probe": probe} if probe else {}
    with reading(f"`{path}`, read as `{name}`,"):
        return _READERS[name](path, **more)


def _form(path: Path) -> str:
    if path.name.endswith("_EVAL.json"):
        return "openunlearning"
    if path.suffix in _ENDINGS:
        return _ENDINGS[path.suffix]
    if path.suffix not in (".json", ".jsonl"):
        raise InputError(
            f"cannot detect the format of `{path}` from its name. Add --format with one of "
            f"{', '.join(FORMATS)}."
        )
    text = first_line(path) if path.suffix == ".jsonl" else read_text(path).lstrip()
    if path.suffix == ".json" and not (text.startswith("[") or _LINES.match(text)):
        return "promptfoo" if _PROMPTFOO.search(text[:_HEAD]) else "inspect"
    return next((form for form, column in _COLUMNS.items() if column in text), "jsonl")
