"""Find the runs in a folder, and make a row for each run in any state.

This module writes nothing. It reads nothing outside the folder, and follows no link to a place
outside the folder. The row of a damaged run has its error; the other runs are still listed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from leakbound.errors import IncompleteError, InputError, LeakboundError
from leakbound.evaluation.following import RunSoFar
from leakbound.presenting.sentences import loaded_name
from leakbound.presenting.specification import how_drawn
from leakbound.presenting.verdict import Verdict, verdicts
from leakbound.presenting.view import read_view
from leakbound.reporting.page import PAGE, REDACTED_PAGE
from leakbound.store import LOCK, SOFT_LOCK, DamagedError, OtherVersionError, Run, holder_of
from leakbound.store.record import FILE

State = Literal["complete", "in progress", "no bounds", "damaged", "other version"]
MOST_FOLDERS = 20_000
_NOT_READ = frozenset({PAGE, REDACTED_PAGE, LOCK, SOFT_LOCK})  # files of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run of a folder.

    Attributes:
        name: the path of the run below the folder, as text.
        path: the folder of the run.
        state: "complete", "in progress", "no bounds" (everything is drawn, but no bounds are stored
            and no command is running), "damaged" or "other version".
        note: the error, the missing parts, or the running command; empty for a complete run.
        run: the open run; None if it cannot be opened.
        changed: the time of the last change of a file, in nanoseconds; 0 if it is not known.
        model: the name of the model.
        draws: the number of draws per question, in words.
        n: the planned number of draws per question; None for a run with only greedy answers.
        look: the progress of a run in progress; None in other states.
        verdict: the verdict on the model, with the run's certificate; None without a verdict.
        confidence: the confidence of the verdict; None without a verdict.
        page: the report page of the run; None without a page.
    """

    name: str
    path: Path
    state: State = "damaged"
    note: str = ""
    run: Run | None = None
    changed: int = 0
    model: str = ""
    draws: str = ""
    n: int | None = None
    look: RunSoFar | None = None
    verdict: Verdict | None = None
    confidence: float | None = None
    page: Path | None = None


def runs_in(root: Path, notes: list[str]) -> list[Path]:
    """Return the sorted folders of the runs in `root`; add notes on folders that were not searched.

    A folder within a run belongs to that run and is not listed.
    """
    folders: list[Path] = []

    def unreadable(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # else it was removed in the meantime
            name = name_of(Path(os.fsdecode(error.filename)), root)
            notes.append(f"`{name}` cannot be read: {error.strerror}.")

    for number, (place, below, files) in enumerate(os.walk(root, onerror=unreadable)):
        folder = Path(place)
        if number >= MOST_FOLDERS:
            notes.append(f"Only the first {MOST_FOLDERS:,} folders were searched for runs.")
            break
        if FILE in files or FILE in below:
            folders.append(folder)
            below.clear()
            continue
        below[:] = sorted(name for name in below if not name.startswith("."))
        for link in (folder / name for name in below):
            if link.is_symlink() and _leads_out(link, root):
                notes.append(f"`{name_of(link, root)}` is a link and was not searched.")
    return sorted(folders)


def name_of(path: Path, root: Path) -> str:
    """Return a path relative to `root` as text; bytes that are not UTF-8 are escaped."""
    name = root.resolve().name if path == root else path.relative_to(root).as_posix()
    return name.encode("utf-8", "backslashreplace").decode()


def _leads_out(link: Path, root: Path) -> bool:
    return not link.resolve().is_relative_to(root.resolve())


def listed_run(folder: Path, root: Path) -> ListedRun:
    """Return the row of a run with its verdict or its error."""
    row = ListedRun(name=name_of(folder, root), path=folder)
    try:
        row = replace(row, changed=_last_change(folder, root))
        return _described(Run.open(folder), row)
    except OtherVersionError as error:
        return replace(row, state="other version", note=str(error))
    except Exception as error:  # an error in one run must not keep the others from being listed
        return replace(row, note=message_of(error))


def message_of(error: Exception) -> str:
    """Return the message of an error in one line, with the type of an unexpected error."""
    text = " ".join(str(error).split())
    ours = isinstance(error, LeakboundError)
    return text if ours else f"an unexpected error occurred ({type(error).__name__}: {text})"


def _last_change(folder: Path, root: Path) -> int:
    """Return the time of the last change of a file of a run, in nanoseconds.

    Raises InputError for a link or a special file that must not be read.
    """
    last = 0
    for place, below, files in os.walk(folder):
        for name in [*below, *files]:
            file = Path(place, name)
            if name in _NOT_READ or name.endswith(".partial"):
                continue
            shown = f"`{name_of(file, folder)}` of this run"
            if file.is_symlink() and (name in below or _leads_out(file, root)):
                raise InputError(
                    f"{shown} is a link to a folder, or to a file outside the index's folder. Such "
                    "links are not followed. Replace the link with its target."
                )
            with suppress(FileNotFoundError):  # removed in the meantime
                status = file.stat()
                if name in files and not S_ISREG(status.st_mode):
                    raise InputError(f"{shown} is not a file. Remove it.")
                last = max(last, status.st_mtime_ns)
    return last


def _described(run: Run, row: ListedRun) -> ListedRun:
    """Return the row of an open run, filled from its record and its estimates."""
    main = next((a for a in run.arms.values() if a.key.own_words and not a.key.greedy), None)
    name = main.spec.model if main else ""
    row = replace(
        row,
        state="complete",
        run=run,
        model=name if "://" in name else loaded_name(name),
        draws=how_drawn(main) if main else "greedy answers only",
        n=main.plan.n if main else None,
    )
    running = holder_of(run.path)
    try:
        scorers = run.estimates.scorers
    except DamagedError as error:
        return replace(row, state="damaged", note=message_of(error))
    except IncompleteError as error:
        note = f"running: {running}" if running else message_of(error)
        return replace(row, state="in progress", note=note, look=RunSoFar.of(run))
    except LeakboundError as error:
        if running is None:
            return replace(row, state="no bounds", note=message_of(error))
        return replace(row, state="in progress", note=f"all draws are stored; running: {running}")
    view = read_view(run) if scorers else None
    shown = verdicts(view) if view else ()
    if view is None or not shown:
        return replace(row, note="no question was sampled, or only greedy answers were drawn")
    return replace(row, verdict=shown[0], confidence=view.confidence)
