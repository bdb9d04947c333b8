"""The random order in which bets use draws of which only the counts of scores are known.

Bets use the draws one by one, in an order that must be random given the counts
of the scores. If only counts are stored, a new order is made: ascending scores,
permuted by a generator that is independent of the sampler's. Its key must not
depend on the scores. If the key were the tally of the scores, or one constant,
the order would be a function of the tally. Rows with equal tallies would then
fail together, and some tallies would always fail. So the key is entropy, or a
digest of facts that were fixed before drawing, and no two rows share a key.

Each key is a separate number that was chosen without the scores, so a bound is
valid on average over the keys as it is over true randomness. Trying several
keys and choosing a bound after looking makes the bound invalid.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import overload

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.arrays import whole_numbers
from leakbound.stats.estimate import Array, Counts

ONE_BY_ONE = 2  # purpose of the order that shows draws one by one, independent of the bets' order
SHUFFLE = 0x5B0F  # keeps the shuffle independent of other uses of the caller's seed
BITS = 63  # bits of a key: it fits a signed column of a table

Seed = int | Sequence[int] | npt.NDArray[np.int64] | None
"""One number, to which each row's index is joined; one key per row; or None: entropy."""


def order_key(fixed: Mapping[str, object]) -> int:
    """Make a key from facts that were fixed before drawing, given as JSON values.

    Use names that never change: another name gives other bounds for the same experiment.

    Args:
        fixed: the facts with their names, in any order.

    Returns:
        A whole number in [0, 2^63), the same for the same content.

    Raises:
        TypeError: a value that is not valid JSON.
    """
    text = json.dumps(fixed, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - BITS)


def entropy() -> int:
    """Return a random key from the operating system."""
    return secrets.randbits(BITS)


def one_a_row(seed: Seed, rows: int) -> Counts:
    """Return one seed per row, for rows that are bounded one by one: (rows,)."""
    if seed is None or np.ndim(seed) or rows == 1:
        return Keys.read(seed, rows).rows[:, 0]
    own = int(np.asarray(seed))
    return np.array([order_key({"seed": own, "row": i}) for i in range(rows)])


@overload
def one_seed(seed: None) -> None: ...
@overload
def one_seed(seed: int | Counts) -> int: ...
def one_seed(seed: int | Counts | None) -> int | None:
    """Combine the keys of several rows into the one number that a statement about them records.

    Args:
        seed: one number, or one key per row, [Q]; None: no seed.

    Returns:
        The number itself, a digest of all keys where there is one per row, or None.
    """
    return order_key({"rows": seed.tolist()}) if isinstance(seed, np.ndarray) else seed


@dataclass(frozen=True, slots=True)
class Keys:
    """The key of each row, which determines the order of its draws.

    Attributes:
        rows: the key of each row, (Q, 2), or with the purposes that `apart` joins.
        seed: the seed of the keys, in the form that an estimate records: one number, or one per
            row.
    """

    rows: Counts
    seed: int | Counts

    @classmethod
    def read(cls, seed: Seed, rows: int) -> Keys:
        """Return the keys for a number of rows; a seed of None draws 63 bits of entropy.

        If the seed is one number s, row i has the key (s, i). If row i has its own seed c, its key
        is (c, 0), whatever the other rows are. Raises InputError for numbers below 0, and for keys
        that are not one per row.
        """
        keys = whole_numbers("seed", entropy() if seed is None else seed)
        if keys.ndim == 0:
            place = np.arange(rows)
            return cls(np.stack([np.broadcast_to(keys, rows), place], axis=1), int(keys))
        if keys.shape != (rows,):
            raise InputError(
                f"`seed` must be one number, or one per row ({rows}), got shape {keys.shape}."
            )
        if len(np.unique(keys)) < rows:
            raise InputError(
                "`seed` must give every row a separate key: rows that share an order fail "
                "together. Give one number, and each row's place is joined to it."
            )
        return cls(np.stack([keys, np.zeros_like(keys)], axis=1), keys)

    @property
    def one(self) -> int:
        """Return the number that a statement about all rows records."""
        return one_seed(self.seed)

    def of(self, rows: npt.NDArray[np.bool_]) -> Keys:
        """Return the keys of these rows."""
        return Keys(self.rows[rows], self.seed)

    def apart(self, purpose: int) -> Keys:
        """Return keys for another, independent order of the same rows; a `purpose` > 0 names it."""
        mark = np.full(len(self.rows), purpose)
        return Keys(np.column_stack([self.rows, mark]), self.seed)

    def permuted(self, draws: Array) -> Array:
        """Permute each row of (Q, n) draws by its key."""
        generators = self.generators()
        return np.stack([rng.permutation(row) for rng, row in zip(generators, draws, strict=True)])

    def generators(self) -> list[np.random.Generator]:
        """Return one random generator per row, seeded by the row's key."""
        return [np.random.default_rng([SHUFFLE, *key]) for key in self.rows.tolist()]
