"""What the scripts here share: options, tables as they are made, figures kept, misses judged.

Whether any of many bounds misses more often than it may is judged row by row, by an exact binomial
test: the chance of as many misses or more, had they chance alpha each. A row fails below
`FALSE_ALARM` over the number of rows (Bonferroni), so that correct bounds, however many and however
dependent, raise any alarm with probability `FALSE_ALARM` at most.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

MODELS = Path("demo-run/models")  # of a finished demo; trained where they are not there
FALSE_ALARM = 0.001  # of a whole run of a benchmark
Row = TypeVar("Row")


def options(doc: str | None, **known: Any) -> argparse.Namespace:
    """The options of a script, and --json: each by its default, or by its type where it has none.

    A sequence takes several values of one kind; a value with a text beside it, (value, help), says
    what it is for. `n` is -n too, and a name with an underscore has a dash there.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n\n")[0])
    for name, given in known.items():
        default, told = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
        flags = [*(["-n"] if name == "n" else []), f"--{name.replace('_', '-')}"]
        parser.add_argument(*flags, dest=name, help=told, **_kind(default))
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the figures here")
    return parser.parse_args()


def _kind(default: Any) -> dict[str, Any]:
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, list):
        return {"nargs": "+", "type": type(default[0]) if default else str, "default": default}
    if callable(default):  # a type alone
        return {"type": default}
    return {"type": type(default), "default": default}


def keep(file: Path | None, figures: Any) -> None:
    """Write figures as JSON, where a file was named."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=1, default=str), encoding="utf-8")


def table(rows: Iterable[Any], columns: Mapping[str, str | Callable[[Any], str]]) -> list[Any]:
    """Print rows as they are made, and return them.

    columns: by title, a format of the row's items or fields, or a function of the row.
    """
    print(_line(columns))
    print("|---" * len(columns) + "|", flush=True)
    made = []
    for row in rows:
        made.append(row)
        told = row if isinstance(row, Mapping) else {n: getattr(row, n) for n in _fields(row)}
        cells = (c.format_map(told) if isinstance(c, str) else c(row) for c in columns.values())
        print(_line(cells), flush=True)
    return made


def _fields(row: Any) -> Sequence[str]:
    return list(getattr(row, "__dataclass_fields__", ()))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of rows of figures, to four digits; a column for whatever any of them has."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns)]
    lines += [[cell(row.get(column)) for column in columns] for row in rows]
    return "\n".join(map(_line, lines))


def cell(value: Any) -> str:
    """A figure to four digits; blank where there is none."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def demo_models(folder: Path) -> dict[str, Path]:
    """The demo's models by label, trained first where they are not there."""
    from leakbound.benchmarks import load_benchmark
    from leakbound.demo import BENCHMARK, Clock, train_models

    return train_models(folder, load_benchmark(BENCHMARK), Clock(folder.parent / "phases.json"))


def p_value(misses: int, trials: int, alpha: float) -> float:
    """The chance of as many misses or more at alpha each; 1 without a trial."""
    from scipy.stats import binomtest

    return float(binomtest(misses, trials, alpha, "greater").pvalue) if trials else 1.0


def too_often(rows: Sequence[Row], counted: Sequence[tuple[int, int]], alpha: float) -> list[Row]:
    """The rows whose (misses, trials) chance does not explain, beside all the others."""
    return unlikely(rows, [p_value(misses, trials, alpha) for misses, trials in counted])


def unlikely(rows: Sequence[Row], p_values: Sequence[float]) -> list[Row]:
    """The rows whose p-value chance does not explain, beside all the others."""
    return [row for row, p in zip(rows, p_values, strict=True) if p < FALSE_ALARM / len(rows)]


def most_misses(trials: int, rows: int, alpha: float) -> int:
    """So many misses are no alarm in a row of that many trials, one of `rows`."""
    from scipy.stats import binom

    return int(binom.isf(FALSE_ALARM / max(rows, 1), trials, alpha))
