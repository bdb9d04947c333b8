"""Check that tests kill mutants of the code behind numbers: `make mutants`, `make mutants-all`.

mutmut makes the mutants; pyproject.toml lists the files and the tests. This script runs every
mutant of the functions in `GUARDED`, of which none may survive, and a sample of the others, drawn
by the digest of the mutated files. It prints survivors. The exit status is 1 if a mutant of
`GUARDED` survives, or if the others refute that at most `LEVEL` of all mutants survive, with one
false alarm in 1,000 runs.

A gate has a time box of `BOX` seconds. Mutants of functions that the last `COMMITS` commits touched
come first, then the guarded ones, then a fortieth of the rest, by the number of commits. At the end
of the box it prints the mutants that did not run, by function. Gates store no state; the number of
commits decides where the guarded ones start, and where the fortieth starts when it is due again.
These starts spread evenly, so every mutant runs after some rounds, even with a small box.

The level is not zero because many mutants change no number: a bound that is clipped later, a
default that numpy has too, a slightly wider tolerance, a word of a message. Patterns exclude lines
that are only text; the level allows for the other equivalent mutants.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scipy.stats import binomtest

from rotation import CLEAN_ALREADY, MUTANTS, has_turn

ROOT = Path(__file__).parent.parent
MUTMUT = Path(sys.executable).with_name("mutmut")
WORKERS = "2"
SAMPLE = 200  # of all but the guarded, where no turn is given
BOX = 15 * 60  # seconds of a gate, in all
BATCH = 100  # mutants per call: within a call, mutmut chooses the order
TRIES = 500  # to stop mutmut between two writes
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, spread evenly
COMMITS = 20
TOUCHED = 60  # the most mutants of touched functions
LEVEL = 0.15
GUARDED = (
    "leakbound.losses.inputs.x*lengths_over*",
    "leakbound.losses.inputs.x*mean_length*",
    "leakbound.losses.likelihood.x_*",
    "leakbound.losses.preference.x_*",
    "leakbound.losses.targets.x_*",
    "leakbound.sampling.search.x*BestFirstSearch*_stays_open*",
    "leakbound.stats.comparing.x_difference_over_questions*",
    "leakbound.stats.comparing.x_excess_of_mean_and_worst*",
    "leakbound.stats.far.x_*",
    "leakbound.stats.fisher.x_leaks_somewhere*",
    "leakbound.stats.joint.x_every_question*",
    "leakbound.stats.mean_over_questions.x__either_upper*",
    "leakbound.stats.mean_over_questions.x_largest_over_questions*",
    "leakbound.stats.proportion.x_clopper_pearson_lower*",
    "leakbound.stats.pool.x_unlike_mean*",
    "leakbound.stats.questions.x_worst_watched*",
    "leakbound.stats.seeds.x_median_over_seeds*",
    "leakbound.text.characters.x_*",
    "leakbound.text.counting.x*",
    "leakbound.text.keywords.x_*",
)
DEAD = ("killed", "timeout", "segfault", "suspicious")
OPEN = ("not checked", "check was interrupted by user")


def mutmut(*arguments: str, clean: bool = False, seconds: float | None = None) -> bool:
    """Run mutmut at the root, with one thread per worker and tests in a fixed order.

    Args:
        arguments: arguments of the command.
        clean: whether the tests have passed without a mutant on these files.
        seconds: time after which it is stopped with its workers; None: no limit.

    Returns:
        Whether it ended before the limit. Earlier results are stored in either case.
    """
    settings = {
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        **({CLEAN_ALREADY: "1"} if clean else {}),
    }
    process = subprocess.Popen(
        [MUTMUT, *arguments], cwd=ROOT, env=os.environ | settings, start_new_session=True
    )
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            kill(process)
    if status:
        raise subprocess.CalledProcessError(status, process.args)
    return True


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill mutmut and its workers at a time when its files of results are whole."""
    for _ in range(TRIES):
        process.send_signal(signal.SIGSTOP)  # it writes them, not its workers
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            for file in ROOT.glob("mutants/**/*.meta"):
                json.loads(file.read_bytes())
            break
        except ValueError:
            process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def statuses() -> dict[str, str]:
    """Return the status of every mutant."""
    command = [MUTMUT, "results", "--all", "true"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return dict(line.strip().rsplit(": ", 1) for line in output.splitlines() if ": " in line)


def mutated() -> list[Path]:
    """Return the files that mutmut mutates."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    got = {file for pattern in settings["only_mutate"] for file in ROOT.glob(pattern)}
    spared = {ROOT / name for name in settings["do_not_mutate"]}
    return sorted(file for file in got - spared if file.suffix == ".py")


def digest() -> str:
    """Return the digest of the mutated files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in mutated())).hexdigest()


