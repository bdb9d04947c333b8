"""Is a log of OpenUnlearning what its own rows make it? Every aggregate made anew from them.

`LMEval_EVAL.json` is what lm-evaluation-harness scored, sample by sample. By task or group that was
asked for, the log has the samples of each task in it; a sample has the value of every metric, under
one filter. The aggregates stand in `LMEval_SUMMARY.json` alone, as `group/metric` and
`group/metric_stderr`; of several filters it has the last one's.

They are made anew as lm-evaluation-harness makes them: the mean over a task's samples, and over the
tasks of a group the mean weighted by their sizes, or of their means; the standard error of a mean,
and the pooled one. What is no mean of numbers (a perplexity, a BLEU) is not made anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.formats.imported import is_number
from leakbound.formats.openunlearning import EvaluationLog, read_log, read_object
from leakbound.formats.openunlearning_values import TOLERANCE, Remade, remake, same

SINGLE = 1e-6  # relative: OpenUnlearning averages some scores of attacks in float32
MAY_BE_NONE = ("forget_quality",)  # as OpenUnlearning writes it without a retrained model

Verdict = Literal["same", "differs", "damaged", "not made anew"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A number that a log stores, and the same made anew from its rows.

    `how` says of what, or what is lacking or damaged. `odd`: rows of which the stored value is not
    what the rest of the log makes it; the aggregate is then that of the rows made anew.
    """

    entry: str
    stored: float | None
    found: float | None
    how: str
    verdict: Verdict
    odd: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """False where a value differs, or a row is damaged."""
        return self.verdict in ("same", "not made anew")


def check_log(
    log: EvaluationLog, retrained: EvaluationLog | None = None, summary: EvaluationLog | None = None
) -> list[Checked]:
    """Every aggregate of a log, in its order, and those of the parts of attacks; then the summary.

    `retrained`: the log that forget quality, privleak and rel_diff compare with. InputError where
    the log has no row of anything, as a summary has not: there is nothing to make anew.
    """
    if not any(entry.by_index or entry.parts for entry in log.metrics.values()):
        raise InputError(
            f"`{log.path}` holds no row of any metric, so nothing can be made anew. Name the "
            "*_EVAL.json; the *_SUMMARY.json beside it is compared too."
        )
    found = [checked for entry in log.metrics for checked in _checked(entry, log, retrained)]
    return [*found, *(() if summary is None else _summarised(found, summary))]


def _checked(entry: str, log: EvaluationLog, retrained: EvaluationLog | None) -> Iterator[Checked]:
    logged = log.metric(entry)
    try:
        yield compared(entry, logged.value, remake(entry, log, retrained))
        for part in logged.parts:
            made = float(np.mean([*log.numbers(entry, "score", part).values()]))
            how = Remade(value=made, how="mean score")
            yield compared(f"{entry}, {part}", logged.parts[part].value, how, SINGLE)
    except InputError as error:
        yield Checked(
            entry=entry, stored=logged.value, found=None, how=str(error), verdict="damaged"
        )


def compared(
    entry: str, stored: float | None, made: Remade, tolerance: float = TOLERANCE
) -> Checked:
    """A stored number beside the one made anew."""
    agrees = same(stored, made.value, tolerance) and not made.odd
    verdict: Verdict = "same" if agrees else "differs"
    if made.value is None or (stored is None and entry in MAY_BE_NONE):
        verdict = "not made anew"
    return Checked(
        entry=entry,
        stored=stored,
        found=made.value,
        how=made.how,
        verdict=verdict,
        odd=made.odd,
    )


def _summarised(found: list[Checked], summary: EvaluationLog) -> Iterator[Checked]:
    """The numbers of a summary against those made anew, or else against those of the log."""
    known = {checked.entry: checked for checked in found}
    for entry, logged in summary.metrics.items():
        checked = known.get(entry)
        of_log = None if checked is None else checked.stored
        made = of_log if checked is None or checked.found is None else checked.found
        how = Remade(value=made, how="the log" if made is not None else "an entry of the log")
        yield compared(f"summary: {entry}", logged.value, how)


Samples: TypeAlias = Mapping[str, Sequence[Mapping[str, object]]]
"""The samples of every task of a group."""

_ERROR = "_stderr"
_NO_FILTER = "none"


def holds_samples(found: Mapping[str, object]) -> bool:
    """True if this is such a log: every entry has lists of samples by task."""
    return all(
        isinstance(group, dict) and group and all(isinstance(each, list) for each in group.values())
        for group in found.values()
    )


