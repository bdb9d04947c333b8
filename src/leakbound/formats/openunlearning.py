"""OpenUnlearning's evaluation logs, `*_EVAL.json` and `*_SUMMARY.json`, read and written.

A log has for every metric an aggregate, `agg_value`, and what it was made from by the row of the
data, `value_by_index`: losses, greedy answers, scores. A summary has the aggregates alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.formats.imported import is_number
from leakbound.formats.openunlearning_names import TOFU, Names
from leakbound.metrics import Values
from leakbound.registry import suggestion
from leakbound.text.rows import parse_json, read_text


@dataclass(frozen=True, slots=True)
class LoggedMetric:
    """One metric of a log: its aggregate, its entries by row, and its parts (forget, holdout)."""

    value: float | None
    by_index: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    parts: Mapping[str, LoggedMetric] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluationLog:
    """The metrics of a log or a summary. What is missing or no number is refused when asked for.

    Every InputError names the file, the metric and, where there is one, the row.
    """

    path: Path
    metrics: Mapping[str, LoggedMetric]

    def metric(self, name: str, part: str = "") -> LoggedMetric:
        """A metric by OpenUnlearning's name, or its part."""
        found = self.metrics.get(name)
        if found is None:
            raise InputError(
                f"{str(self.path)!r} has no metric {name!r}. {suggestion(name, self.metrics)} "
                "Evaluate the model with it too."
            )
        if part and part not in found.parts:
            raise self.error(name, f"no part {part!r}", "Give the *_EVAL.json, not a summary")
        return found.parts[part] if part else found

    def value(self, name: str) -> float:
        """The aggregate of a metric, a finite number."""
        return self._number(self.metric(name).value, name, "`agg_value`")

    def numbers(self, name: str, key: str, part: str = "") -> dict[int, float]:
        """What the entries of a metric hold under `key`, by row: a finite number each."""
        columns = self._columns(name, key, part)
        return {row: self._number(found, name, place) for row, place, found in columns}

    def lists(self, name: str, key: str) -> dict[int, list[float]]:
        """As `numbers`, where every entry holds a list of them."""
        lists = {}
        for row, place, found in self._columns(name, key):
            if not isinstance(found, list) or not found:
                what = f"{place} is no list of numbers but {found!r}"
                raise self.error(name, what, "Evaluate every row with all perturbed answers")
            lists[row] = [self._number(each, name, place) for each in found]
        return lists

    def means(self, name: str, key: str) -> dict[str, float]:
        """The mean of what each row holds under `key`, a number or several, by row.

        Rows that hold None there are left out, as OpenUnlearning leaves them out.
        """
        return {
            str(row): math.fsum(self._number(one, name, place) for one in each) / len(each)
            for row, place, found in self._columns(name, key)
            if found is not None
            for each in [_several(found)]
        }

    def text_lists(self, name: str, key: str) -> dict[str, list[str]]:
        """The text or the texts that each row holds under `key`, by row."""
        return {
            str(row): [self._text(one, name, place) for one in _several(found)]
            for row, place, found in self._columns(name, key)
        }

    def texts(self, name: str, key: str) -> dict[int, str]:
        """As `numbers`, where every entry holds a text."""
        columns = self._columns(name, key)
        return {row: self._text(found, name, place) for row, place, found in columns}

    def error(self, name: str, what: str, remedy: str) -> InputError:
        """What is wrong with a metric, to be raised."""
        return InputError(f"metric {name!r} of {str(self.path)!r}: {what}. {remedy}.")

    def _columns(self, name: str, key: str, part: str = "") -> Iterator[tuple[int, str, Any]]:
        """Each row with where `key` stands in it, in words, and what it holds there."""
        entries = self.metric(name, part).by_index
        if not entries:
            raise self.error(name, "no `value_by_index`", "Give the *_EVAL.json, not a summary")
        for row, entry in entries.items():
            if key not in entry:
                raise self.error(name, f"no `{key}` in row {row}", "Evaluate that row again")
            yield row, f"`{key}` in row {row}", entry[key]

    def _number(self, found: Any, name: str, place: str) -> float:
        if not is_number(found) or not math.isfinite(found):
            what = f"{place} is {found!r}, not a finite number"
            raise self.error(name, what, "Evaluate it again")
        return float(found)

    def _text(self, found: Any, name: str, place: str) -> str:
        if not isinstance(found, str):
            raise self.error(name, f"{place} is no text but {found!r}", "Evaluate that row again")
        return found


def _several(found: Any) -> list[Any]:
    """The values of a row that holds one or several."""
    return found if isinstance(found, list) and found else [found]


