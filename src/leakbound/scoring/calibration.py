"""How often a judge errs, from items that people labelled, and bounds that allow for it.

The judge is a chat model, or any scorer that says leak or not: a wordlist errs too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from leakbound import stats
from leakbound.errors import InputError
from leakbound.scorers import base_of, check_prompts, score_pairs
from leakbound.scorers.judge import Judge
from leakbound.scoring.score import slug
from leakbound.stats import BoundFunction
from leakbound.store import Run, calibration_file, holding, read_calibration, sha256, write_sealed
from leakbound.text.rows import FORMS, Row, read_rows
from leakbound.types import Prompt, Scorer

_VALUES = {"0": 0, "false": 0, "1": 1, "true": 1}


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """An output that people labelled: 1 a leak, 0 none.

    `judged` is what the judge said of it; None where it could not decide, or where `prompt`, what
    the output answers, is there to be judged by.
    """

    label: int
    judged: int | None = None
    output: str = ""
    prompt: Prompt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How many items the judge calls a leak, of those that leak and of those that do not.

    (hits, n) each. Of `undecided` more it did not say. `file` is the digest of the labelled file.
    """

    positives: tuple[int, int]
    negatives: tuple[int, int]
    undecided: int
    file: str

    def correct(self, bound: BoundFunction, confidence: float) -> stats.Estimate:
        """A bound on how often the judge calls a draw a leak, carried over to how often it is one.

        Each end at half of alpha, of which the judge's rates take two thirds.
        """
        return stats.corrected_bound(
            bound,
            positives=self.positives,
            negatives=self.negatives,
            confidence=confidence,
            side="both",
        )


def read_items(path: Path, judge: Scorer | None = None) -> tuple[LabelledItem, ...]:
    """The labelled items of a CSV or JSON-lines file, one a row; nothing is judged yet.

    Columns: `label`, 1 for a leak and 0 for none, as people say; and either `judge`, 1 or 0 as the
    judge said, blank where it could not decide, or `question`, `answer`, `output` and where there
    are any `keywords` for it to judge. What `judge` says is a chat model's word: another scorer
    reads the output. Raises InputError, with the row, for a value that is none of these, for an
    item that `judge` could never score, and for a file without an item of each label.
    """
    if path.suffix.lower() not in FORMS:
        raise InputError(
            f"{str(path)!r} must be a {', '.join(FORMS)} file. Give each row a `label` and "
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
                f"{str(path)!r} has no item with label {label} ({what}), and a judge errs on both "
                "kinds. Label some of the other kind too."
            )
    return items


def judge_of(scorers: Sequence[Scorer]) -> Scorer:
    """The scorer that a calibration is about: the binary one among the judges, or without judges
    among all; InputError unless there is just one."""
    judges = [s for s in scorers if isinstance(base_of(s), Judge)]
    candidates = [s for s in judges or scorers if s.binary]
    if len(candidates) != 1:
        raise InputError(
            f"a calibration is about one {'judge' if judges else 'scorer'} that says leak or not, "
            f"got {', '.join(repr(scorer.name) for scorer in scorers)}. Name one, such as "
            "`judge:model=…` or `rouge-l-recall>=0.9`."
        )
    return candidates[0]


@holding("calibrate")
def calibrate(run: Run, judge: Scorer, path: Path) -> None:
    """Count how the judge fares on the labelled items, and keep the counts with the run.

    Items without its word are judged now. Raises InputError where it decided none of a label.
    """
    items = read_items(path, judge)
    pairs = [(item.output, item.prompt) for item in items if item.prompt is not None]
    scores = iter(score_pairs(judge, pairs))
    judged = [(i.label, i.judged if i.prompt is None else next(scores)) for i in items]
    decided = {label: [s for of, s in judged if of == label and s is not None] for label in (0, 1)}
    if not all(decided.values()):
        raise InputError(
            f"{judge.name!r} could decide no item of one label in {str(path)!r}. Check that it "
            "answers, or label more items."
        )
    calibration = Calibration(
        positives=(sum(s == 1 for s in decided[1]), len(decided[1])),
        negatives=(sum(s == 1 for s in decided[0]), len(decided[0])),
        undecided=sum(s is None for _, s in judged),
        file=sha256(path),
    )
    write_sealed(calibration_file(run.path, slug(judge)), asdict(calibration))


def calibration_of(run: Run, scorer: Scorer) -> Calibration | None:
    """The calibration of a scorer in this run; None where nothing is known of its errors."""
    stored = read_calibration(run.path, slug(scorer))
    if stored is None:
        return None
    pairs = {name: tuple(stored[name]) for name in ("positives", "negatives")}
    return Calibration(**stored | pairs)


def _item(row: Row, *, reads: bool) -> LabelledItem:
    label = _verdict(row, "label")
    if label is None:
        raise InputError(f"{row.place} has no 'label'. Fill it in or remove the row.")
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
    """1 or 0; None where it is blank."""
    value = row.values.get(key)
    if value is None or not str(value).strip():
        return None
    written = str(value).strip().lower()
    if written not in _VALUES:
        raise InputError(f"{key!r} must be 0 or 1, got {value!r} in {row.place}.")
    return _VALUES[written]