def check_samples(path: Path, summary: Path) -> list[Checked]:
    """Every number of a summary beside the same made anew from the samples of the log.

    A number of a task that the log has no samples of is not made anew, and said so. InputError
    where there is no summary: the log itself has no aggregate.
    """
    if not summary.is_file():
        raise InputError(
            f"`{path}` holds samples and no aggregate, and `{summary.name}` is not beside it. Put "
            "both into one folder."
        )
    groups = cast("Mapping[str, Samples]", read_object(path))  # as `holds_samples` saw
    return [
        _checked_samples(name, stored, groups, path)
        for name, stored in read_object(summary).items()
    ]


def _checked_samples(name: str, stored: Any, groups: Mapping[str, Samples], path: Path) -> Checked:
    group, _, metric = name.rpartition("/")
    if not is_number(stored):  # lm-evaluation-harness writes N/A for an error that it cannot tell
        return compared(name, None, Remade(value=None, how=f"no number but {stored!r}"))
    if group not in groups:
        return compared(name, stored, Remade(value=None, how=f"samples of {group!r}: it has none"))
    try:
        ways = list(_ways(metric, groups[group]))
    except InputError as error:
        damaged = f"{path.name}, {error}"
        return Checked(entry=name, stored=stored, found=None, how=damaged, verdict="damaged")
    nothing = Remade(value=None, how=f"samples with one number for {metric!r}, which it has not")
    made = next((way for way in ways if same(way.value, stored)), [*ways, nothing][0])
    return compared(name, stored, made)


def _ways(metric: str, group: Samples) -> Iterator[Remade]:
    """What a metric of a group may be: by filter, the last one first, and by the groups' rule."""
    is_error = metric.endswith(_ERROR)
    name = metric.removesuffix(_ERROR)
    for filtered in reversed(_filters(group)):
        found = (_numbers(task, name, filtered, samples) for task, samples in group.items())
        tasks = [each for each in found if each is not None]
        if not tasks:
            continue
        of = f"{name}, filter {filtered}" if filtered != _NO_FILTER else name
        if is_error and all(len(each) > 1 for each in tasks):
            yield Remade(value=_pooled_error(tasks), how=f"standard error of mean {of}")
        elif not is_error:
            yield Remade(value=float(np.mean(np.concatenate(tasks))), how=f"mean {of}")
            means = [float(each.mean()) for each in tasks]
            yield Remade(value=float(np.mean(means)), how=f"mean {of} of {len(means)} tasks")


def _filters(group: Samples) -> list[str]:
    """The filters of a group's samples, in the order in which they were applied."""
    return list(
        dict.fromkeys(
            str(sample.get("filter", _NO_FILTER))
            for samples in group.values()
            for sample in samples
            if isinstance(sample, dict)
        )
    )


def _numbers(
    task: str, metric: str, filtered: str, samples: Sequence[Mapping[str, object]]
) -> NDArray[np.float64] | None:
    """The metric of every sample of a task under a filter; None where it is no one number."""
    found: list[float] = []
    for place, sample in enumerate(samples):
        if not isinstance(sample, dict):
            raise InputError(f"{task}, sample {place} is no object. Evaluate the task again.")
        if str(sample.get("filter", _NO_FILTER)) != filtered:
            continue
        value = sample.get(metric)
        if not isinstance(value, int | float):
            if not found:  # another kind of metric, or one of other tasks
                return None
            raise InputError(
                f"{task}, sample {place} has {value!r} for {metric!r}, where others have a number. "
                "Evaluate the task again."
            )
        if not math.isfinite(value):
            raise InputError(f"{task}, sample {place} has {value} for {metric!r}.")
        found.append(float(value))
    return np.array(found) if found else None


def _pooled_error(tasks: Sequence[NDArray[np.float64]]) -> float:
    """Of the mean over all samples, from the variance within tasks: s / sqrt(n) for one task."""
    within = sum(float(each.var(ddof=1)) * (len(each) - 1) for each in tasks)
    n = sum(map(len, tasks))
    return math.sqrt(within / (n - len(tasks)) / n)


_EVAL, _SUMMARY = "_EVAL.json", "_SUMMARY.json"


def recompute(log: str | Path, retrained: str | Path | None = None) -> list[Checked]:
    """Make every aggregate of an OpenUnlearning log anew from the values of its rows.

    The *_SUMMARY.json beside it is compared too. Returns what was stored and found of each entry.

    Args:
        log: a *_EVAL.json of TOFU, MUSE, lm-evaluation-harness or metrics of your own.
        retrained: the retrained model's log, for forget quality and privleak.
    """
    path = Path(log)
    beside = path.with_name(path.name.removesuffix(_EVAL) + _SUMMARY)
    if holds_samples(read_object(path)):
        return check_samples(path, beside)
    summary = read_log(beside) if path.name.endswith(_EVAL) and beside.is_file() else None
    reference = None if retrained is None else read_log(Path(retrained))
    return check_log(read_log(path), reference, summary)
