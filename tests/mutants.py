"""Break what guards numbers and see that a test notices: `make mutants`, `make mutants-all`.

mutmut makes the mutants (pyproject.toml says of which files, and which tests may notice); this
script asks it for every mutant of the functions in `GUARDED`, none of which may survive, and for
some of the others. A gate takes those of functions that the last `COMMITS` commits touched, and of
the rest those that have its turn, so that forty run all; without a turn a sample is drawn by the
digest of the mutated files. Survivors are printed. Exit status 1 if one of `GUARDED` survives, or
if what was drawn refutes that at most `LEVEL` of all mutants survive, with one false alarm in 1,000
runs.

The level is not zero because many mutants change no number: an end that is clipped later, a
default that numpy has anyway, a tolerance a little wider, a word of a message. Lines of text alone
are left out by pattern; the rest of those that are equivalent is what the level is for.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scipy.stats import binomtest

from rotation import CLEAN_ALREADY, MUTANTS, has_turn

ROOT = Path(__file__).parent.parent
MUTMUT = Path(sys.executable).with_name("mutmut")
WORKERS = "2"
SAMPLE = 200  # of all but the guarded, where no turn is given
COMMITS = 20
TOUCHED = 60  # at most so many of what they touched
LEVEL = 0.15
GUARDED = (
    "leakbound.losses.inputs.x*lengths_over*",
    "leakbound.losses.inputs.x*mean_length*",
    "leakbound.losses.likelihood.x_*",
    "leakbound.losses.preference.x_*",
    "leakbound.losses.targets.x_*",
    "leakbound.sampling.prove.x*_Hunt*_goes_on*",
    "leakbound.stats.comparing.x_difference_over_questions*",
    "leakbound.stats.comparing.x_excess_of_mean_and_worst*",
    "leakbound.stats.far.x_*",
    "leakbound.stats.mean_over_questions.x__either_upper*",
    "leakbound.stats.mean_over_questions.x_mean_leak_at_k_over_questions*",
    "leakbound.stats.proportion.x_clopper_pearson_lower*",
    "leakbound.stats.seeds.x_median_over_seeds*",
    "leakbound.stats.watching.x_*",
    "leakbound.text.characters.x_*",
    "leakbound.text.keywords.x*",
)
DEAD = ("killed", "timeout", "segfault", "suspicious")


def mutmut(*arguments: str, clean: bool = False) -> None:
    """Run mutmut at the root; one thread a worker, and tests in the same order each time.

    `clean`: the tests have passed without a mutant, on these very files.
    """
    settings = {
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        **({CLEAN_ALREADY: "1"} if clean else {}),
    }
    subprocess.run([MUTMUT, *arguments], cwd=ROOT, env=os.environ | settings, check=True)


def statuses() -> dict[str, str]:
    """Name -> status of every mutant."""
    command = [MUTMUT, "results", "--all", "true"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return dict(line.strip().rsplit(": ", 1) for line in said.splitlines() if ": " in line)


def mutated() -> list[Path]:
    """The files that mutmut mutates."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    found = {file for pattern in settings["only_mutate"] for file in ROOT.glob(pattern)}
    spared = {ROOT / name for name in settings["do_not_mutate"]}
    return sorted(file for file in found - spared if file.suffix == ".py")


def digest() -> str:
    """Of the files that are mutated."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in mutated())).hexdigest()


def touched(commits: int) -> list[str]:
    """What mutants of functions are called in which the last so many commits left a line."""
    first = f"HEAD~{commits}"
    known = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", first], cwd=ROOT, capture_output=True
    )
    if known.returncode:  # the history is shorter
        first = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # of no file, in every repository
    named = []
    for file in mutated():
        command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", first, "--", file]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", done.stdout, re.MULTILINE)
        lines = {int(at) + i for at, many in hunks for i in range(max(int(many or 1), 1))}
        named += [name for name, span in functions(file) if lines & set(span)]
    return named


def functions(file: Path) -> Iterator[tuple[str, range]]:
    """The functions and methods of a file: what their mutants are called, and their lines."""
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


def draw(names: list[str], turn: int | None, sample: int) -> list[str]:
    """The mutants of one run, but for the guarded; a gate says how many of which."""
    if turn is None:
        return random.Random(digest()).sample(names, sample)
    recent = [n for t in touched(COMMITS) for n in fnmatch.filter(names, t)]
    others = sorted(set(names) - set(recent))
    some = random.Random(turn).sample(recent, min(TOUCHED, len(recent)))
    due = [name for name in others if has_turn(name, turn, MUTANTS)]
    print(
        f"turn {turn % MUTANTS} of {MUTANTS}, by {turn}: {len(some)} of {len(recent)} mutants of"
        f" what the last {COMMITS} commits touched, {len(due)} of {len(others)} others"
    )
    return some + due


def verdict(found: dict[str, str]) -> int:
    """Print what survived of the mutants that ran, and by how much; 1 where that is too much."""
    ran = {name: status for name, status in found.items() if status != "not checked"}
    alive = sorted(name for name, status in ran.items() if status not in DEAD)
    must = [name for name in alive if guarded(name)]
    for name in alive:
        print(f"{ran[name].upper():9} {name}")
    print(", ".join(f"{count} {status}" for status, count in Counter(ran.values()).most_common()))
    others = [name for name in ran if not guarded(name)]
    left = len(alive) - len(must)
    refuted = binomtest(left, len(others), LEVEL, alternative="greater").pvalue < 1 / 1000
    print(f"{left} of {len(others)} survive: {left / len(others):.1%}; stated: {LEVEL:.0%}")
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
    mutmut("run", "--max-children", WORKERS, *GUARDED)
    names = [name for name in statuses() if not guarded(name)]
    drawn = draw(names, options.turn, options.sample)
    mutmut("run", "--max-children", WORKERS, *drawn, clean=True)
    return verdict(statuses())


if __name__ == "__main__":
    sys.exit(main())
