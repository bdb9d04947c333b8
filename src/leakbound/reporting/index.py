"""Write the index of a folder, the pages of its complete runs, and pages that compare them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

import leakbound
from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.presenting.comparing import compare
from leakbound.presenting.table import Cell, Table
from leakbound.presenting.view import sampled_targets
from leakbound.reporting.folder import ListedRun, listed_run, message_of, name_of, runs_in
from leakbound.reporting.page import PAGE, REDACTED_PAGE, rendered, report
from leakbound.store import Redaction, Run, write_text
from leakbound.types import JsonObject, Progress, counted, object_of, silent

INDEX, REDACTED_INDEX = "index.html", "index-redacted.html"
"""The names of a folder's index, and of an index that links only to redacted pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderComparison:
    """A page that compares the complete runs with the same questions.

    Attributes:
        page: the file of the page.
        benchmark: the name of the benchmark of the runs.
        runs: the names of the runs, the baseline first.
    """

    page: Path
    benchmark: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderIndex:
    """The result of `write_index`.

    Attributes:
        path: the file of the index.
        runs: the runs, sorted by name.
        comparisons: one comparison for each set of questions that several complete runs have.
        notes: messages about runs and pages that were left out.
    """

    path: Path
    runs: tuple[ListedRun, ...]
    comparisons: tuple[FolderComparison, ...]
    notes: tuple[str, ...]

    @property
    def table(self) -> Table:
        """A table with one row per run."""
        columns = ("Run", "State", "Leakage", "Verdict or error")
        rows = []
        for run in self.runs:
            statement = run.verdict.headline if run.verdict else run.note
            figure = run.verdict.number if run.verdict else None
            rows.append((run.name, run.state, figure, Cell(statement, prose=True)))
        return Table.plain("Runs", columns, rows)

    def to_dict(self) -> JsonObject:
        """Return the index as JSON."""
        runs = []
        for run in self.runs:
            facts = {name: getattr(run, name) for name in ("name", "state", "note", "page")}
            runs.append({**facts, "verdict": run.verdict and run.verdict.to_dict()})
        return object_of({"index": self.path, "runs": runs, "comparisons": self.comparisons})


def write_index(
    folder: str | Path, *, redact: Redaction | None = None, progress: Progress = silent
) -> FolderIndex:
    """Write an index of the runs in a folder, with all pages to which the index links.

    A complete run gets a new report page, unless its page is from this version and newer than all
    other files of the run. Complete runs with the same questions get one page that compares them
    with the run that began first.

    Args:
        folder: a folder that contains runs, directly or in subfolders.
        redact: True: omit answers, keywords and completions from the pages of the complete runs,
            and from later pages and exports, until False is given; "questions": omit questions too
            (None: the last value that was given for each run).
        progress: called with the number of runs that are read and of pages that are written.

    Returns:
        The index with its runs and comparisons. Its file is `index.html`, or `index-redacted.html`
        if all its pages are redacted.

    Raises:
        InputError: there is no run in the folder, or it cannot be written into.
        IncompleteError: the disk is full or fails.
    """
    root = Path(folder)
    notes: list[str] = []
    folders = runs_in(root, notes)
    if not folders:
        raise InputError(
            f"neither `{root}` nor a folder below it is a run directory: no run.json was found. "
            f"Make one with `leakbound evaluate … --out {root / 'NAME'}`. {' '.join(notes)}".strip()
        )
    runs = [listed_run(path, root) for path in counted(progress, "reading", folders, "runs")]
    runs = [_with_page(run, redact, notes) for run in counted(progress, "pages", runs, "runs")]
    redacted = [run.run.redacted for run in runs if run.run and run.page]
    private = bool(redacted) and all(redacted) if redact is None else bool(redact)
    path = root / (REDACTED_INDEX if private else INDEX)
    groups, changed = _same_questions(runs, notes), {run.name: run.changed for run in runs}
    comparisons: list[FolderComparison] = []
    for group in counted(progress, "comparing", groups, "pages") if groups else ():
        name = f"comparison-{len(comparisons) + 1}"
        try:
            comparisons.append(_compared(group, changed, path, name, redact))
        except Exception as error:  # the index is written without this page
            names = ", ".join(f"`{name}`" for name in group)
            notes.append(f"{names} are not compared: {message_of(error)}")
    index = FolderIndex(
        path=path, runs=tuple(runs), comparisons=tuple(comparisons), notes=tuple(notes)
    )
    write_text(path, _rendered("index.html", index=index, name=name_of(root, root)))
    return index


