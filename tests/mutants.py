"""Break what guards numbers and see that a test notices: `make mutants`, `make mutants-all`.

mutmut makes the mutants (pyproject.toml says of which files, and which tests may notice); this
script asks it for every mutant of the functions in `GUARDED`, none of which may survive, and for
a sample of the others. The sample is drawn with the digest of the mutated files as its seed, so
it changes with them and with nothing else. Survivors are printed. Exit status 1 if one of
`GUARDED` survives, or if the sample refutes that at most `LEVEL` of all mutants survive, with
one false alarm in 1,000 runs.

The level is not zero because many mutants change no number: an end that is clipped later, a
default that numpy has anyway, a tolerance a little wider, a word of a message. Lines of text alone
are left out by pattern; the rest of those that are equivalent is what the level is for.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from scipy.stats import binomtest

ROOT = Path(__file__).parent.parent
MUTMUT = Path(sys.executable).with_name("mutmut")
WORKERS = "2"
SAMPLE = 200
LEVEL = 0.15
GUARDED = (
    "leakbound.losses.likelihood.x_*",
    "leakbound.losses.preference.x_npo*",
    "leakbound.sampling.prove.x*_Hunt*_goes_on*",
    "leakbound.stats.importance.x__weight*",
    "leakbound.stats.proportion.x_clopper_pearson_lower*",
)
DEAD = ("killed", "timeout", "segfault", "suspicious")


def mutmut(*arguments: str) -> None:
    """Run mutmut at the root; one thread a worker, and tests in the same order each time."""
    settings = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    subprocess.run([MUTMUT, *arguments], cwd=ROOT, env=os.environ | settings, check=True)


def statuses() -> dict[str, str]:
    """Name -> status of every mutant."""
    command = [MUTMUT, "results", "--all", "true"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return dict(line.strip().rsplit(": ", 1) for line in said.splitlines() if ": " in line)


def seed() -> str:
    """The digest of the files that are mutated."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]
    found = (file for pattern in patterns for file in ROOT.glob(pattern))
    files = sorted(file for file in found if file.suffix == ".py")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
    options = parser.parse_args()
    if options.all:
        mutmut("run", "--max-children", WORKERS)
        return verdict(statuses())
    shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    mutmut("run", "--max-children", WORKERS, *GUARDED)
    names = [name for name in statuses() if not guarded(name)]
    drawn = random.Random(seed()).sample(names, options.sample)
    mutmut("run", "--max-children", WORKERS, *drawn)
    return verdict(statuses())


if __name__ == "__main__":
    sys.exit(main())
