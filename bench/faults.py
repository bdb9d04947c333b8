"""The effects of kills, faults, flipped bits and hostile files on every command.

    python bench/faults.py                      # everything: hours on two cores
    python bench/faults.py --limit 2            # two events of each kind of fault per command
    python bench/faults.py --only flips --limit 5
    python bench/faults.py --write              # tables into docs/reproduce/reliability.md
    python bench/faults.py --write PAGE

An interrupted bench resumes: each try is a line of --results, and the tries there are not repeated.
`--write` writes the tables of all lines into the page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

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
from runner import markdown  # noqa: E402

RESULTS = Path("bench-faults.jsonl")
PAGE = Path("docs/reproduce/reliability.md")
BEGIN, END = "<!-- made by bench/faults.py: begin -->", "<!-- end -->"
WORST = ("traceback", "lost", "wrong", "refused", "same")


@dataclass(frozen=True, slots=True)
class Row:
    """One try: of which part and case, what was done, and how it ended."""

    part: str
    case: str
    what: str
    kind: str
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What is not tried again."""
        return self.part, self.case, self.what


class Book:
    """The lines of the results; a line that a kill cut short is left out, and made again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: dict[tuple[str, str, str], Row] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                row = Row(**json.loads(line))
            except (ValueError, TypeError):
                continue
            self.rows[row.key] = row
        text = "".join(json.dumps(asdict(row)) + "\n" for row in self.rows.values())
        partial = file.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(file)

    def has(self, part: str, case: str, what: str) -> bool:
        """True if this was tried."""
        return (part, case, what) in self.rows

    def add(self, row: Row) -> None:
        """Write a line down at once."""
        self.rows[row.key] = row
        with self.file.open("a") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")
        if row.kind not in ("same", "refused"):
            print(f"{row.kind}: {row.part}, {row.case}, {row.what}: {row.why}", flush=True)


def kills_and_faults(book: Book, limit: int | None, cases: re.Pattern[str]) -> None:
    """Every command that writes, on models with an output head of their own and without."""
    for tied in (False, True):
        with ExitStack() as stack:
            judge = stack.enter_context(judge_server())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            workshop = Workshop(folder, tied=tied, judge=judge.url)
            server = stack.enter_context(Server(workshop.work))
            for case in workshop.cases:
                if cases.search(case) and (workshop.cases[case].trains or not tied):
                    _one_case(book, workshop, server, case, limit, " (tied)" if tied else "")


def _one_case(
    book: Book, workshop: Workshop, server: Server, case: str, limit: int | None, tied: str
) -> None:
    done = f"{case}{tied}", f"limit {limit}"
    if book.has("finished", *done):
        return
    without = clean(workshop, case, server)
    cut = durable_faults(without.events)
    book.add(
        Row("power cuts", done[0], f"{len(without.events)} events", "lost" if cut else "same",
            "; ".join(cut))
    )  # fmt: skip
    for action in ACTIONS:
        for fault in spread(action, without, limit):
            what = f"{action} at {fault.at}"
            if not book.has("faults", done[0], what):
                found = attempt(workshop, case, fault, without, server)
                book.add(Row("faults", done[0], what, found.kind, found.why))
    book.add(Row("finished", *done, "same"))


def worst(found: Iterator[Outcome]) -> Outcome:
    """Of several commands about one thing, the one that did worst."""
    return min(found, key=lambda outcome: WORST.index(outcome.kind))


def flipped_bits(book: Book, limit: int | None, cases: re.Pattern[str]) -> None:
    """Bits of every file of a finished run, and every command that reads it asked again."""
    from flips import RUNS, Flipped, flips

    each = 8 * limit if limit else 64
    for name in RUNS:
        case = f"{name} run"
        if not cases.search(name) or book.has("finished", case, f"{each}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = Flipped(name, Path(folder))
            for file, place, bit in flips(run.before, each):
                what = f"{file} byte {place} bit {bit}"
                if not book.has("flips", case, what):
                    told = run.outcomes(file, place, bit)
                    found = worst(Outcome(kind, f"{by}: {why}") for by, (kind, why) in told)
                    book.add(Row("flips", case, what, found.kind, found.why))
        book.add(Row("finished", case, f"{each}", "same"))


def hostile_files(book: Book, limit: int | None, cases: re.Pattern[str]) -> None:
    """Models, logs of other tools and servers of a judge that mean no good."""
    from hostile import logs, models, servers

    parts = {
        "models": (models.MODELS, models.outcome),
        "logs": (logs.LOGS, logs.outcome),
        "servers": (servers.SERVERS, servers.outcome),
    }
    for part, (table, outcome) in parts.items():
        for name in table:
            if cases.search(part) and not book.has("hostile", part, name):
                with tempfile.TemporaryDirectory() as folder:
                    book.add(Row("hostile", part, name, *outcome(name, Path(folder))))


PARTS: Mapping[str, Callable[[Book, int | None, re.Pattern[str]], None]] = {
    "faults": kills_and_faults,
    "flips": flipped_bits,
    "hostile": hostile_files,
}


def tables(rows: list[Row]) -> str:
    """The tables of the page; a power cut is tried once per command, so it has no table."""
    titles = {
        "faults": "Kills and faults, by command",
        "flips": "Flipped bits, by kind of run",
        "hostile": "Hostile files and servers",
    }
    told = [_summary(rows)]
    for part, title in titles.items():
        if mine := [row for row in rows if row.part == part]:
            told.append(f"### {title}\n\n{_table(mine, lambda row: row.case)}")
            if part == "faults":
                by_action = _table(mine, lambda row: row.what.partition(" at ")[0])
                told.append(f"### Kills and faults, by kind\n\n{by_action}")
    return "\n\n".join(told)


def _summary(rows: list[Row]) -> str:
    tried = [row for row in rows if row.part != "finished"]
    return _table(tried, lambda row: row.part)


def _table(rows: list[Row], name: Callable[[Row], str]) -> str:
    """A line for the cases with equal counts: the tries of each, and how they ended."""
    lines: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for case in dict.fromkeys(map(name, rows)):
        lines.setdefault(_counts([r for r in rows if name(r) == case]), []).append(f"`{case}`")
    made = [{"case": ", ".join(cases), **dict(counts)} for counts, cases in lines.items()]
    return markdown([*made, {"case": "together", **dict(_counts(rows))}])


def _counts(rows: list[Row]) -> tuple[tuple[str, str], ...]:
    found = Counter(row.kind for row in rows)
    return ("tries of each", f"{found.total():,}"), *((k, f"{found[k]:,}") for k in OUTCOMES)


def write(page: Path, rows: list[Row]) -> None:
    """Put the tables between the marks of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{tables(rows)}\n\n{END}{after}")


def main() -> int:
    """Status 1 where anything was lost or wrong, or ended in a traceback."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--limit", type=int, help="tries of each kind for a case")
    parser.add_argument("--cases", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=PAGE,
        metavar="PAGE",
        help=f"only write {PAGE}",
    )
    asked = parser.parse_args()
    book = Book(asked.results)
    if asked.write is None:
        for part in asked.only or PARTS:
            PARTS[part](book, asked.limit, asked.cases)
    rows = list(book.rows.values())
    if asked.write is not None:
        write(asked.write, rows)
    else:
        print(tables(rows))
    return int(any(row.kind in WORST[:3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
