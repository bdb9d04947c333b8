"""How often a verdict says what is not so: the card's own words, through `leakbound.evaluate`.

    python bench/cards.py [--runs N] [--confidence C] [--models NAME ...] [--json FILE]

Models of known law (bench/shipped.py), four questions, beside a control. A verdict errs where it
says LEAKS of a model that leaks no more than its control, at any question; *on average* of one that
leaks no more on average; BELOW x of one above x at some question; or where its interval misses. An
exact binomial test judges each row at 1 - confidence (see bench/runner.py); at an alarm the exit
status is 1. How often the words are said where they are true stands beside it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound import Study, evaluate
from leakbound.evaluation.views.verdict import Verdict
from leakbound.study import FixedN, Prove, Until
from runner import keep, markdown, options, p_value, unlikely
from shipped import CONTROL, Chances, Known, benchmark

LIMIT = 0.1
MORE: Chances = (0.11, 0.02, 0.87)
LESS: Chances = (0.0, 0.02, 0.98)
NONE: Chances = (0.0, 0.0, 1.0)
BESIDE: list[Chances] = [CONTROL, *3 * [(0.1 / 3, 0.02, 1 - 0.02 - 0.1 / 3)]]
ABOVE: Chances = (0.105, 0.0, 0.895)
FIXED, PROVED = {"sampling": FixedN(64)}, {"sampling": FixedN(64), "prove": Prove(40)}
UNTIL = {"sampling": Until(f"p<={LIMIT}", 512)}


@dataclass(frozen=True)
class Model:
    """Four questions' laws and their control's, how they are drawn, and what is true of them."""

    target: Sequence[Chances]
    control: Sequence[Chances]
    study: dict[str, Any]

    @property
    def worst(self) -> float:
        return max(a[0] - b[0] for a, b in zip(self.target, self.control, strict=True))

    @property
    def mean(self) -> float:
        pairs = zip(self.target, self.control, strict=True)
        return sum(a[0] - b[0] for a, b in pairs) / len(self.target)

    def errs(self, said: Verdict) -> bool:
        """True if anything that the verdict says is not so."""
        assert said.number is not None
        leaks = said.kind == "leaks" and self.worst <= 1e-12
        on_mean = said.where.startswith("on average") and self.mean <= 1e-12
        below = said.limit.startswith("BELOW") and max(a[0] for a in self.target) > LIMIT
        within = said.number.lower - 1e-9 <= self.worst <= said.number.upper + 1e-9
        return leaks or on_mean or below or not within


MODELS = {
    "equal to its control": Model([CONTROL] * 4, [CONTROL] * 4, FIXED),
    "equal to its control, proofs sought": Model([CONTROL] * 4, [CONTROL] * 4, PROVED),
    "less than its control": Model([LESS] * 4, [CONTROL] * 4, FIXED),
    "more at one question, no more on average": Model([MORE, LESS, LESS, LESS], BESIDE, FIXED),
    "the same, proofs sought": Model([MORE, LESS, LESS, LESS], BESIDE, PROVED),
    "more everywhere": Model([MORE] * 4, [CONTROL] * 4, FIXED),
    f"above {LIMIT} at one question": Model([ABOVE, NONE, NONE, NONE], [NONE] * 4, UNTIL),
    f"below {LIMIT} everywhere": Model([CONTROL] * 4, [CONTROL] * 4, UNTIL),
}


def verdict_on(model: Model, number: int, confidence: float, out: Path) -> Verdict:
    """Of a run of weights that no other number has."""
    task = benchmark(len(model.target))
    engines = [
        Known(
            f"{name} {number}",
            {p.id: (law, p.question) for p, law in zip(task.prompts, laws, strict=True)},
            "prove" in model.study,
        )
        for name, laws in (("target", model.target), ("control", model.control))
    ]
    study = Study(task, scorers=("keyword",), confidence=confidence, **model.study)
    run = evaluate(engines[0], study, out=out, control=engines[1])
    said: Verdict = run.verdict
    return said


def row_of(name: str, runs: int, confidence: float) -> dict[str, Any]:
    """How often a verdict on this model errs, and what it says."""
    model, said = MODELS[name], []
    for number in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            said.append(verdict_on(model, number, confidence, Path(folder, "run")))
    errs = sum(map(model.errs, said))
    return {
        "model": name,
        "runs": runs,
        "errs": errs,
        "p": p_value(errs, runs, 1 - confidence),
        "LEAKS": sum(one.kind == "leaks" for one in said),
        "on average": sum(one.where.startswith("on average") for one in said),
        "BELOW": sum(one.limit.startswith("BELOW") for one in said),
    }


def main() -> int:
    given = options(
        __doc__,
        runs=2000,
        confidence=0.99,
        models=(list(MODELS), "beginnings of names"),
    )
    names = [name for name in MODELS if name.startswith(tuple(given.models))]
    rows = [row_of(name, given.runs, given.confidence) for name in names]
    print(f"each verdict and its number at {given.confidence:g}\n")
    print(markdown(rows))
    keep(given.json, rows)
    failed = unlikely(rows, [row["p"] for row in rows])
    for row in failed:
        print(f"ERRS TOO OFTEN: {row}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
