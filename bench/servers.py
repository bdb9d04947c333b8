"""Servers that lie: what an evaluation of each ends in, 20 tries a kind.

A server draws the known output of one question, of which a share leaks, and lies in one way (see
tests/lies.py). Counted is what the evaluation ends in: refused before a draw, stopped midway, or a
bound at 99.9 % that holds or does not, with the share of draws that are missing. The status is 1
if any bound is wrong of a kind that can be detected.

As many outputs a request are asked for as by default, and one of what then cannot be detected.

    python bench/servers.py            # 20 tries of each kind, five minutes on two cores
    python bench/servers.py --tries 3
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from lies import DETECTABLE, UNDETECTABLE, Lie, outcome  # noqa: E402
from runner import options, table  # noqa: E402

ENDS = ("refused", "stopped", "holds", "wrong")


def tally(lie: Lie, tries: int, choices: int | None) -> Counter[str]:
    """How many tries end in what, and how many draws of the bounds are missing."""
    found: Counter[str] = Counter()
    for seed in range(tries):
        with TemporaryDirectory() as folder:
            end, missing, _ = outcome(lie, Path(folder), seed, choices=choices)
        found[end] += 1
        found["draws missing"] += missing
    return found


def main() -> int:
    tries, wrong = options(__doc__, tries=20).tries, 0
    both = (("can be detected", DETECTABLE, None), ("cannot be", UNDETECTABLE, 1))
    for title, kinds, choices in both:
        print()
        rows = ({"lie": name, **tally(lie, tries, choices)} for name, lie in kinds.items())
        columns = {f"lie that {title}": "{lie}"}
        ends = {e: lambda row, end=e: str(row.get(end) or "") for e in (*ENDS, "draws missing")}
        found = table(rows, columns | ends)
        wrong += sum(row.get("wrong", 0) for row in found) if kinds is DETECTABLE else 0
    print(f"\nwrong bounds among those that can be detected: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