def touched(commits: int) -> list[str]:
    """Return patterns of mutants of the functions that the last commits changed."""
    first = f"HEAD~{commits}"
    known = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", first], cwd=ROOT, capture_output=True
    )
    if known.returncode:  # the history is shorter
        first = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the empty tree of every repository
    named = []
    for file in mutated():
        command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", first, "--", file]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", done.stdout, re.MULTILINE)
        lines = {int(at) + i for at, many in hunks for i in range(max(int(many or 1), 1))}
        named += [name for name, span in functions(file) if lines & set(span)]
    return named


def functions(file: Path) -> Iterator[tuple[str, range]]:
    """Yield the pattern of mutants and the lines of every function and method of a file."""
    parts = file.relative_to(ROOT / "src").with_suffix("").parts
    module = ".".join(part for part in parts if part != "__init__")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for each in inside:
            if isinstance(each, ast.FunctionDef):
                own = f"xǁ{node.name}ǁ" if isinstance(node, ast.ClassDef) else "x_"
                first = min([each.lineno, *(d.lineno for d in each.decorator_list)])
                span = range(first, (each.end_lineno or each.lineno) + 1)
                yield f"{module}.{own}{each.name}__mutmut_*", span


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names in order, with a start that the number decides."""
    start = int(len(names) * (number * GOLDEN % 1))
    return [*names[start:], *names[:start]]


def queue(names: Sequence[str], turn: int) -> list[str]:
    """Return the mutants of a gate in the order in which they run."""
    recent = [n for t in touched(COMMITS) for n in fnmatch.filter(names, t)]
    first = random.Random(turn).sample(recent, min(TOUCHED, len(recent)))
    must = [name for name in names if guarded(name) and name not in first]
    rest = [name for name in names if not guarded(name) and name not in recent]
    due = [name for name in rest if has_turn(name, turn, MUTANTS)]
    print(
        f"turn {turn % MUTANTS} of {MUTANTS}, by {turn}: {len(first)} of {len(recent)} mutants of"
        f" what the last {COMMITS} commits touched, {len(must)} guarded ones, {len(due)} of"
        f" {len(rest)} others"
    )
    return first + rotated(must, turn) + rotated(due, turn // MUTANTS)


def gate(turn: int, clock: Callable[[], float] = time.monotonic) -> int:
    """Run the mutants of a gate within its time box; return 1 if too many survive."""
    end = clock() + BOX
    run = ("run", "--max-children", WORKERS)
    going = mutmut(*run, GUARDED[0], seconds=BOX)  # makes all mutants, and runs these
    got = statuses()
    names = queue(sorted(name for name, status in got.items() if status in OPEN), turn)
    for i in range(0, len(names), BATCH):
        left = end - clock()
        going = going and left > 0 and mutmut(*run, *names[i : i + BATCH], clean=True, seconds=left)
    got = statuses()
    if left_over := [name for name in names if got[name] in OPEN]:
        print(f"the {BOX // 60} minutes are spent: {len(left_over)} of {len(names)} did not run")
        for function, count in Counter(n.partition("__mutmut_")[0] for n in left_over).items():
            print(f"left for a later gate: {count:4} of {function}")
    return verdict(got)


def verdict(results: dict[str, str]) -> int:
    """Print the survivors and their rate; return 1 if too many survive."""
    ran = {name: status for name, status in results.items() if status not in OPEN}
    alive = sorted(name for name, status in ran.items() if status not in DEAD)
    must = [name for name in alive if guarded(name)]
    for name in alive:
        print(f"{ran[name].upper():9} {name}")
    print(", ".join(f"{count} {status}" for status, count in Counter(ran.values()).most_common()))
    others = [name for name in ran if not guarded(name)]
    left = len(alive) - len(must)
    number = max(len(others), 1)
    refuted = binomtest(left, number, LEVEL, alternative="greater").pvalue < 1 / 1000
    print(f"{left} of {len(others)} survive: {left / number:.1%}; stated: {LEVEL:.0%}")
    for name in must:
        print(f"must not survive: {name}; `mutmut show {name}` shows it. Write the test it misses.")
    return int(bool(must) or refuted)


def guarded(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in GUARDED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every mutant (hours); goes on")
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--turn", type=int, help="of the gate: the number of commits")
    options = parser.parse_args()
    if options.all:
        mutmut("run", "--max-children", WORKERS)
        return verdict(statuses())
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    if options.turn is not None:
        return gate(options.turn)
    mutmut("run", "--max-children", WORKERS, *GUARDED)
    names = sorted(name for name in statuses() if not guarded(name))
    drawn = random.Random(digest()).sample(names, options.sample)
    mutmut("run", "--max-children", WORKERS, *drawn, clean=True)
    return verdict(statuses())


if __name__ == "__main__":
    sys.exit(main())
