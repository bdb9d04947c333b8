"""The effects of kills, faults, flipped bits and hostile files on every command.

    python bench/faults.py                      # everything: hours on two cores
    python bench/faults.py --limit 2            # two events of each kind of fault per command
    python bench/faults.py --only flips --limit 5
    python bench/faults.py --write docs/reproduce/reliability.md    # only write the tables there

An interrupted bench resumes: each try is a line of --results, and the tries there are not repeated.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "cli")]

from injector.cases import (  # noqa: E402
    OUTCOMES,
    Outcome,
    Workshop,
    attempt,
    clean,
    judge_server,
    spread,
)
from injector.events import ACTIONS, durable_faults  # noqa: E402
from injector.server import Server  # noqa: E402
from leakbound.store import write_text  # noqa: E402
from runner import keep, markdown, options, write_into  # noqa: E402

WORST = ("traceback", "lost", "wrong", "refused", "same")


@dataclass(frozen=True, slots=True)
class Row:
    """One try: its part and case, the fault, and the outcome."""

    part: str
    case: str
    what: str
    kind: str
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a try, which is not repeated."""
        return self.part, self.case, self.what


class Book:
    """The lines of the results; a line that a kill cut short is dropped and tried again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: dict[tuple[str, str, str], Row] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                row = Row(**json.loads(line))
            except (ValueError, TypeError):
                continue
            self.rows[row.key] = row
        write_text(file, "".join(json.dumps(asdict(row)) + "\n" for row in self.rows.values()))

    def has(self, *key: str) -> bool:
        """Return whether this was tried."""
        return key in self.rows

    def tried(self, part: str, case: str, what: str, outcome: Callable[[], Outcome]) -> None:
        """Try this, unless it was tried."""
        if not self.has(part, case, what):
            got = outcome()
            self.add(Row(part, case, what, got.kind, got.why))

    def add(self, row: Row) -> None:
        """Write a line immediately."""
        self.rows[row.key] = row
        with self.file.open("a") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")
        if row.kind not in ("same", "refused"):
            print(f"{row.kind}: {row.part}, {row.case}, {row.what}: {row.why}", flush=True)


def kills_and_faults(book: Book, limit: int | None) -> None:
    """Try every command that writes, on models with tied and untied embeddings."""
    for tied in (False, True):
        with ExitStack() as stack:
            judge = stack.enter_context(judge_server())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            workshop = Workshop(folder, tied=tied, judge=judge.url)
            server = stack.enter_context(Server(workshop.work))
            for case in workshop.cases:
                name, what = f"{case}{' (tied)' if tied else ''}", f"limit {limit}"
                tried = workshop.cases[case].trains or not tied
                if not tried or book.has("finished", name, what):
                    continue
                without = clean(workshop, case, server)
                cut, count = durable_faults(without.events), f"{len(without.events)} events"
                book.add(Row("power cuts", name, count, "lost" if cut else "same", "; ".join(cut)))
                for action in ACTIONS:
                    for fault in spread(action, without, limit):
                        outcome = partial(attempt, workshop, case, fault, without, server)
                        book.tried("faults", name, f"{action} at {fault.at}", outcome)
                book.add(Row("finished", name, what, "same"))


def worst(run: Any, *flip: Any) -> Outcome:
    """Return the worst outcome of several commands that read a run with a flipped bit."""
    got = [Outcome(kind, f"{by}: {why}") for by, (kind, why) in run.outcomes(*flip)]
    return min(got, key=lambda outcome: WORST.index(outcome.kind))


def flipped_bits(book: Book, limit: int | None) -> None:
    """Flip bits of every file of a finished run, and repeat every command that reads it."""
    from flips import RUNS, Flipped, flips

    each = 8 * limit if limit else 64
    for name in RUNS:
        case = f"{name} run"
        if book.has("finished", case, f"{each}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = Flipped(name, Path(folder))
            for file, place, bit in flips(run.before, each):
                outcome = partial(worst, run, file, place, bit)
                book.tried("flips", case, f"{file} byte {place} bit {bit}", outcome)
        book.add(Row("finished", case, f"{each}", "same"))


def hostile_files(book: Book, limit: int | None) -> None:
    """Try hostile models, logs of other tools and judge servers."""
    from hostile import logs, models, servers

    parts = {
        "models": (models.MODELS, models.outcome),
        "logs": (logs.LOGS, logs.outcome),
        "servers": (servers.SERVERS, servers.outcome),
    }
    for part, (table, outcome) in parts.items():
        for name in table:
            with tempfile.TemporaryDirectory() as folder:
                read = partial(outcome, name, Path(folder))
                book.tried("hostile", part, name, lambda read=read: Outcome(*read()))


PARTS: Mapping[str, Callable[[Book, int | None], None]] = {
    "faults": kills_and_faults,
    "flips": flipped_bits,
    "hostile": hostile_files,
}


def tables(rows: list[Row]) -> str:
    """Return the tables of the page, between blank lines.

    A power cut is tried once per command, so it has no table.
    """
    titles = {
        "faults": "Kills and faults, by command",
        "flips": "Flipped bits, by kind of run",
        "hostile": "Hostile files and servers",
    }
    seen = [_table([row for row in rows if row.part != "finished"], lambda row: row.part)]
    for part, title in titles.items():
        if mine := [row for row in rows if row.part == part]:
            seen.append(f"### {title}\n\n{_table(mine, lambda row: row.case)}")
            if part == "faults":
                by_action = _table(mine, lambda row: row.what.partition(" at ")[0])
                seen.append(f"### Kills and faults, by kind\n\n{by_action}")
    return "\n".join(["", "\n\n".join(seen), ""])


def _table(rows: list[Row], name: Callable[[Row], str]) -> str:
    """Return a line for the cases with equal counts: the tries of each, and their outcomes."""
    lines: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for case in dict.fromkeys(map(name, rows)):
        lines.setdefault(_counts([r for r in rows if name(r) == case]), []).append(f"`{case}`")
    made = [{"case": ", ".join(cases), **dict(counts)} for counts, cases in lines.items()]
    return markdown([*made, {"case": "together", **dict(_counts(rows))}])


def _counts(rows: list[Row]) -> tuple[tuple[str, str], ...]:
    got = Counter(row.kind for row in rows)
    return ("tries of each", f"{got.total():,}"), *((k, f"{got[k]:,}") for k in OUTCOMES)


def main() -> int:
    """Return 1 if anything was lost or wrong, or ended in a traceback."""
    args = options(
        __doc__,
        only=(list(PARTS), "kinds of faults", PARTS),
        limit=(int, "tries of each kind for a case"),
        results=(Path("bench-faults.jsonl"), "each try is a line of this file"),
        write=(Path, "only write the tables into this page"),
    )
    book = Book(args.results)
    for part in args.only if args.write is None else ():
        PARTS[part](book, args.limit)
    rows = list(book.rows.values())
    if args.write is None:
        print(tables(rows))
    else:
        write_into(args.write, "bench/faults.py", tables(rows))
    keep(args.json, [asdict(row) for row in rows])
    return int(any(row.kind in WORST[:3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
