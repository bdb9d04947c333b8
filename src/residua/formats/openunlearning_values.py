"""From what a log of OpenUnlearning holds of single rows to its metrics, by our own functions.

So parity is tested without a model, and a log stands in for one: its greedy answers are a
baseline, and a retrained model's log is the reference of forget quality and privleak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from residua import metrics
from residua.errors import InputError
from residua.formats.openunlearning import FACTS, NAMES, PREFIXES, Log, rows
from residua.metrics import RECALL_TERMS, UTILITY_TERMS, Values
from residua.registry import suggestion
from residua.text.rouge import rouge_l


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """A model's greedy answer to the question of one row; `prompt` is all that it was shown."""

    prompt: str
    answer: str
    text: str

    @property
    def recall(self) -> float:
        """ROUGE-L recall, as this package computes it."""
        return float(rouge_l([self.text], self.answer).recall[0])


def greedy_answers(log: Log, part: str) -> dict[int, GreedyAnswer]:
    """The greedy answers to a part ("forget", "retain", "real_authors", "world_facts"), by row."""
    name = f"{PREFIXES[part]}_Q_A_ROUGE"
    columns = [log.texts(name, key) for key in ("input", "ground_truth", "generation")]
    return {row: GreedyAnswer(*(column[row] for column in columns)) for row in columns[0]}


def recompute(name: str, log: Log, retrained: Log | None = None) -> Values:
    """A metric of `METRICS` from the entries of a log, each value under its row number.

    Of an attack the rows are "forget/0", "holdout/0" and so on. Forget quality and privleak
    compare with the log of the retrained model, and have no value without. InputError where the
    log has no row-wise values to make the metric of.
    """
    if name in _AGAINST:
        needed, compare = _AGAINST[name]
        return Values(None) if retrained is None else compare(recompute(needed, log), retrained)
    if name not in _RECOMPUTED:
        known = [*_RECOMPUTED, *_AGAINST]
        raise InputError(f"no log tells {name!r}. {suggestion(name, known)}")
    return _RECOMPUTED[name](log)


def against_log(found: Mapping[str, Values], retrained: Log) -> dict[str, Values]:
    """Forget quality and privleak of a model, as far as its metrics `found` allow.

    The log's stored truth ratios and AUC are the reference, which is how OpenUnlearning reads it.
    """
    return {
        name: compare(found[needed], retrained)
        for name, (needed, compare) in _AGAINST.items()
        if needed in found
    }


def _forget_quality(ours: Values, retrained: Log) -> Values:
    name, key = NAMES["forget_truth_ratio"]
    theirs = retrained.numbers(name, key)
    if odd := {*rows(ours.by_item)} ^ {*theirs}:
        raise retrained.error(
            name,
            f"{len(theirs)} rows, where the evaluated model has {len(ours.by_item)}; row "
            f"{min(odd)} is in one of them only",
            "Evaluate both models on the same forget set",
        )
    return Values(metrics.forget_quality([*ours.by_item.values()], [*theirs.values()]))


def _privleak(ours: Values, retrained: Log) -> Values:
    theirs = retrained.value(NAMES["membership_min_k"][0])
    return Values(None if ours.value is None else metrics.privleak(ours.value, theirs))


def _stored(name: str, log: Log) -> Values:
    """The mean of what the log holds of every row."""
    return _mean(log.numbers(*NAMES[name]))


def _rouge(part: str, log: Log) -> Values:
    return _mean({row: answer.recall for row, answer in greedy_answers(log, part).items()})


def _truth_ratio(part: str, log: Log) -> Values:
    prefix = PREFIXES[part]
    right = f"{prefix}_Q_A_Prob" if part in FACTS else f"{prefix}_Q_A_PARA_Prob"
    ratios = _right_and_wrong(
        log, right, f"{prefix}_Q_A_PERT_Prob", "avg_loss", metrics.truth_ratio_of
    )
    aggregate = metrics.forget_truth_ratio if part == "forget" else metrics.utility_truth_ratio
    return Values(aggregate([*ratios.values()]), _by_item(ratios))


def _normalised(part: str, log: Log) -> Values:
    prefix = PREFIXES[part]
    right, wrong = f"{prefix}_Q_A_Prob", f"{prefix}_Q_A_PERT_Prob"
    return _mean(_right_and_wrong(log, right, wrong, "prob", metrics.normalised_probability))


def _right_and_wrong(
    log: Log, right: str, wrong: str, key: str, compare: Callable[[float, list[float]], float]
) -> dict[int, float]:
    """The right answer of every row compared with its wrong ones."""
    rights, wrongs = log.numbers(right, key), log.lists(wrong, key)
    if odd := {*rights} ^ {*wrongs}:
        what = f"{len(wrongs)} rows, where {right!r} has {len(rights)}; row {min(odd)} is in one"
        raise log.error(wrong, what, "Evaluate both on the same rows")
    return {row: compare(rights[row], wrongs[row]) for row in rights}


def _attack(name: str, log: Log) -> Values:
    its, key = NAMES[name]
    forget, holdout = (log.numbers(its, key, part) for part in ("forget", "holdout"))
    return Values(
        metrics.auc([*forget.values()], [*holdout.values()]),
        _by_item(forget, "forget/") | _by_item(holdout, "holdout/"),
    )


def _of_terms(
    combine: Callable[[Mapping[str, float]], float], terms: tuple[str, ...], log: Log
) -> Values:
    found = {name: recompute(name, log).value for name in terms}
    return Values(combine({name: each for name, each in found.items() if each is not None}))


def _mean(values: Mapping[int, float]) -> Values:
    return Values(float(np.mean([*values.values()])), _by_item(values))


def _by_item(values: Mapping[int, float], prefix: str = "") -> dict[str, float]:
    return {f"{prefix}{row}": value for row, value in values.items()}


_RECOMPUTED: dict[str, Callable[[Log], Values]] = {
    **{f"{part}_rouge_l_recall": partial(_rouge, part) for part in PREFIXES},
    **{f"{part}_truth_ratio": partial(_truth_ratio, part) for part in PREFIXES},
    **{f"{part}_normalised_probability": partial(_normalised, part) for part in FACTS},
    **{
        name: partial(_stored, name)
        for name in (
            *(f"{part}_probability" for part in PREFIXES),
            *("exact_memorisation", "extraction_strength"),
        )
    },
    **{name: partial(_attack, name) for name in NAMES if name.startswith("membership_")},
    "model_utility": partial(_of_terms, metrics.model_utility, UTILITY_TERMS),
    "r_avg": partial(_of_terms, metrics.r_avg, RECALL_TERMS),
}
_AGAINST: dict[str, tuple[str, Callable[[Values, Log], Values]]] = {
    "forget_quality": ("forget_truth_ratio", _forget_quality),
    "privleak": ("membership_min_k", _privleak),
}
