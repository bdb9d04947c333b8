"""Compare the numbers of ten studies at two commits.

    python bench/commits.py --old CHECKOUT --new CHECKOUT [--only STUDY ...] [--json FILE]

Runs the command lines of bench/studies.py at both commits, each with the packages of this Python
and the checkout's `src`. A wrapper fixes the order in which bets use the draws. `estimates` and
`--json` documents must agree to 1e-12. The study `stored` bounds draws that the old commit
exported. Exit status 1 if any other number differs. Takes three minutes on two idle cores; not part
of `.ci/run`.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from runner import keep, options
from studies import LOGS, commands_of, server, write_shared

CLOSE = 1e-12
NUMBERS = ("value", "lower", "upper", "n", "missing")
ABOUT = (
    "arm", "decoding", "scorer", "query_id", "quantity", "scope", "inputs", "beyond", "parameter",
    "constant", "knob", "seeds", "jointly", "proved", "family",
)  # fmt: skip
SETTINGS = ("temperature", "top_p", "top_k", "max_new_tokens")  # of a decoding, at both commits
SIDES = ("old", "new")
Row = dict[str, Any]  # the numbers of a statement, its subject and its method
Rows = dict[str, Row]  # by subject; keys of documents begin with "--json"


BOUNDS = ("value", "lower", "upper")


def agree(old: Any, new: Any) -> bool:
    """Return whether two numbers or words are the same, numbers within `CLOSE`; NaN is None."""
    old, new = (None if isinstance(x, float) and math.isnan(x) else x for x in (old, new))
    if isinstance(old, int | float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(old == new)


def differences(old: Rows, new: Rows) -> list[str]:
    """Return the differences between the rows of a study at two commits.

    Documents repeat numbers of the table. Their difference is left out if the table has it too.

    Args:
        old: the rows of the old commit, by what they are about.
        new: the rows of the new commit.
    """
    got: list[str] = []
    known = set[tuple[Any, ...]]()
    for key in sorted({**old, **new}, key=lambda key: key.startswith("--json")):
        was, now = old.get(key), new.get(key)
        if was and now and all(agree(was.get(x), now.get(x)) for x in NUMBERS):
            continue
        ends = tuple((row or {}).get(x) for row in (was, now) for x in BOUNDS)
        if not (key.startswith("--json") and ends in known):
            got.append(f"{key}: {_shown(was)} -> {_shown(now)}")
        if was and now:
            known.add(ends)
    return got


def _shown(row: Row | None) -> str:
    named = (f"{x} {row[x]!r}" for x in NUMBERS if row.get(x) is not None) if row else ()
    return ", ".join(named) or "nothing"


def child(job: Row) -> None:
    """Run the commands of a study in this process; write down their numbers.

    The order of bets is fixed, and each arm has a row with the key of its order.
    """
    leakbound = importlib.import_module("leakbound")
    if not Path(leakbound.__file__ or "").is_relative_to(job["source"]):
        raise SystemExit(f"imported {leakbound.__file__}, which is not in {job['source']}")
    _home("entropy", "leakbound.stats").entropy = lambda: 0
    home = _home("draws_key", "leakbound")
    order_key: Callable[[Any], int] = home.draws_key
    home.draws_key = lambda arm: sum(str(arm.key).encode())
    main = importlib.import_module("leakbound.cli").main
    rows: Rows = {}
    for number, command in enumerate(job["commands"]):
        sys.argv, status = ["leakbound", *command], 0
        with redirect_stdout(io.StringIO()) as printed:
            try:
                main()
            except SystemExit as ended:
                status = int(ended.code or 0)
        if status not in ((0, 4, 5) if command[0] == "certify" else (0,)):
            raise SystemExit(f"`leakbound {' '.join(command)}` ended with status {status}")
        got: list[Row] = [{"place": "exit status", "value": status}]
        with suppress(json.JSONDecodeError):
            got += statements(json.loads(printed.getvalue() if command[0] != "certify" else "[]"))
        rows |= keyed(f"--json of {command[0]} {number}", got)
    for file in sorted(Path().glob(f"{job['study']}*/run.json")):
        run = leakbound.load(file.parent)
        arms = {str(name): arm for name, arm in run.arms.items()}
        how = {
            name: " ".join(str(getattr(arm.decoding, setting, "")) for setting in SETTINGS)
            for name, arm in arms.items()
        }
        got = [row.to_dict() | {"decoding": how.get(row.arm)} for row in run.estimates]
        for name, arm in arms.items():
            got.append({"quantity": "order key", "arm": name, "value": str(order_key(arm))})
        rows |= keyed(file.parent.name, got)
    keep(Path(f"{job['study']}.json"), rows)


def _home(name: str, package: str) -> Any:
    """Return the module of a package that defines a name at this commit."""
    root = Path(importlib.import_module(package).__file__ or "").parent
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if f"\ndef {name}(" in text or f"\nclass {name}:" in text:
            parts = file.relative_to(root).with_suffix("").parts
            return importlib.import_module(".".join((package, *parts)))
    raise SystemExit(f"`{name}` is nowhere in `{package}`: adapt {Path(__file__).name}")


def statements(document: Any, place: str = "") -> Iterator[Row]:
    """Yield the statements in a JSON document, with places: objects with bounds, and verdicts."""
    if isinstance(document, list):
        for i, member in enumerate(document):
            name = member.get("id", i) if isinstance(member, dict) else i
            yield from statements(member, f"{place}[{name}]")
    elif isinstance(document, dict):
        if "lower" in document and "upper" in document:
            yield {**document, "place": "" if "quantity" in document else place}
        for name, member in document.items():
            if name in ("verdict", "kind") and isinstance(member, str):
                yield {"place": f"{place}.{name}", "value": member}
            yield from statements(member, f"{place}.{name}")


def keyed(source: str, rows: Iterable[Row]) -> Rows:
    """Key rows by their subject; further rows about the same subject are marked."""
    got: Rows = {}
    for row in (row for row in rows if row.get("family") not in ("claim", "simultaneous")):
        about = [name for name in ("place", *ABOUT) if name != "decoding" or source[:6] != "--json"]
        words = [source, *(row.get(name) for name in about)]
        key = " | ".join(str(word) for word in words if word not in (None, "", False))
        while key in got:
            key += " again"
        kept = {name: row.get(name) for name in (*ABOUT, *NUMBERS, "over")}
        got[key] = kept | {"method": row.get("method") or ""}
    return got


def started(folder: Path, study: str, checkout: Path, commands: object) -> subprocess.Popen[bytes]:
    """Start the commands of a study at one commit."""
    source = checkout / "src"
    file = folder / f"{study}.job.json"
    keep(file, {"source": source, "commands": commands, "study": study})
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
    settings = os.environ | fixed | {"PYTHONPATH": str(source)}
    with (folder / f"{study}.log").open("wb") as log:
        command = [sys.executable, __file__, "--child", str(file)]
        return subprocess.Popen(command, cwd=folder, env=settings, stderr=log)


def main() -> int:
    """Compare the studies at two commits; return 1 if a number differs."""
    listed = list(commands_of({}))
    given = options(
        __doc__,
        old=(Path, "a checkout of the commit before"),
        new=(Path, "a checkout of the commit after"),
        only=(listed, "some of the studies", listed),
        child=(Path, "a study that this command runs in another process"),
    )
    if given.child:
        child(json.loads(given.child.read_text()))
        return 0
    if not (given.old and given.new):
        raise SystemExit("nothing compared: name --old and --new, two checkouts")
    wanted = [*(["fixed"] if "stored" in given.only else []), *given.only]
    others: dict[str, list[str]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, server() as served:
        root = Path(scratch).resolve()
        places = {"shared": write_shared(root / "shared"), "logs": LOGS, "old": root / "old"}
        commands = commands_of({**places, "served": f"openai:{served.url}#m"})
        for side in SIDES:
            (root / side).mkdir(exist_ok=True)
        for study in dict.fromkeys(wanted):
            since = time.monotonic()
            running = {
                side: started(root / side, study, vars(given)[side].resolve(), commands[study])
                for side in SIDES
            }
            try:
                for side, process in running.items():
                    if process.wait():
                        print((root / side / f"{study}.log").read_text())
                        raise SystemExit(f"{study}: the {side} commit failed, see above")
            finally:
                for process in running.values():
                    process.kill()  # the other process, if one failed
            old, new = (json.loads((root / side / f"{study}.json").read_text()) for side in SIDES)
            others[study] = differences(old, new)
            seconds = time.monotonic() - since
            print(
                f"{study:10}{seconds:6.1f} s, {len(old):6,} rows: {len(others[study])} differences",
                flush=True,
            )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    print(f"{'together':10}{time.monotonic() - begun:6.1f} s, {processor:.0f} s of CPU")
    for study, got in others.items():
        for difference in got:
            print(f"DIFFERS {study}: {difference}")
    keep(given.json, others)
    return int(any(others.values()))


if __name__ == "__main__":
    sys.exit(main())