def read_log(path: Path) -> EvaluationLog:
    """The log or summary in a file.

    InputError for a file that is not a JSON object of metrics, and for a metric whose entries
    have something else than row numbers for keys.
    """
    found = read_object(path)
    return EvaluationLog(path, {name: _logged(path, name, entry) for name, entry in found.items()})


def read_object(path: Path) -> dict[str, object]:
    """The JSON object of metrics, or of tasks, in a file; InputError where there is none."""
    found = parse_json(read_text(path), repr(str(path)))
    if not isinstance(found, dict) or not found:
        raise InputError(
            f"{str(path)!r} must be an object of metrics, got {str(found)[:40]!r}. "
            "Give a *_EVAL.json of OpenUnlearning."
        )
    return found


def _logged(path: Path, name: str, entry: Any) -> LoggedMetric:
    if entry is None or isinstance(entry, int | float):
        return LoggedMetric(entry)
    if not isinstance(entry, dict) or "agg_value" not in entry:
        raise InputError(
            f"metric {name!r} of {str(path)!r} has no `agg_value`. "
            "Give a *_EVAL.json or *_SUMMARY.json of OpenUnlearning."
        )
    by_index: dict[int, Mapping[str, object]] = {}
    for key, values in entry.get("value_by_index", {}).items():
        if not key.isdecimal() or int(key) in by_index or not isinstance(values, dict):
            raise InputError(
                f"metric {name!r} of {str(path)!r} must have one object for each row number, got "
                f"{str(values)[:40]!r} for {key!r}. Key every entry by the row of the data alone."
            )
        by_index[int(key)] = values
    parts = {
        part: _logged(path, f"{name}, {part}", found)
        for part, found in entry.items()
        if isinstance(found, dict) and part != "value_by_index"
    }
    return LoggedMetric(entry["agg_value"], by_index, parts)


def as_log(
    found: Mapping[str, Values], forget: Collection[str], names: Names = TOFU
) -> dict[str, dict[str, object]]:
    """What `*_EVAL.json` holds, from the metrics of one model by our names.

    `forget`: the ids of the forget set; an attack's other prompts are its holdout part. Rows are
    numbered as the ids end, or in order where not all end in numbers. A metric that is not among
    `names` is left out; a number that is not finite raises InputError.
    """
    log: dict[str, dict[str, object]] = {}
    averaged = {column.entry: name for name, column in names.items() if column.averaged}
    for entry in sorted(averaged, key=str.lower):
        if (name := averaged[entry]) not in found:
            continue
        columns = {
            column.key: found[other]
            for other, column in names.items()
            if column.entry == entry and other in found
        }
        for key, values in columns.items():
            _require_finite(f"{name}, {key}" if len(columns) > 1 else name, values)
        if name.startswith("membership_"):
            log[entry] = _attack(found[name], names[name].key, forget)
        else:
            log[entry] = {"agg_value": found[name].value, **_entries(columns)}
    return log


def as_summary(log: Mapping[str, Mapping[str, object]]) -> dict[str, float]:
    """What `*_SUMMARY.json` holds beside a log: the aggregates that there are."""
    values = {name: entry["agg_value"] for name, entry in log.items()}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def rows(ids: Iterable[str]) -> list[int]:
    """The row of the data that each id names: the number it ends in, or else its place."""
    ends = [re.search(r"\d+$", id) for id in ids]
    numbers = [int(end.group()) for end in ends if end]
    return numbers if len(ends) == len({*numbers}) else [*range(len(ends))]


def _entries(columns: Mapping[str, Values]) -> dict[str, object]:
    """The values of every row under their keys; nothing for a metric that no row has one of."""
    by_row: dict[str, dict[str, float]] = {}
    for key, values in columns.items():
        for row, value in zip(rows(values.by_item), values.by_item.values(), strict=True):
            by_row.setdefault(str(row), {})[key] = value
    return {"value_by_index": by_row} if by_row else {}


def _attack(values: Values, key: str, forget: Collection[str]) -> dict[str, object]:
    sides: dict[str, dict[str, float]] = {"forget": {}, "holdout": {}}
    for id, score in values.by_item.items():
        sides["forget" if id in forget else "holdout"][id] = score
    parts: dict[str, object] = {
        side: {
            "agg_value": sum(scores.values()) / len(scores),
            **_entries({key: Values(None, scores)}),
        }
        for side, scores in sides.items()
        if scores
    }
    return {**parts, "auc": values.value, "agg_value": values.value}


def _require_finite(name: str, values: Values) -> None:
    found = {
        "its aggregate": values.value,
        **{repr(id): each for id, each in values.by_item.items()},
    }
    for place, value in found.items():
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name} has {value} for {place}. Measure it again, then export.")
