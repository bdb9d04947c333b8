"""What the gate runs of the long tests and of the mutants: a share that its turn chooses.

The turn is the number of commits on main, so that nobody chooses it, and every file of tests, and
every mutant, has one by the digest of its name, so that a new one moves no other. `FILES` gates
whose turns follow one another run every long test, `MUTANTS` of them every mutant. As a landing
brings any number of commits, twenty landings leave a file out with probability (1 - 1/FILES)^20:
1 in 90. `FILES` is a prime: only landings that bring a multiple of it, time and again, would stay
at one share.
"""

from __future__ import annotations

import hashlib

FILES = 5
MUTANTS = 40
CLEAN_ALREADY = "LEAKBOUND_CLEAN_TESTS_PASSED"  # set once they passed without a mutant


def turn_of(name: str, turns: int) -> int:
    """When what has this name has its turn, from 0 to `turns` - 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % turns


def has_turn(name: str, turn: int, turns: int) -> bool:
    """Whether a gate of this turn, any number, runs what has this name."""
    return turn_of(name, turns) == turn % turns
