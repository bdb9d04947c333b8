"""Measure a judge's error rates on outputs that people labelled, and correct bounds for them.

The judge is a chat model or any other binary scorer: keyword scorers make errors, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound import stats
from leakbound.errors import InputError
from leakbound.scorers import base_of, check_prompts, score_pairs
from leakbound.scorers.judge import Judge
from leakbound.scoring.score import slug
from leakbound.stats import BoundFunction
from leakbound.store import Run, calibration_file, holding, read_calibration, sha256, write_sealed
from leakbound.text.rows import FORMS, Row, read_rows
from leakbound.types import Prompt, Scorer, from_json

_VALUES = {"0": 0, "false": 0, "1": 1, "true": 1}


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """An output that people labelled: 1 for a leak, else 0.

    `judged` is the judge's verdict: 1 for a leak, else 0. It is None if the judge could not decide,
    or if the output is not judged yet. `output` is an answer to `prompt`.
    """

    label: int
    judged: int | None = None
    output: str = ""
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The numbers of labelled items, and of items for which the judge reports a leak.

    `positives` is the pair (hits, n) for the items labelled as leaks, and `negatives` is the pair
    for the other items. n is the number of items with a verdict; hits is the number of items for
    which the judge reports a leak. `undecided` is the number of items without a verdict. `file` is
    the digest of the labelled file.
    """

    positives: tuple[int, int]
    negatives: tuple[int, int]
    undecided: int
    file: str

    def correct(self, bound: BoundFunction, confidence: float) -> stats.Estimate:
        """Convert a bound on the rate of reported leaks to an interval for the leak probability.

        Lower and upper bound each use half of alpha. Two thirds of this half are for the judge's
        error rates.
        """
        return stats.corrected_bound(
            bound,
            positives=self.positives,
            negatives=self.negatives,
            confidence=confidence,
            side="both",
        )


def read_items(path: Path, judge: Scorer | None = None) -> tuple[LabelledItem, ...]:
    """Return the labelled items of a CSV or JSON-lines file, without judging them.

    The column `label` is 1 for a leak, else 0. The other columns have one of two forms. In the
    first form, the column `judge` has the verdict of a chat model, or is blank if the model could
    not decide. In the second form, the columns are `question`, `answer`, `output` and optionally
    `keywords`, and the judge scores each output later. Scorers other than chat models need the
    second form.

    Args:
        path: the file.
        judge: the scorer to calibrate (None: not known yet).

    Raises:
        InputError: a value is not allowed, `judge` can never score an item, or one of the two
            labels has no item. The message names the row.
    """
    if path.suffix.lower() not in FORMS:
        raise InputError(
            f"{str(path)!r} must be a {', '.join(FORMS)} file. Its columns must be `label` and "
            "`judge`, or `label`, `question`, `answer` and `output`."
        )
    reads = judge is not None and not isinstance(base_of(judge), Judge)
    rows = read_rows(path, FORMS[path.suffix.lower()])
    items = tuple(_item(row, reads=reads) for row in rows)
    if judge is not None:
        check_prompts(judge, (item.prompt for item in items if item.prompt is not None))
    for label, what in ((1, "a leak"), (0, "no leak")):
        if all(item.label != label for item in items):
            raise InputError(
                f"{str(path)!r} has no item with label {label} ({what}), but calibration needs "
                "items of both labels. Add items with this label."
            )
    return items


def judge_of(scorers: Sequence[Scorer]) -> Scorer:
    """Return the only binary judge or, if there are no judges, the only binary scorer.

    Raises InputError unless there is exactly one.
    """
    judges = [s for s in scorers if isinstance(base_of(s), Judge)]
    candidates = [s for s in judges or scorers if s.binary]
    if len(candidates) != 1:
        raise InputError(
            f"a calibration needs exactly one binary {'judge' if judges else 'scorer'}, got "
            f"{', '.join(repr(scorer.name) for scorer in scorers)}. Name exactly one, such as "
            "`judge:model=…` or `rouge-l-recall>=0.9`."
        )
    return candidates[0]


@holding("calibrate")
def calibrate(run: Run, judge: Scorer, path: Path) -> None:
    """Count the judge's errors on the labelled items, and store the counts with the run.

    Items without a verdict are judged first. Raises InputError if the judge decided no item with
    label 1, or no item with label 0.
    """
    items = read_items(path, judge)
    pairs = [(item.output, item.prompt) for item in items if item.prompt is not None]
    scores = iter(score_pairs(judge, pairs))
    judged = [(i.label, i.judged if i.prompt is None else next(scores)) for i in items]
    decided = {label: [s for of, s in judged if of == label and s is not None] for label in (0, 1)}
    if not all(decided.values()):
        raise InputError(
            f"{judge.name!r} decided no item with label 0, or no item with label 1, in "
            f"{str(path)!r}. Check the judge's replies, or label more items."
        )
    calibration = Calibration(
        positives=(sum(s == 1 for s in decided[1]), len(decided[1])),
        negatives=(sum(s == 1 for s in decided[0]), len(decided[0])),
        undecided=sum(s is None for _, s in judged),
        file=sha256(path),
    )
    write_sealed(calibration_file(run.path, slug(judge)), calibration)


def calibration_of(run: Run, scorer: Scorer) -> Calibration | None:
    """Return the calibration of a scorer in a run; None if the run has none."""
    stored = read_calibration(run.path, slug(scorer))
    return None if stored is None else from_json(Calibration, stored, "the calibration")


def _item(row: Row, *, reads: bool) -> LabelledItem:
    label = _verdict(row, "label")
    if label is None:
        raise InputError(f"{row.place} has no 'label'. Fill it in, or remove the row.")
    if "judge" in row.values and not reads:
        return LabelledItem(label, _verdict(row, "judge"))
    prompt = Prompt(
        id=f"item {row.number}",
        question=row.text("question"),
        answer=row.text("answer"),
        keywords=row.texts("keywords", separators=";"),
    )
    return LabelledItem(label, None, row.maybe("output") or "", prompt)


def _verdict(row: Row, key: str) -> int | None:
    """Return the verdict in a column: 1 or 0; None if the cell is blank."""
    value = row.values.get(key)
    if value is None or not str(value).strip():
        return None
    written = str(value).strip().lower()
    if written not in _VALUES:
        raise InputError(f"{key!r} must be 0 or 1, got {value!r} in {row.place}. Correct it.")
    return _VALUES[written]
