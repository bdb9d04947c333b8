"""Every form of file that samples can be read from."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from leakbound.errors import InputError, require_no_fault
from leakbound.formats import garak, inspect_log, lighteval, lm_eval, promptfoo, samples
from leakbound.formats.openunlearning import read_answers
from leakbound.formats.rows import SampleFile
from leakbound.registry import near, suggestion
from leakbound.text.rows import first_line, read_text


class _Reader(NamedTuple):
    """A reader; where it may miss something: the name of a whole file, and where to get one."""

    read: Callable[..., SampleFile]
    whole: str = ""
    fix: str = ""


_READERS = {
    "inspect": _Reader(
        inspect_log.read, "log of inspect_ai", "a finished `.eval` or `.json` log with its samples"
    ),
    "lm-eval": _Reader(
        lm_eval.read, "file of lm-evaluation-harness", "a `samples_*.jsonl` of --log_samples"
    ),
    "openunlearning": _Reader(read_answers),
    "garak": _Reader(garak.read, "report of garak", "the `.report.jsonl` of a run that has ended"),
    "promptfoo": _Reader(
        promptfoo.read, "output of promptfoo", "a file of `promptfoo eval --output FILE.json`"
    ),
    "lighteval": _Reader(
        lighteval.read, "table of lighteval's details", "a `details_*.parquet` of --save-details"
    ),
    "jsonl": _Reader(samples.read),
    "csv": _Reader(partial(samples.read, form="csv")),
}
FORMATS = tuple(_READERS)
_MISSED = (
    LookupError, TypeError, AttributeError, ValueError, EOFError, ArithmeticError,
    RuntimeError,  # an archive that is encrypted, or compressed in a way that zipfile does not know
    pa.ArrowException, zipfile.BadZipFile, struct.error, zlib.error,
)  # fmt: skip


def read_file(path: Path, form: str | None = None, part: str | None = None) -> SampleFile:
    """Read a file of samples.

    Args:
        path: the file.
        form: one of `FORMATS`, or "garak:PROBE"; None: the form that its name and first line show.
        part: which answers are taken of a log of OpenUnlearning; None: the first that it has.

    Returns:
        Its rows. Those of JSON lines are read when they are needed; other files are held.

    Raises:
        InputError: an unknown format; a file that is not whole.
    """
    name, _, probe = (form or "").partition(":")
    if form is not None and (name not in FORMATS or (probe and name != "garak")):
        raise InputError(f"unknown format {form!r}. {suggestion(form, FORMATS)}")
    name = name or _form(path)
    more = {"part": part} if name == "openunlearning" else {"probe": probe} if probe else {}
    reader, whole, fix = _READERS[name]
    if not whole:
        return reader(path, **more)
    try:
        file = reader(path, **more)
        return replace(file, rows=[*file.rows])
    except InputError:
        raise
    except OSError as error:
        require_no_fault(path, error)
        why = error.strerror or error
        raise InputError(f"cannot read `{path}`: {why}. {near(path)}Check the path.") from error
    except _MISSED as error:
        why = type(error).__name__  # the text of a ValueError may quote an output
        if isinstance(error, pa.ArrowException) or not isinstance(error, ValueError):
            why = f"{why}: {error}"
        raise InputError(f"`{path}` is no whole {whole} ({why}). Name {fix}.") from error


def _form(path: Path) -> str:
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
            f"cannot tell the format of `{path}` from its name. Give --format, one of "
            f"{', '.join(FORMATS)}."
        )
    first = first_line(path)
    return "garak" if '"entry_type"' in first else "lm-eval" if '"resps"' in first else "jsonl"
