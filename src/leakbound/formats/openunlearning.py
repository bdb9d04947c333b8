"""Read and write the evaluation logs of OpenUnlearning, `*_EVAL.json` and `*_SUMMARY.json`.

For every metric, a log has an aggregate, `agg_value`, and values per row of the data,
`value_by_index`, such as losses, greedy answers or scores. A summary has only the aggregates. Some
metrics of `leakbound.metrics.METRICS` are in such logs, with one value per row. An entry of a log
may contain several of these metrics; the entry's aggregate is the average of one of these metrics.
The greedy answers of a log are imported as a baseline. A retrained model's log is the reference for
forget quality and privleak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from leakbound.errors import InputError
from leakbound.formats.rows import Json, SampleFile, SampleRow, is_number
from leakbound.metrics import Values, membership, utility
from leakbound.registry import suggestion
from leakbound.text.counting import output_of
from leakbound.text.rows import parse_json, read_text
from leakbound.text.shown import kind_of

T = TypeVar("T", str, float)

PREFIXES = {"forget": "forget", "retain": "retain", "real_authors": "ra", "world_facts": "wf"}
_FACTS = ("real_authors", "world_facts")
_ATTACKS = ("loss", "zlib", "reference", "min_k", "min_k_plus_plus")  # the same names as here


class Column(NamedTuple):
    """The place of a metric in a log: its entry, and the key of its value per row.

    `averaged` is True if the entry's `agg_value` is the average of this value.
    """

    entry: str
    key: str
    averaged: bool = True


Names = Mapping[str, Column]


def _rouge(ours: str, entry: str, averaged: str) -> dict[str, Column]:
    """Return the columns of three ROUGE scores of the greedy answers, by leakbound's name.

    The aggregate of the entry is the average of the key `averaged`.
    """
    keys = {
        "rouge_l_recall": "rougeL_recall",
        "rouge_l_f1": "rougeL_f1",
        "rouge_1_recall": "rouge1_recall",
    }
    return {f"{ours}_{name}": Column(entry, key, key == averaged) for name, key in keys.items()}


def _of_part(ours: str, its: str) -> dict[str, Column]:
    """Return the columns of the metrics of one part of TOFU, by leakbound's name."""
    truth = "forget_truth_ratio" if its == "forget" else f"{its}_Truth_Ratio"
    columns = {
        f"{ours}_probability": Column(f"{its}_Q_A_Prob", "prob"),
        f"{ours}_paraphrased_probability": Column(f"{its}_Q_A_PARA_Prob", "prob"),
        f"{ours}_perturbed_probability": Column(f"{its}_Q_A_PERT_Prob", "prob"),
        **_rouge(ours, f"{its}_Q_A_ROUGE", "rougeL_recall"),
        f"{ours}_paraphrased_rouge_l_recall": Column(f"{its}_Q_A_PARA_ROUGE", "rougeL_recall"),
        f"{ours}_perturbed_rouge_l_recall": Column(f"{its}_Q_A_PERT_ROUGE", "rougeL_recall"),
        f"{ours}_normalised_probability": Column(f"{its}_Q_A_Prob_normalised", "prob"),
        f"{ours}_truth_ratio": Column(truth, "score"),
    }
    lacking = "paraphrased" if ours in _FACTS else "normalised"
    return {name: column for name, column in columns.items() if lacking not in name}


_MEMORISED: Names = {
    "exact_memorisation": Column("exact_memorization", "score"),
    "extraction_strength": Column("extraction_strength", "score"),
}
_ATTACKED: Names = {
    **{f"membership_{attack}": Column(f"mia_{attack}", "score") for attack in _ATTACKS},
    "membership_gradient_norm": Column("mia_gradnorm", "score"),
    **{name: Column(name, "") for name in ("privleak", "rel_diff")},
}
TOFU: Names = {
    **{name: c for ours, its in PREFIXES.items() for name, c in _of_part(ours, its).items()},
    **_MEMORISED,
    **_ATTACKED,
    "forget_fluency": Column("forget_Q_A_gibberish", "score"),
    **{name: Column(name, "") for name in ("model_utility", "forget_quality")},
}
MUSE: Mapping[str, Names] = {
    "knowmem": {
        **_rouge("forget", "forget_knowmem_ROUGE", "rougeL_f1"),
        **_rouge("retain", "retain_knowmem_ROUGE", "rougeL_f1"),
    },
    "verbmem": {
        **_rouge("forget", "forget_verbmem_ROUGE", "rougeL_f1"),
        **_MEMORISED,
        "forget_fluency": Column("forget_gibberish", "score"),
    },
    "privleak": _ATTACKED,
}
"""The columns of metrics, by part of MUSE."""

