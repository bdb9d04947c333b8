"""From what a log of OpenUnlearning holds of single rows to its aggregates, by our own functions.

So parity is tested without a model, anybody's log can be checked, and a log stands in for a model:
its greedy answers are a baseline, and a retrained model's log is the reference of forget quality
and privleak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion
from leakbound.formats.openunlearning import EvaluationLog, read_log, rows
from leakbound.formats.openunlearning_names import ANSWERS, FACTS, MUSE, PREFIXES, TOFU
from leakbound.metrics import Values, likelihood, membership, utility
from leakbound.metrics.utility import UTILITY_TERMS
from leakbound.text.rouge import Rouge, has_rouge_words, rouge_1, rouge_l

TOLERANCE = 1e-9  # relative: of float64 summed in another order
_ROUGE: dict[str, Callable[[str, str], float]] = {
    "rougeL_recall": lambda text, answer: _rouge_of(rouge_l, text, answer, "recall"),
    "rougeL_f1": lambda text, answer: _rouge_of(rouge_l, text, answer, "f1"),
    "rouge1_recall": lambda text, answer: _rouge_of(rouge_1, text, answer, "recall"),
}
_F1 = {column.entry for names in MUSE.values() for column in names.values() if column.averaged}
_SINGLE = ("prob", "score")


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """A model's greedy answer to the question of one row; `prompt` is all that it was shown."""

    prompt: str
    answer: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remade:
    """An aggregate made anew, `how`, from the values of the rows.

    `value` is None where nothing can be made of what the log holds, and `how` says what is
    lacking. `odd`: the rows whose stored value is not what the rest of the log makes it.
    """

    value: float | None
    how: str
    by_row: Mapping[str, float] | None = None
    odd: tuple[str, ...] = ()


def same(one: float | None, other: float | None, tolerance: float = TOLERANCE) -> bool:
    """True if both are there and equal up to a relative rounding, or neither is."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-12)


def greedy_answers(log: EvaluationLog, part: str) -> dict[int, GreedyAnswer]:
    """The greedy answers to a part, one of `ANSWERS`, by row."""
    columns = [log.texts(ANSWERS[part], key) for key in ("input", "ground_truth", "generation")]
    return {row: GreedyAnswer(*(column[row] for column in columns)) for row in columns[0]}


def remake(entry: str, log: EvaluationLog, retrained: EvaluationLog | None = None) -> Remade:
    """The aggregate of an entry of the log, from its rows or from those it is made of.

    Where OpenUnlearning has several ways to make it (an aggregator of truth ratios, a type of
    ROUGE, a reference), it is the usual one unless only another gives what is stored. Forget
    quality, privleak and rel_diff compare with the log of the retrained model, the latter two
    without one with an AUC of 1/2. InputError names what is damaged.
    """
    logged = log.metric(entry)
    if entry in _OF_OTHERS:
        return _OF_OTHERS[entry](log, retrained)
    if entry.casefold().endswith("_truth_ratio"):
        return _truth_ratio(entry, log)
    if entry.endswith("_Prob_normalised"):
        return _normalised(entry, log)
    if {"forget", "holdout"} <= logged.parts.keys():
        return _attack(entry, log)
    if not logged.by_index:
        return Remade(value=None, how="no rows, so only a number to take on trust")
    keys = next(iter(logged.by_index.values())).keys()
    if keys & _ROUGE.keys():
        return _rouge(entry, log, [key for key in _ROUGE if key in keys])
    single = next((key for key in _SINGLE if key in keys), None)
    if single is None:
        return Remade(value=None, how=f"rows that hold only {', '.join(sorted(keys)) or 'nothing'}")
    return _mean(f"mean {single}", log.means(entry, single))


def against_log(found: Mapping[str, Values], retrained: EvaluationLog) -> dict[str, Values]:
    """What compares a model with a retrained one, as far as its metrics `found` allow.

    The log's stored truth ratios and AUC are the reference, which is how OpenUnlearning reads it.
    """
    made = {}
    if ratios := found.get("forget_truth_ratio"):
        ours = dict(zip(rows(ratios.by_item), ratios.by_item.values(), strict=True))
        made["forget_quality"] = Values(_quality(ours, retrained))
    auc = found.get("membership_min_k", Values(None)).value
    if auc is not None:
        theirs = retrained.value(TOFU["membership_min_k"].entry)
        made["privleak"] = Values(membership.privleak(auc, theirs))
        made["rel_diff"] = Values(membership.rel_diff(auc, theirs))
    return made


def _mean(how: str, by_row: Mapping[str, float], odd: Sequence[str] = ()) -> Remade:
    value = float(np.mean([*by_row.values()])) if by_row else None
    return Remade(value=value, how=how, by_row=by_row, odd=tuple(odd))


def _nearest(stored: float | None, ways: Sequence[Remade]) -> Remade:
    """The first way that gives what is stored, or else the first."""
    return next((way for way in ways if same(way.value, stored)), ways[0])


def _rouge_of(family: Callable[[list[str], str], Rouge], text: str, answer: str, of: str) -> float:
    """As `rouge-score` has it: 0 for an answer in which it finds no word."""
    return float(getattr(family([text], answer), of)[0]) if has_rouge_words(answer) else 0.0


def _rouge(entry: str, log: EvaluationLog, keys: Sequence[str]) -> Remade:
    """From the texts where the log has them, else from the rows' own scores."""
    stored = {key: log.means(entry, key) for key in keys}
    first = next(iter(log.metric(entry).by_index.values()))
    made, told = stored, "rows' "
    if {"generation", "ground_truth"} <= first.keys():
        texts = log.text_lists(entry, "generation"), log.text_lists(entry, "ground_truth")
        made, told = {key: _scored(_ROUGE[key], *texts) for key in keys}, ""
    odd = [row for row in stored[keys[0]] if any(_odd(row, made[k], stored[k]) for k in keys)]
    usual = "rougeL_f1" if entry in _F1 else "rougeL_recall"
    order = sorted(keys, key=lambda key: key != usual)
    ways = [_mean(f"mean {told}{key}", made[key], odd) for key in order]
    return _nearest(log.metric(entry).value, ways)


