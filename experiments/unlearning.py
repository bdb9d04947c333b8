"""Measure every unlearning method on one data set: its remaining leakage, with bounds, and its
cost.

    python experiments/unlearning.py builtin --out runs
    python experiments/unlearning.py tofu-mini --base models/base --data TOFU --out runs
    python experiments/unlearning.py tofu --base microsoft/phi-1_5 --out runs

`builtin` uses the demo's model and data, `tofu-mini` a small real model (smollm2.py), `tofu` needs
a GPU. A target learns all rows, a control all but those to forget. Each method unlearns the target
with each seed. The same command resumes. `--methods` and `--seeds` select, `--ablations` runs the
ablations of the papers, `--table` only prints finished results.

If a size has several learning rates, a method gets the largest that keeps 98 % of the target's
utility. Every method is pushed as far as that allows, and the choice reads no leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from lab import UTILITY, Lab, parsed, parser_of
from sizes import CONTROL, RECALL, SIZES, TARGET

from leakbound.stats.about import Quantity
from leakbound.store import Estimates, Run
from leakbound.store.trained import LOG, read_object
from leakbound.text.shown import above
from leakbound.unlearning.work_folder import read_log
from runner import markdown


def finished(lab: Lab, name: str) -> Iterator[Run]:
    """Return the finished runs of a method, of any seed."""
    first = lab.path(name)
    named = re.compile(re.escape(first.name.removesuffix("0")) + "[0-9]*")
    for path in sorted(first.parent.glob("*")):
        if named.fullmatch(path.name) and (path / UTILITY).exists():
            yield Run.open(path)


def rows(lab: Lab) -> Iterator[dict[str, Any]]:
    """Return the finished runs in the columns of the papers, with bounds, a row per method."""
    for name in (TARGET, *lab.size.every, CONTROL):
        if runs := list(finished(lab, name)):
            got = [_figures(lab, run) for run in runs]
            cells = {key: _cell(key, [each[key] for each in got]) for key in got[0]}
            yield {"method": name, "seeds": len(runs), **cells}


def _figures(lab: Lab, run: Run) -> dict[str, float]:
    scored = run.estimates.where(scorer=RECALL)
    leaks = run.estimates.where(scorer=lab.size.leak)
    kept = read_object(run.path / UTILITY)
    return {
        "greedy": _each(scored, "greedy score", "greedy"),
        "S_mean": _each(scored, "mean leakage"),
        "S_std": _each(scored, "standard deviation"),
        "S_ED": _each(scored, "expectation deviation"),
        "S_mean at most": scored.mean("mean leakage").upper,
        "leak@32 at most": scored.mean("leak@k", parameter=32).upper,
        f"P({lab.size.leak})": _each(leaks, "leak probability"),
        "worst question at most": leaks.worst("leak probability").upper,
        f"leak@32({lab.size.leak}) at most": leaks.mean("leak@k", parameter=32).upper,
        **kept,
        **({"R_avg": fmean(kept.values())} if len(kept) > 1 else {}),
        "training": seconds_of(lab.folder / "models" / run.path.name),
    }


def seconds_of(model: Path) -> float:
    """Return the seconds of a model's training, from its log."""
    return read_log(model / LOG)[-1]["seconds"]


def main() -> None:
    """Make the runs, then print the table."""
    parser = parser_of(__doc__, seeds="0", sizes=SIZES)
    parser.add_argument("--ablations", action="store_true", help="instead of the methods")
    options = parsed(parser)
    size = SIZES[options.size]
    known = (TARGET, CONTROL, *size.every)
    for name in options.methods or ():
        if name not in known:
            parser.error(f"no method {name!r} of {options.size}; there is {', '.join(known)}")
    lab = Lab.open(options.size, options.out / options.size, options.data, options.base)
    for seed in options.seeds:
        names = size.ablations if options.ablations else (TARGET, CONTROL, *size.methods)
        for name in options.methods or names:
            if not options.table and (seed == options.seeds[0] or name in size.every):
                lab.run(name, seed)
    print(markdown([*rows(lab)]))


def _each(rows: Estimates, quantity: Quantity, arm: str = TARGET) -> float:
    """Return the mean over the questions of one estimate."""
    return fmean(row.value for row in rows.each(quantity, arm=arm) if row.value is not None)


def _cell(key: str, values: Sequence[float]) -> str:
    """Return the mean over models with their range; of upper bounds the largest."""
    if key.endswith("at most"):  # a mean of upper bounds is no model's bound
        return above(max(values))
    digits = 0 if max(values) >= 10 else 3
    mean = f"{fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


if __name__ == "__main__":
    main()
