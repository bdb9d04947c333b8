"""`figures`: draw the figures of papers for finished runs, and write them to files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import get_args

from leakbound.errors import InputError, needing
from leakbound.plotting.material import Chart, ChartRow, LackingError, Material
from leakbound.plotting.rows import KINDS
from leakbound.plotting.style import Format, styles
from leakbound.presenting.table import Table
from leakbound.presenting.view import named_runs, read_view
from leakbound.registry import suggestion
from leakbound.store import Run, write_text
from leakbound.store.files import make_folder, write_whole
from leakbound.store.trained import is_trained, read_trained

FORMATS: tuple[Format, ...] = get_args(Format)
WIDTHS: Mapping[str, float] = {"one": 3.3, "two": 6.9}
"""The width of one and of two columns of a paper, in inches."""
_NARROWEST, _WIDEST = 2.0, 20.0


@dataclass(frozen=True, slots=True)
class DrawnFigures:
    """The files that `figures` wrote.

    Attributes:
        files: all files, figure by figure.
        left_out: the reason why a figure could not be drawn, by the name of the figure.
    """

    files: tuple[Path, ...]
    left_out: Mapping[str, str]


def figures(
    runs: Sequence[Run | str | Path],
    out: str | Path,
    *,
    only: Sequence[str] = (),
    formats: Sequence[Format] = FORMATS,
    width: float | str = "one",
    scorer: str | None = None,
    question: str | None = None,
) -> DrawnFigures:
    """Draw the figures of papers from finished runs, each with its data as CSV.

    Equal runs result in byte-identical files. A figure shows one scorer. Some figures show a single
    question, by default the question that leaks most. This question is selected by its draws, so it
    is not typical of other questions.

    Args:
        runs: open runs or their folders, with the same questions, scorers and confidence. Folders
            of trained models may be included, for their logs. At least one is required.
        out: the folder for the files; it is created if necessary.
        only: names of figures in `KINDS` (empty: all figures that can be drawn).
        formats: "pdf", "svg", "png" or several of them (default: all three).
        width: "one" column (3.3 in, the default), "two" columns (6.9 in), or 2 to 20 inches.
        scorer: the name of the scorer to show (None: the first scorer of the runs).
        question: the id of the question in figures of a single question (None: the question with
            the largest lower bound of the first target).

    Returns:
        The files that were written, and the reasons why other figures could not be drawn.

    Raises:
        InputError: for an unknown figure, format, scorer or question, a width out of range, two
            folders with the same name, no figure that can be drawn, or without matplotlib.
        MixError: for runs that differ in questions, scorers, confidence or rho.
    """
    if not formats:
        raise InputError("no file format was given. Name at least one, such as pdf.")
    for kind, names, known in (("figure", only, [*KINDS]), ("format", formats, FORMATS)):
        for name in names:
            if name not in known:
                raise InputError(f"there is no {kind} {name!r}. {suggestion(name, known)}")
    chosen = {name: kind for name, kind in KINDS.items() if not only or name in only}
    inches = _inches(width)
    with needing("drawing figures", "figures"):
        from leakbound.plotting import canvas
        from leakbound.plotting.charts import PAINT
    material = _material(runs, scorer, question)
    made, lacking = _rows(chosen, material)
    if not made:
        reasons = "; ".join(f"{name}: {why}" for name, why in lacking.items())
        raise InputError(f"none of the figures can be drawn. {reasons}.")
    folder, ways = Path(out), styles(material.labels)
    make_folder(folder)
    files = []
    with canvas.settings():
        for name, rows in made.items():
            drawn = canvas.Canvas(inches, ways)
            PAINT[name](rows, drawn)
            drawn.finish()
            files.append(folder / f"{name}.csv")
            write_text(files[-1], chosen[name].csv(rows))
            for form in dict.fromkeys(formats):
                files.append(folder / f"{name}.{form}")
                write_whole(files[-1], methodcaller("write_bytes", drawn.bytes(form)))
    return DrawnFigures(tuple(files), lacking)


def figures_table(
    runs: Sequence[Run | str | Path], *, scorer: str | None = None, question: str | None = None
) -> Table:
    """Return a table of all figures, with the data that each needs or whether `runs` have the data.

    Args:
        runs: as for `figures` (empty: the table lists the data that each figure needs).
        scorer: as for `figures`.
        question: as for `figures`.

    Returns:
        A table with a row per figure.

    Raises:
        InputError: for an unknown scorer or question, or two folders with the same name.
        MixError: for runs that differ in questions, scorers, confidence or rho.
    """
    columns = ("figure", "shows", "paper", "can be drawn" if runs else "needs")
    lacking = {name: kind.needs for name, kind in KINDS.items()}
    if runs:
        made, missing = _rows(KINDS, _material(runs, scorer, question))
        lacking = {name: "yes" if name in made else f"no: {missing[name]}" for name in KINDS}
    rows = [(name, kind.shows, kind.paper, lacking[name]) for name, kind in KINDS.items()]
    return Table.plain("Figures", columns, rows, prose=True)


def _inches(width: float | str) -> float:
    try:
        inches = WIDTHS[width] if isinstance(width, str) and width in WIDTHS else float(width)
    except ValueError:
        inches = math.nan
    if not _NARROWEST <= inches <= _WIDEST:
        raise InputError(
            "`width` must be one (column), two (columns), or from "
            f"{_NARROWEST:g} to {_WIDEST:g} inches, got {width}."
        )
    return inches


def _rows(
    kinds: Mapping[str, Chart], material: Material
) -> tuple[dict[str, Sequence[ChartRow]], dict[str, str]]:
    """Return the rows of each figure that can be drawn, and why others cannot, both by name."""
    made: dict[str, Sequence[ChartRow]] = {}
    lacking: dict[str, str] = {}
    if material.runs is not None:
        _ = material.scorer, material.question  # refused, if wrong, before anything is drawn
    for name, kind in kinds.items():
        try:
            made[name] = kind.made(material)
        except LackingError as error:
            lacking[name] = str(error)
    return made, lacking


def _material(
    sources: Sequence[Run | str | Path], scorer: str | None, question: str | None
) -> Material:
    """Return the material: runs and trained models, by the names of their folders."""
    if not sources:
        raise InputError("no run was given. Name the folder of a finished run.")
    paths = [Path(source) for source in sources if not isinstance(source, Run)]
    folders = [path for path in paths if is_trained(path)]
    trained = {path.resolve().name: read_trained(path) for path in folders}
    if len(trained) < len(folders):
        raise InputError("two trained models have the same folder name. Rename one of the folders.")
    finished = (s for s in sources if isinstance(s, Run) or Path(s) not in folders)
    runs = named_runs(finished)
    return Material(read_view(runs) if runs else None, trained, scorer, question)
