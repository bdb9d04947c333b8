"""Read rows of CSV, JSON, JSON-lines and Parquet files, YAML files, and JSON replies of models.

The function `csv_of` makes the text of every CSV file of this package. Error messages state the
file and the row.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from leakbound.errors import InputError, require_no_fault
from leakbound.registry import near
from leakbound.text.counting import split_thought
from leakbound.text.shown import kind_of
from leakbound.types import Json

_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # the JSON form of half a surrogate pair


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file. Rows are numbered from 1 without the header; names are in lower case."""

    path: Path
    number: int
    values: Mapping[str, object]

    @property
    def place(self) -> str:
        return f"row {self.number} of {str(self.path)!r}"

    def text(self, key: str) -> str:
        """Return the text of a field; raise InputError if it is absent, blank or a number."""
        value = self.maybe(key)
        if value is None:
            raise self._lacks(key)
        if not isinstance(self.values[key], str):
            fix = "Put it in quotes."
            raise InputError(f"{key!r} must be text, got {value} in {self.place}. {fix}")
        return value

    def maybe(self, key: str) -> str | None:
        """Return a field's text or whole number, as text; None if the field is absent or blank."""
        value = self.values.get(key)
        if value is None:
            return None
        text = _decimals(value)
        if not isinstance(text, str):
            raise InputError(
                f"{key!r} must be text, got {kind_of(value)} in {self.place}.{_fix(value)}"
            )
        return text if text.strip() else None

    def whole(self, key: str) -> int:
        """Return a required whole number, written as a number or as text."""
        value = self.values.get(key)
        if value in (None, ""):
            raise self._lacks(key)
        text = str(value).strip()
        if not text.removeprefix("-").isdecimal():
            raise InputError(f"{key!r} must be a whole number, got {value!r} in {self.place}.")
        return int(text)

    def some(self, key: str, separators: str = "") -> tuple[str, ...]:
        """Return the texts of a field (see `texts`); raise InputError if the field has no text."""
        texts = self.texts(key, separators)
        if not texts:
            raise self._lacks(key)
        return texts

    def texts(self, key: str, separators: str = "") -> tuple[str, ...]:
        """Return the non-blank texts of a list, of a JSON list, or of a text split at `separators`.

        A whole number becomes the text of its decimal digits.
        """
        value = self.values.get(key)
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = parse_json(value, f"{key!r} in {self.place}", distinct=True)
        if isinstance(value, str):
            value = re.split(f"[{re.escape(separators)}]", value) if separators else [value]
        values = [value] if isinstance(value, int) else value
        of_list = [*map(_decimals, values)] if isinstance(values, list) else []
        if not isinstance(values, list | None) or not all(isinstance(v, str) for v in of_list):
            other = next((v for v in of_list if not isinstance(v, str)), value)
            raise InputError(
                f"{key!r} must be a list of texts, got {value!r} in {self.place}.{_fix(other)}"
            )
        return tuple(text for v in of_list if (text := str(v).strip()))

    def _lacks(self, key: str) -> InputError:
        if key in self.values:
            return InputError(f"{self.place} has no {key!r}. Fill it in or remove the row.")
        remedy = f"Add it, or rename the field with this content to {key!r}."
        if close := get_close_matches(key, self.values, n=1):
            remedy = f"Did you mean {close[0]!r}? Then rename it to {key!r}."
        if separators := [s for s in (";", "\t", "|") if all(s in name for name in self.values)]:
            remedy = f"Separate columns by commas, not by {separators[0]!r}."
        there = ", ".join(map(repr, self.values)) or "nothing"
        return InputError(f"{self.place} has no {key!r}, only {there}. {remedy}")


def _decimals(value: object) -> object:
    """Return a whole number as its decimal digits, and any other value unchanged."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _fix(value: object) -> str:
    """Return what users can do about a value that is not a text; "" if nothing is known to help."""
    if isinstance(value, bool):
        return f' Write "{str(value).lower()}" in quotes.'
    if not isinstance(value, float):
        return ""
    if math.isnan(value):
        return " Write null, or omit it."
    return f' Write "{value:.0f}" or {value:.0f}.' if value.is_integer() else f' Write "{value!r}".'


Form = Literal["csv", "jsonl", "parquet"]
FORMS: dict[str, Form] = {".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
"""The form of a file, by the extension of the file's name."""


