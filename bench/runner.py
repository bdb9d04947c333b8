"""Options, tables, stored figures and the test of misses, for scripts.

An exact binomial test judges each row: the probability of at least as many misses if each had
probability alpha. A row fails below `FALSE_ALARM` over the number of rows (Bonferroni), so correct
bounds raise any alarm with probability at most `FALSE_ALARM`, under any dependence.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

try:
    import conbo  # the papers' package, if it is installed
except ImportError:
    conbo = None

MODELS = Path("demo-run/models")  # of a finished demo; trained if missing
FALSE_ALARM = 0.001  # per run of a benchmark
Row = TypeVar("Row")


def options(doc: str | None, **known: Any) -> argparse.Namespace:
    """Parse the options of a script, and --json: each has a default, or a type without one.

    A list takes several values of one kind; a tuple is (value, help) or (value, help, choices).
    `n` is -n too, and an underscore becomes a dash.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n\n")[0])
    for name, given in known.items():
        default, help, *rest = given if isinstance(given, tuple) else (given, None)
        flags = [*(["-n"] if name == "n" else []), f"--{name.replace('_', '-')}"]
        how = _kind(default) | dict(zip(["choices"], rest, strict=False))
        parser.add_argument(*flags, dest=name, help=help, **how)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here")
    return parser.parse_args()


def _kind(default: Any) -> dict[str, Any]:
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, list):
        return {"nargs": "+", "type": type(default[0]) if default else str, "default": default}
    if callable(default):  # only a type
        return {"type": default}
    return {"type": type(default), "default": default}


def keep(file: Path | None, figures: Any) -> None:
    """Write figures as JSON if a file is named."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")


def report(file: Path | None, rows: Sequence[Mapping[str, Any]], lead: str = "") -> None:
    """Print rows of figures as a table below some words, and store them."""
    print(f"{lead}\n\n{markdown(rows)}" if lead else markdown(rows))
    keep(file, rows)


def alarm(words: str, rows: Iterable[object]) -> int:
    """Print rows that chance does not explain; return the exit status."""
    status = 0
    for row in rows:
        print(f"{words}: {row}")
        status = 1
    return status


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of rows of figures, to four digits, with every column that a row has."""

    def cell(value: Any) -> str:
        if value is None:
            return ""
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    columns = list(dict.fromkeys(key for row in rows for key in row))
    return as_markdown([columns, *([cell(row.get(column)) for column in columns] for row in rows)])


def as_markdown(lines: Sequence[Sequence[str]], align: str = "---", pad: str = " ") -> str:
    """Return a table of a header and rows; `align`: of all columns except the first."""
    header, *rows = lines
    every = (header, ["---", *[align] * (len(header) - 1)], *rows)
    return "\n".join(f"|{pad}{f'{pad}|{pad}'.join(line)}{pad}|" for line in every)


def write_into(page: Path, script: str, text: str) -> None:
    """Write a text between a script's marks in a page; at the end if there are none."""
    begin, end = (f"<!-- made by {script}: {word} -->" for word in ("begin", "end"))
    before, _, rest = (page.read_text("utf-8") if page.exists() else "").partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", "utf-8")


def demo_models(folder: Path) -> dict[str, Path]:
    """Return the demo's models by label, trained first if they are missing."""
    from leakbound.benchmarks import load_benchmark
    from leakbound.demo import BENCHMARK, Clock, train_models

    return train_models(folder, load_benchmark(BENCHMARK), Clock(folder.parent / "phases.json"))


def p_value(misses: int, trials: int, alpha: float) -> float:
    """Return the probability of at least as many misses at alpha each; 1 without a trial."""
    from scipy.stats import binomtest

    return float(binomtest(misses, trials, alpha, "greater").pvalue) if trials else 1.0


def too_often(rows: Sequence[Row], counted: Sequence[tuple[int, int]], alpha: float) -> list[Row]:
    """Return the rows whose (misses, trials) chance does not explain, among all rows."""
    return unlikely(rows, [p_value(misses, trials, alpha) for misses, trials in counted])


def unlikely(rows: Sequence[Row], p_values: Sequence[float]) -> list[Row]:
    """Return the rows whose p-value chance does not explain, among all rows."""
    return [row for row, p in zip(rows, p_values, strict=True) if p < FALSE_ALARM / len(rows)]


def most_misses(trials: int, rows: int, alpha: float) -> int:
    """Return the most misses without an alarm in one of `rows` rows with this number of trials."""
    from scipy.stats import binom

    return int(binom.isf(FALSE_ALARM / max(rows, 1), trials, alpha))


def dispatch(doc: str | None, kinds: Mapping[str, Callable[[], int]]) -> int:
    """Run the kind of bench that the first argument names, otherwise print the help."""
    if sys.argv[1:2] and sys.argv[1] in kinds:
        return kinds[sys.argv.pop(1)]()
    print(doc)
    return 0 if {"-h", "--help"} & {*sys.argv} else 2