def _scored(
    score: Callable[[str, str], float],
    texts: Mapping[str, list[str]],
    right: Mapping[str, list[str]],
) -> dict[str, float]:
    return {
        row: float(
            np.mean([score(text, answer) for text, answer in zip(mine, right[row], strict=True)])
        )
        for row, mine in texts.items()
    }


def _odd(row: str, made: Mapping[str, float], stored: Mapping[str, float]) -> bool:
    return not same(made.get(row), stored.get(row))


def _truth_ratio(entry: str, log: EvaluationLog) -> Remade:
    """From the losses of right and wrong answers, where the log has them, else from its rows."""
    prefix = entry[: -len("_truth_ratio")]
    usual = likelihood.forget_truth_ratio if prefix == "forget" else likelihood.utility_truth_ratio
    right = f"{prefix}_Q_A_Prob" if prefix in _FACTS else f"{prefix}_Q_A_PARA_Prob"
    wrong = f"{prefix}_Q_A_PERT_Prob"
    stored = log.means(entry, "score") if log.metric(entry).by_index else {}
    if _has_key(log, right, "avg_loss") and _has_key(log, wrong, "avg_loss"):
        ratios = _right_and_wrong(log, right, wrong, "avg_loss", likelihood.truth_ratio_of)
        shares = _right_and_wrong(log, right, wrong, "avg_loss", likelihood.truth_probability_of)
    elif stored:
        ratios = shares = stored
    else:
        return Remade(value=None, how=f"neither rows nor the losses of {right} and {wrong}")
    ways = [
        Remade(
            value=aggregate([*made.values()]),
            how=how,
            by_row=made,
            odd=tuple(row for row in stored if _odd(row, made, stored)),
        )
        for how, made, aggregate in (
            ("truth ratio", ratios, usual),
            ("truth ratio, prob_mean", shares, lambda values: float(np.mean(values))),
            ("truth ratio, true_better", ratios, likelihood.utility_truth_ratio),
            ("truth ratio, closer_to_1_better", ratios, likelihood.forget_truth_ratio),
        )
    ]
    return _nearest(log.metric(entry).value, ways)


_FACTS = {PREFIXES[part] for part in FACTS}


def _normalised(entry: str, log: EvaluationLog) -> Remade:
    right = entry.removesuffix("_normalised")
    wrong = right.replace("_Q_A_Prob", "_Q_A_PERT_Prob")
    stored = log.means(entry, "prob") if log.metric(entry).by_index else {}
    if not (_has_key(log, right, "prob") and _has_key(log, wrong, "prob")):
        return _mean("mean rows' prob", stored)
    made = _right_and_wrong(log, right, wrong, "prob", likelihood.normalised_probability)
    odd = [row for row in stored if _odd(row, made, stored)]
    return _mean("normalised probability", made, odd)


def _has_key(log: EvaluationLog, entry: str, key: str) -> bool:
    """True if the log has that entry, and rows of it that hold the key."""
    found = log.metrics.get(entry)
    return found is not None and any(key in row for row in found.by_index.values())