def read_rows(path: Path, form: Form | None = None, *, bare: str | None = None) -> list[Row]:
    """Return the rows of a file of the form `csv`, `jsonl` or `parquet`.

    A `csv` file has a header. A `jsonl` file has one object per line, or is a JSON array of
    objects. Without `form`, the file's extension specifies the form. With `bare`, a JSON string
    counts as an object that has this string under the name `bare`. A file that is missing,
    unreadable, empty or badly formed raises InputError.
    """
    return list(each_row(path, form, bare=bare))


def each_row(path: Path, form: Form | None = None, *, bare: str | None = None) -> Iterator[Row]:
    """Yield the rows of `read_rows`; JSON lines are read one at a time.

    A badly formed row raises InputError when it is reached.
    """
    row: Row | None = None
    for row in rows_of(path, _records(path, form or _form(path)), bare=bare):
        yield row
    if row is None:
        raise InputError(f"{str(path)!r} has no rows. Add rows, or use another file.")


def rows_of(path: Path, records: Iterable[object], *, bare: str | None = None) -> Iterator[Row]:
    """Yield values of a file as rows; raise InputError for a value that is not a JSON object."""
    for number, value in enumerate(records, start=1):
        if bare is not None and isinstance(value, str):
            value = {bare: value}
        if not isinstance(value, Mapping):
            raise InputError(
                f"row {number} of {str(path)!r} must be a JSON object, got {kind_of(value)}."
            )
        yield Row(path, number, {str(key).strip().lower(): v for key, v in value.items()})


def read_text(path: Path) -> str:
    """Return the text of a file; raise InputError if it cannot be read or is not UTF-8."""
    with opening(path):
        return path.read_text(encoding="utf-8-sig")


def _filled_lines(path: Path) -> Iterator[str]:
    """Yield the lines of `read_text` that are not blank, without their line ends."""
    with opening(path), path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{str(path)!r} is not UTF-8 in line {number}: {error}. Save it as UTF-8."
                ) from error
            lines = text.removesuffix("\n").removesuffix("\r").split("\r")  # accept any line end
            yield from filter(str.strip, lines)


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Convert errors in reading a file to an InputError with the reason and the fix."""
    try:
        yield
    except OSError as error:
        require_no_fault(path, error)
        raise InputError(
            f"cannot read {str(path)!r}: {error.strerror or error}. {near(path)}Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{str(path)!r} is not UTF-8: {error}. Save it as UTF-8.") from error


def _form(path: Path) -> Form:
    ending = path.suffix.lower()
    if ending not in FORMS:
        raise InputError(f"{str(path)!r} must be a {', '.join(FORMS)} file. Rename or convert it.")
    return FORMS[ending]


def _records(path: Path, form: Form) -> Iterable[object]:
    if form == "parquet":
        return _parquet(path)
    return _csv(read_text(path), path) if form == "csv" else _values(path)


def _parquet(path: Path) -> list[Mapping[str, object]]:
    import pyarrow as pa  # costs 0.1 s, and few files need it
    import pyarrow.parquet as pq

    try:
        with opening(path):
            table = pq.read_table(path)
        _require_distinct(table.column_names, repr(str(path)))
        rows: list[Mapping[str, object]] = table.to_pylist()
    except pa.ArrowException as error:
        raise InputError(f"{str(path)!r} is not a complete Parquet file: {error}.") from error
    return rows


def _require_distinct(names: Sequence[str], where: str) -> None:
    """Raise InputError if two columns have the same name; blank names are ignored."""
    columns = [name.strip().lower() for name in names]
    if len(set(columns)) == len(columns):
        return
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise InputError(
            f"{where} has two columns named {twice[0]!r}. Rename or remove one of them."
        )


@contextmanager
def _cells_of_any_size() -> Iterator[None]:
    """Lift the limit of 128 KiB that the csv module sets for every reader of this process."""
    before = csv.field_size_limit(2**31 - 1)  # the largest that every system takes
    try:
        yield
    finally:
        csv.field_size_limit(before)


@_cells_of_any_size()
def _csv(text: str, path: Path) -> list[Mapping[str, object]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    rows: list[Mapping[str, object]] = []
    try:
        _require_distinct(reader.fieldnames or (), repr(str(path)))
        for record in reader:
            rows.append(record)
            if None in record or None in record.values():
                raise InputError(
                    f"row {len(rows)} of {str(path)!r} must have {len(reader.fieldnames or [])} "
                    "fields like the header. Quote a text that has commas."
                )
    except csv.Error as error:
        raise InputError(
            f"row {len(rows) + 1} of {str(path)!r} is not valid CSV: {error}."
        ) from error
    return rows


_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+@\-\uff0b\uff0d\uff1d\uff20])")
_TO_QUOTE = re.compile(r'[",;\t\r\n]|^\s|\s$')


def csv_of(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows with the same keys as CSV text, with unrounded numbers and None as an empty cell.

    An apostrophe is written before a text that a spreadsheet would evaluate as a formula (OWASP,
    "CSV injection"). This includes such texts that already begin with apostrophes. So removing the
    first apostrophe restores the text.
    """
    names = list(rows[0]) if rows else []
    lines: list[Sequence[object]] = [names, *([row[name] for name in names] for row in rows)]
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    if isinstance(value, str) and _FORMULA.match(text):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if _TO_QUOTE.search(text) else text