def _with_page(run: ListedRun, redact: Redaction | None, notes: list[str]) -> ListedRun:
    """Return the run with its page; write the page if a complete run has no current page."""
    if run.run is None or run.verdict is None:
        return run
    redacted = run.run.redacted if redact is None else redact
    page = run.path / (REDACTED_PAGE if redacted else PAGE)
    if redacted != run.run.redacted or not _is_current(page, run.changed):
        before = len(run.run.notes)
        try:
            page = report(run.run, redact=redact)
        except Exception as error:  # an error in one run must not keep the others from their pages
            notes.append(f"`{run.name}` has no page: {message_of(error)}")
            return run
        notes.extend(run.run.notes[before:])
    return replace(run, page=page)


def _is_current(page: Path, changed: int, mark: str = "") -> bool:
    """Return whether a page has this version and `mark`, and is newer than the run's files."""
    if page.is_symlink() or not page.is_file() or page.stat().st_mtime_ns <= changed:
        return False
    with page.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(2_000)
    return f'content="leakbound {leakbound.__version__}"' in head and mark in head


def _same_questions(runs: Sequence[ListedRun], notes: list[str]) -> list[dict[str, Run]]:
    """Return groups of complete runs with the same questions, each sorted by start time.

    Copies of a run are left out; a note lists each of them.
    """
    opened = {run.name: run.run for run in runs if run.run and run.verdict}
    groups: dict[tuple[str, ...], dict[frozenset[str], str]] = {}
    for name, run in sorted(opened.items(), key=lambda item: (item[1].record.created, item[0])):
        questions = (run.record.benchmark.sha256, *(query.id for query in run.questions))
        draws = frozenset(target.drawn_as for target in sampled_targets({name: run}).values())
        first = groups.setdefault(questions, {}).setdefault(draws, name)
        if first != name:
            notes.append(f"`{name}` is not compared, because it has the same draws as `{first}`.")
    names = (list(group.values()) for group in groups.values())
    return [{name: opened[name] for name in group} for group in names if len(group) > 1]


def _compared(
    runs: Mapping[str, Run],
    changed: Mapping[str, int],
    index: Path,
    name: str,
    redact: Redaction | None,
) -> FolderComparison:
    """Write the page that compares these runs, unless it is current, and return its description."""
    withheld = redact or any(run.redacted for run in runs.values())
    page = index.with_name(f"{name}-redacted.html" if withheld else f"{name}.html")
    benchmark = next(iter(runs.values())).record.benchmark.name
    made = FolderComparison(page=page, benchmark=benchmark, runs=tuple(runs))
    facts = (index.name, [(name, changed[name]) for name in runs])
    mark = sha256_of(ascii(facts))
    if not _is_current(page, 0, mark):
        comparison = compare(runs)
        if redact:
            comparison = replace(comparison, questions={})
        shown = {"comparison": comparison, "made": made, "index": index.name, "mark": mark}
        write_text(page, _rendered("compared.html", **shown))
    return made


def _rendered(template: str, **shown: object) -> str:
    """Return a page of the index as HTML; links consist of letters, digits and `%/-_.~`."""

    def link(path: Path, root: Path) -> Markup:
        return Markup(quote(os.fsencode(path.relative_to(root))))

    styles, scripts = ("page.css", "index.css"), ("tables.js",)
    return rendered(template, styles=styles, scripts=scripts, link=link, **shown)
