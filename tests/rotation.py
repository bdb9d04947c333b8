"""What the gate runs of the long tests and of the mutants: a share that its turn chooses.

The turn is the number of commits on main, so that nobody chooses it, and every file of tests has
one by the digest of its name, so that a new file moves no other. `TURNS` gates whose turns follow
one another run every long test; as a landing brings any number of commits, a file is left out by
twenty landings with probability (1 - 1/TURNS)^20: 3 in 1,000. `TURNS` is a prime: only landings
that bring a multiple of it, time and again, would stay at one share.
"""

from __future__ import annotations

import hashlib

TURNS = 5


def turn_of(name: str) -> int:
    """When what has this name has its turn, from 0 to `TURNS` - 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % TURNS


def has_turn(name: str, turn: int) -> bool:
    """Whether a gate of this turn, any number, runs what has this name."""
    return turn_of(name) == turn % TURNS