ANSWERS: Mapping[str, str] = {
    **{part: f"{prefix}_Q_A_ROUGE" for part, prefix in PREFIXES.items()},
    "knowmem": "forget_knowmem_ROUGE",
    "retain_knowmem": "retain_knowmem_ROUGE",
    "verbmem": "forget_verbmem_ROUGE",
}
"""The entries with greedy answers, by the part of the questions."""


def names_of(benchmark: str) -> Names:
    """Return the columns of a benchmark's metrics: of MUSE for a part of MUSE, else of TOFU."""
    family, _, argument = benchmark.partition(":")
    return MUSE.get(argument.partition("-")[2], {}) if family == "muse" else TOFU


def part_of(benchmark: str) -> str:
    """Return the key in `ANSWERS` for a benchmark's questions; "forget" for other benchmarks."""
    family, _, argument = benchmark.partition(":")
    part = (argument.partition("-")[2] or "knowmem") if family == "muse" else argument
    return part if part in ANSWERS else "retain" if part.startswith("retain") else "forget"


@dataclass(frozen=True, slots=True)
class EvaluationLog:
    """The metrics of a log or a summary. Values are checked when they are accessed.

    The message of every InputError contains the file, the metric and, if known, the row.
    """

    path: Path
    metrics: Mapping[str, Json]

    def metric(self, name: str) -> Json:
        """Return the metric with this name in OpenUnlearning."""
        metric = self.metrics.get(name)
        if metric is None:
            raise InputError(
                f"{str(self.path)!r} has no metric {name!r}. {suggestion(name, self.metrics)} "
                "Evaluate the model again with this metric."
            )
        return metric

    def value(self, name: str) -> float:
        """Return the aggregate of a metric, a finite number."""
        return self._checked(name, "`agg_value`", self.metric(name).get("agg_value"), float)

    def column(self, name: str, key: str, kind: type[T]) -> dict[int, T]:
        """Return the values with the key `key` of a metric, by row: texts, or finite numbers."""
        entries = self.metric(name).get("value_by_index")
        if not entries:
            raise self.error(name, "no `value_by_index`", "Use the *_EVAL.json, not a summary")
        column: dict[int, T] = {}
        for row, entry in entries.items():
            if not row.isdecimal() or row != str(int(row)) or not isinstance(entry, dict):
                got = f"one object per row number is needed, got {kind_of(entry)} for {row!r}"
                raise self.error(name, got, "Use the row number of the data as the key")
            place = f"`{key}` in row {row}"
            column[int(row)] = self._checked(name, place, entry.get(key), kind)
        return column

    def _checked(self, name: str, place: str, value: object, kind: type[T]) -> T:
        if kind is float and is_number(value) and math.isfinite(value):
            return kind(value)
        if kind is not float and isinstance(value, kind):
            return value
        wanted = "a finite number" if kind is float else "a text"
        raise self.error(name, f"{place} is {kind_of(value)}, not {wanted}", "Evaluate it again")

    def error(self, name: str, fault: str, fix: str) -> InputError:
        """Return an error about a metric."""
        return InputError(f"metric {name!r} of {str(self.path)!r}: {fault}. {fix}.")


def read_log(path: Path) -> EvaluationLog:
    """Read a log or summary; raise InputError for a file without a JSON object of metrics."""
    content = parse_json(read_text(path), repr(str(path)))
    if not isinstance(content, dict) or not content:
        shown = kind_of(content) if content else "none"
        raise InputError(
            f"{str(path)!r} must be an object of metrics, got {shown}. Use a *_EVAL.json of "
            "OpenUnlearning."
        )
    logged = {k: v if isinstance(v, dict) else {"agg_value": v} for k, v in content.items()}
    return EvaluationLog(path, logged)  # a summary has the aggregates only