def _right_and_wrong(
    log: EvaluationLog,
    right: str,
    wrong: str,
    key: str,
    compare: Callable[[float, list[float]], float],
) -> dict[str, float]:
    """The right answer of every row compared with its wrong ones."""
    rights, wrongs = log.numbers(right, key), log.lists(wrong, key)
    if odd := {*rights} ^ {*wrongs}:
        what = f"{len(wrongs)} rows, where {right!r} has {len(rights)}; row {min(odd)} is in one"
        raise log.error(wrong, what, "Evaluate both on the same rows")
    return {str(row): compare(rights[row], wrongs[row]) for row in rights}


def _attack(entry: str, log: EvaluationLog) -> Remade:
    forget, holdout = (log.numbers(entry, "score", part) for part in ("forget", "holdout"))
    by_row = {f"{part}/{row}": score for part, scores in (("forget", forget), ("holdout", holdout))
              for row, score in scores.items()}  # fmt: skip
    value = membership.auc([*forget.values()], [*holdout.values()])
    return Remade(value=value, how="AUC of forget against holdout", by_row=by_row)


def _utility(log: EvaluationLog, retrained: EvaluationLog | None) -> Remade:
    entries = {name: TOFU[name].entry for name in UTILITY_TERMS}
    if missing := [entry for entry in entries.values() if entry not in log.metrics]:
        return Remade(value=None, how=f"nine terms, of which it lacks {', '.join(missing)}")
    terms = {name: remake(entry, log).value for name, entry in entries.items()}
    if missing := [entries[name] for name, value in terms.items() if value is None]:
        return Remade(value=None, how=f"nine terms, of which {', '.join(missing)} have no rows")
    known = {name: value for name, value in terms.items() if value is not None}
    return Remade(value=utility.model_utility(known), how="harmonic mean of nine")


def _forget_quality(log: EvaluationLog, retrained: EvaluationLog | None) -> Remade:
    if retrained is None:
        return Remade(value=None, how="a retrained model's log, which is not given")
    made = remake(TOFU["forget_truth_ratio"].entry, log)
    ratios = {int(row): value for row, value in (made.by_row or {}).items()}
    if not ratios:
        return Remade(value=None, how="truth ratios of single rows, which it has not")
    return Remade(value=_quality(ratios, retrained), how=f"KS test against {retrained.path.name}")


def _quality(ours: Mapping[int, float], retrained: EvaluationLog) -> float:
    entry, key, _ = TOFU["forget_truth_ratio"]
    theirs = retrained.numbers(entry, key)
    if odd := {*ours} ^ {*theirs}:
        raise retrained.error(
            entry,
            f"{len(theirs)} rows, where the evaluated model has {len(ours)}; row {min(odd)} is "
            "in one of them only",
            "Evaluate both models on the same forget set",
        )
    return utility.forget_quality([*ours.values()], [*theirs.values()])


def _relative(
    entry: str, compare: Callable[..., float], log: EvaluationLog, retrained: EvaluationLog | None
) -> Remade:
    """Privleak or rel_diff, against the retrained model's AUC, or else against 1/2."""
    attack = TOFU["membership_min_k"].entry
    auc = remake(attack, log).value if attack in log.metrics else None
    if auc is None:
        return Remade(value=None, how=f"the rows of {attack}, which it has not")
    if retrained is not None:
        value = compare(auc, retrained.value(attack))
        return Remade(value=value, how=f"against the AUC in {retrained.path.name}")
    alone = Remade(value=compare(auc), how="against an AUC of .5")
    if same(alone.value, log.metric(entry).value):
        return alone
    return Remade(value=None, how="a retrained model's log, as it is not against an AUC of .5")


_OF_OTHERS: dict[str, Callable[[EvaluationLog, EvaluationLog | None], Remade]] = {
    "model_utility": _utility,
    "forget_quality": _forget_quality,
    "privleak": partial(_relative, "privleak", membership.privleak),
    "rel_diff": partial(_relative, "rel_diff", membership.rel_diff),
}


def read_answers(path: Path, part: str | None = None) -> ImportedLog:
    """The answers to the questions of a part, by row: one of `ANSWERS`, else the first there is.

    The text of each question is all the model was shown. InputError where the log has none.
    """
    log = read_log(path)
    first = next((name for name, entry in ANSWERS.items() if entry in log.metrics), "forget")
    part = first if part is None else part
    asked = tuple(
        ImportedQuestion(
            id=str(row), text=found.prompt, answers=(found.answer,), draws=(Draw(found.text),)
        )
        for row, found in greedy_answers(log, part).items()
    )
    return ImportedLog(
        path=path,
        tool="OpenUnlearning",
        model="unnamed",
        task=part,
        stated={"temperature": 0.0},
        asked=asked,
    )
