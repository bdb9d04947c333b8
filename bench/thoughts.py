r"""Measure leaks of thinking models in the answer, the thought, both or neither, by three readings.

    python bench/thoughts.py [--out thinking] [-n 256] [--json FILE]

Four tiny models learn the four variants of `fictitious:thoughts`, as by

    leakbound finetune thinking/models/untrained --split forget,retain --epochs 80 \
      --learning-rate 3e-3 --batch-size 8 --out thinking/models/answer \
      --benchmark fictitious:authors=4,forget=2,thoughts=answer

Each is evaluated twice with thinking on: by draws, and by exploring its likeliest outputs, whose
masses are exact up to the measured margin. The table has the mean leak probability over the
questions: its 99 % interval by draws, the range of the exact masses, and the decision of a
certificate about "at most 10 % at every question". Exit status 1 if an interval and a range do not
overlap, or if a certificate contradicts the variant. Finished models and runs are reused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.benchmarks.fictitious import Thoughts
from leakbound.certificate import certify
from leakbound.demo.model import write_untrained
from leakbound.evaluation import evaluate
from leakbound.study import Explore, ModelSettings, Study
from leakbound.unlearning import TrainingSettings, finetune, prompting_of
from runner import options, report

WHOLE = "fictitious:authors=4,forget=2"
LEARN = TrainingSettings(epochs=80, learning_rate=3e-3, batch_size=8)
VARIANTS = tuple(name for name in get_args(Thoughts) if name != "none")
READINGS = ("answer", "thought", "either")
SCORERS = tuple(f"keyword:require=all,of={reading}" for reading in READINGS)
MAX_LEAK = 0.1
FORWARDS = 500


def taught(variant: str, folder: Path) -> tuple[Path, Benchmark]:
    """Return the model of a variant, trained first if it is missing, and its benchmark."""
    task = load_benchmark(f"{WHOLE},thoughts={variant}")
    base, everything = folder / "untrained", load_benchmark(f"{WHOLE},thoughts=both")
    rows = [*everything.to_train("forget"), *everything.to_train("retain")]
    write_untrained(base, rows, task.template, seed=0)
    rows = [*task.to_train("forget"), *task.to_train("retain")]
    settings = replace(LEARN, prompting=prompting_of(task))
    return finetune(str(base), rows, out=folder / variant, settings=settings).path, task


def measured(variant: str, folder: Path, n: int) -> Iterator[dict[str, Any]]:
    """Return the rows of a model, one per reading."""
    model, task = taught(variant, folder / "models")
    runs = folder / "runs"
    study = Study(task, scorers=SCORERS, settings=ModelSettings(thinking="on"))
    drawn = evaluate(str(model), study, out=runs / variant, n=n)
    plan = Explore("exact", FORWARDS)
    exact = evaluate(str(model), study, out=runs / f"{variant}-exact", sampling=plan)
    for reading, scorer in zip(READINGS, SCORERS, strict=True):
        mean = drawn.estimates.mean("leak probability", scorer=scorer)
        known = exact.estimates.mean("leak probability", scorer=scorer)
        file = runs / f"{variant}-{reading}.json"
        certificate = certify(
            drawn, max_leak=MAX_LEAK, scorer=scorer, every_question=True, out=file
        )
        leaks = variant in ("both", reading) or (reading == "either" and variant != "neither")
        right = certificate.verdict == ("refuted" if leaks else "pass")
        yield {
            "facts are in": variant,
            "reading": reading,
            "leaks": leaks,
            "draws": mean.value,
            "at least": mean.lower,
            "at most": mean.upper,
            "exact: at least": known.lower,
            "exact: at most": known.upper,
            "at most 10 % at every question": certificate.verdict,
            "agrees": right and mean.lower <= known.upper and known.lower <= mean.upper,
        }


def main() -> int:
    """Print the table; return 1 if anything disagrees."""
    args = options(__doc__, out=Path("thinking"), n=256)
    rows = [row for variant in VARIANTS for row in measured(variant, args.out, args.n)]
    report(args.json, rows)
    return int(not all(row["agrees"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