def read_answers(path: Path, part: str | None = None) -> SampleFile:
    """Read the greedy answers to a part in `ANSWERS` (None: the first part that the log has).

    The text of each question is the model's input with its template.
    """
    log = read_log(path)
    there = [part] if part else [key for key, entry in ANSWERS.items() if entry in log.metrics]
    name, *unread = there or ["forget"]
    keys = ("input", "ground_truth", "generation")
    prompts, right, texts = (log.column(ANSWERS[name], key, str) for key in keys)
    return SampleFile(
        path=path,
        tool="OpenUnlearning",
        task=name,
        rows=[
            SampleRow(
                id=str(i), question=prompts[i], answers=(right[i],), output=output_of(texts[i])
            )
            for i in prompts
        ],
        stated={"temperature": 0.0},
        note=f"answers of `{path.name}` to {', '.join(unread)} are not imported" if unread else "",
    )


def against_log(metrics: Mapping[str, Values], retrained: EvaluationLog) -> dict[str, Values]:
    """Return the metrics that compare a model with a retrained model, if the log has their data.

    The reference is the truth ratios and the AUC in the log, as in OpenUnlearning. Raises
    InputError for a log about other rows.
    """
    values = {}
    if ratios := metrics.get("forget_truth_ratio"):
        ours = dict(zip(rows(ratios.by_item), ratios.by_item.values(), strict=True))
        entry, key, _ = TOFU["forget_truth_ratio"]
        logged = retrained.column(entry, key, float)
        if odd := {*ours} ^ {*logged}:
            fault = (
                f"{len(logged)} rows, but the evaluated model has {len(ours)}; only one of the "
                f"models has row {min(odd)}"
            )
            raise retrained.error(entry, fault, "Evaluate both models on the same forget set")
        quality = utility.forget_quality([*ours.values()], [*logged.values()])
        values["forget_quality"] = Values(quality)
    auc = metrics.get("membership_min_k", Values(None)).value
    if auc is not None:
        theirs = retrained.value(TOFU["membership_min_k"].entry)
        values["privleak"] = Values(membership.privleak(auc, theirs))
        values["rel_diff"] = Values(membership.rel_diff(auc, theirs))
    return values


def as_log(
    metrics: Mapping[str, Values], forget: Collection[str], names: Names = TOFU
) -> dict[str, dict[str, object]]:
    """Return the contents of `*_EVAL.json` from the metrics of one model, by leakbound's names.

    `forget` contains the ids of the forget set; all other prompts of a membership attack are the
    holdout set. The number of a row is the number at the end of its id, or its place if some id has
    no number. A metric that is not in `names` is left out. A number that is not finite raises
    InputError.
    """
    log: dict[str, dict[str, object]] = {}
    averaged = {column.entry: name for name, column in names.items() if column.averaged}
    for entry in sorted(averaged, key=str.lower):
        if (name := averaged[entry]) not in metrics:
            continue
        columns = {
            column.key: metrics[other]
            for other, column in names.items()
            if column.entry == entry and other in metrics
        }
        for key, values in columns.items():
            _require_finite(f"{name}, {key}" if len(columns) > 1 else name, values)
        if name.startswith("membership_"):
            log[entry] = _attack(metrics[name], names[name].key, forget)
        else:
            log[entry] = {"agg_value": metrics[name].value, **_entries(columns)}
    return log


def as_summary(log: Mapping[str, Mapping[str, object]]) -> dict[str, float]:
    """Return the contents of the `*_SUMMARY.json` of a log: its aggregates."""
    values = {name: entry["agg_value"] for name, entry in log.items()}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def rows(ids: Iterable[str]) -> list[int]:
    """Return the row number of each id: the number at the id's end, or else the id's place."""
    ends = [re.search(r"\d+$", id) for id in ids]
    numbers = [int(end.group()) for end in ends if end]
    return numbers if len(ends) == len({*numbers}) else [*range(len(ends))]


def _entries(columns: Mapping[str, Values]) -> dict[str, object]:
    """Return `value_by_index`: the values of every row by key; empty without values per row."""
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
    by_item = [(repr(id), value) for id, value in values.by_item.items()]
    for place, value in [("its aggregate", values.value), *by_item]:
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name} is {value} for {place}. Evaluate it again, then export.")
