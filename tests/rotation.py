"""The fraction of the long tests and of the mutants that a gate runs, chosen by its turn.

The turn is the number of commits on main. Every file of tests and every mutant has a turn by the
digest of its name, so a new file moves no other. `FILES` gates with consecutive turns run every
long test, `MUTANTS` of them every mutant. A landing has any number of commits, so twenty landings
skip a file with probability (1 - 1/FILES)^20, or 1 in 90. `FILES` is prime: only landings with
multiples of it would repeat one fraction.
"""

from __future__ import annotations

import hashlib

FILES = 5
MUTANTS = 40
CLEAN_ALREADY = "LEAKBOUND_CLEAN_TESTS_PASSED"  # set after they passed without a mutant


def turn_of(name: str, turns: int) -> int:
    """Return the turn of a name, from 0 to `turns` - 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % turns


def has_turn(name: str, turn: int, turns: int) -> bool:
    """Return whether a gate with this turn, any number, runs a name."""
    return turn_of(name, turns) == turn % turns