def _values(path: Path) -> Iterable[object]:
    """Return the values in a file that is a JSON array, or that has one JSON value per line."""
    if first_line(path).lstrip().startswith("["):
        array: list[object] = parse_json(read_text(path), repr(str(path)), distinct=True)
        return array
    return (
        parse_json(line, f"row {n} of {str(path)!r}", distinct=True)
        for n, line in enumerate(_filled_lines(path), start=1)
    )


def first_line(path: Path) -> str:
    """Return the first non-blank line of a file, or "" if there is none."""
    return next(_filled_lines(path), "")


def parse_json(text: str | bytes, where: str, *, distinct: bool = False) -> Any:
    """Return the value of a JSON text; raise InputError with the place `where` if it is invalid.

    With `distinct`, two names that are equal in lower case raise InputError. An unpaired surrogate
    also raises InputError, because no file can store it and no page can show it.
    """
    try:
        value = json.loads(text, object_pairs_hook=partial(_object, where) if distinct else None)
        if _ESCAPED_HALF.search(text if isinstance(text, str) else text.decode()):
            json.dumps(value, ensure_ascii=False).encode()
    except InputError:
        raise
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.start + 1]
        raise InputError(
            f"{where} has {half!a}, which is half of a character. Complete or remove it."
        ) from error
    except RecursionError as error:
        raise InputError(f"{where} cannot be read as JSON: it is nested too deeply.") from error
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON: {error}.") from error
    return value


def _object(where: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, object]:
    """Return the JSON object of these pairs; raise InputError for equal names."""
    _require_distinct([name for name, _ in pairs], where)
    return dict(pairs)


_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def json_object(reply: str) -> dict[str, object] | None:
    """Return the JSON object in a reply; None if the reply contains anything except one object.

    Thoughts in tags before the object and a code fence around it are allowed. An object among words
    gives None, because it may be a quote from the model's input. An object with equal keys gives
    None, because it is ambiguous.
    """
    text = split_thought(reply)[1].strip()
    fenced = _FENCED.match(text)
    try:
        value = parse_json(fenced[1] if fenced else text, "the reply", distinct=True)
    except InputError:
        return None
    return value if isinstance(value, dict) else None


MOST = 1 << 20  # bytes; files written by hand are smaller


def read_yaml(path: Path) -> Json:
    """Return the content of a YAML file as lists, mappings and plain values, or raise InputError.

    Aliases raise InputError, because a few lines of aliases can expand to more than fits in memory.
    The file may have at most `MOST` bytes.
    """
    import yaml  # loads when a file is read

    try:
        if (size := path.stat().st_size) > MOST:
            raise InputError(f"`{path}` has {size:,} bytes, more than {MOST:,}. Shorten the file.")
    except OSError:
        pass  # the alias is reported where it is read
    try:
        value: Json = yaml.load(read_text(path), _plain_loader())
        return value
    except yaml.YAMLError as error:
        raise InputError(f"`{path}` is not valid YAML: {error}. Correct the file.") from error
    except RecursionError as error:
        raise InputError(f"`{path}` is nested too deeply. Use fewer levels.") from error


@cache
def _plain_loader() -> Any:
    import yaml

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        """A YAML loader that rejects aliases."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.MarkedYAMLError(
                    problem=f"an alias (*{event.anchor}) is not allowed: write its value instead",
                    problem_mark=event.start_mark,
                )
            return super().compose_node(parent, index)

    return Plain
