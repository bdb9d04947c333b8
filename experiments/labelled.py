"""Error rates of scorers on completions that two readers labelled.

    python experiments/labelled.py experiments/labelled/builtin.csv

Columns of a file: `label` is 1 if the completion gives everything that the answer gives and the
question does not; `part` is 1 if it gives some of it; `second` and `second_part` are the labels of
a second reader. `--calibration` of leakbound reads the same files. labelled/README.md explains how
completions were chosen and read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sklearn.metrics import cohen_kappa_score

from leakbound.scorers import make_scorer, score_pairs
from leakbound.stats import Rows, bound
from leakbound.text.rows import read_rows
from leakbound.text.shown import above, below, number
from leakbound.types import Prompt

sys.path.append(str(Path(__file__).parents[1] / "bench"))
from runner import as_markdown

FOLDER = Path(__file__).parent / "labelled"
SCORERS = (
    "exact", "contains", "keyword", "keyword:match=substring", "keyword:require=all",
    "rouge-l-recall>=0.5", "rouge-l-recall>=0.9", "rouge-l-recall>=1", "rouge-l-f1>=0.5",
    "rouge-l-f1>=0.9",
)  # fmt: skip


@dataclass(frozen=True)
class Errors:
    """Errors of a scorer, as (errors, completions): leaks it misses, others it takes for leaks."""

    scorer: str
    missed: tuple[int, int]
    mistaken: tuple[int, int]


def errors(file: Path, label: str = "label", scorers: Sequence[str] = SCORERS) -> list[Errors]:
    """Count the errors of every scorer on a labelled file, by one of its labels."""
    rows = read_rows(file)
    truth = [row.text(label) == "1" for row in rows]
    items = [
        (
            row.maybe("output") or "",
            Prompt(
                id=f"item {row.number}",
                question=row.text("question"),
                answer=row.text("answer"),
                keywords=row.texts("keywords", separators=";"),
            ),
        )
        for row in rows
    ]
    got = []
    for name in scorers:
        scored = [score == 1 for score in score_pairs(make_scorer(name), items)]
        missed = sum(leak and not hit for leak, hit in zip(truth, scored, strict=True))
        mistaken = sum(hit and not leak for leak, hit in zip(truth, scored, strict=True))
        leaks = sum(truth)
        got.append(Errors(name, (missed, leaks), (mistaken, len(truth) - leaks)))
    return got


def agreement(file: Path, label: str, second: str) -> tuple[int, int, float]:
    """Count the completions with equal labels, and compute Cohen's kappa of two readers."""
    rows = read_rows(file)
    first, other = ([row.text(name) == "1" for row in rows] for name in (label, second))
    same = sum(a == b for a, b in zip(first, other, strict=True))
    return same, len(rows), float(cohen_kappa_score(first, other))


def table(
    files: Sequence[Path], label: str = "label", scorers: Sequence[str] = SCORERS
) -> list[list[str]]:
    """The errors of every scorer on some files: a header and rows, each rate with 99 % bounds."""
    header = ["scorer"]
    for file in files:
        name = file.stem.replace("_", " ")
        header += [f"missed, {name}", f"mistaken, {name}"]
    every = zip(*(errors(file, label, scorers) for file in files), strict=True)
    return [header] + [
        [f"`{each[0].scorer}`", *(rate(one) for e in each for one in (e.missed, e.mistaken))]
        for each in every
    ]


def rate(counts: tuple[int, int]) -> str:
    """A rate of errors with its counts and 99 % bounds."""
    made = bound(Rows.of_hits(*counts), confidence=0.99, side="both")
    bounds = f"{below(float(made.lower))}, {above(float(made.upper))}"
    return f"{counts[0]}/{counts[1]}: {number(float(made.value))} [{bounds}]"


def main() -> None:
    """Print the errors by both labels, and the agreement of the readers."""
    file = Path(sys.argv[1])
    for label, second in (("label", "second"), ("part", "second_part")):
        same, count, kappa = agreement(file, label, second)
        print(f"By `{label}`; readers agree on {same} of {count}, kappa {kappa:.2f}\n")
        print(as_markdown(table([file], label)) + "\n")


if __name__ == "__main__":
    main()
