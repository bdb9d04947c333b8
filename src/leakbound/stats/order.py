"""The random order in which bets use draws, made from counts of scores and a key.

Bets use the draws one by one, in an order that must be random given the counts
of the scores. Only the counts are stored, so this module makes a new order. A random generator,
which is independent of the sampler's generator, permutes the ascending scores. The generator has a
key, which must not depend on the scores. If the key were computed from the counts, or were one
constant, the order would be a function of the counts. Bounds of questions with equal counts would
then fail together, and the bounds for some counts would always fail. So the key is entropy, or a
digest of facts that were fixed before drawing, and no two questions share a key.

Each key is a separate number that was chosen without the scores. So over the
choice of keys, a bound has the same confidence as under a truly random order.
If you try several keys and choose a bound after looking, the bound is not valid.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.arrays import whole_numbers
from leakbound.stats.betting import cached
from leakbound.stats.estimate import Array, Counts

ONE_BY_ONE = 2  # purpose of the order in which draws are shown, independent of the bets
SHUFFLE = 0x5B0F  # keeps the shuffle independent of other uses of the caller's seed
MOST_CACHED = 2**20  # largest number of draws whose order is cached, to bound the memory
BITS = 63  # bits of a key: it fits a signed column of a table

Seed = int | Sequence[int] | npt.NDArray[np.int64] | None
"""One number, which is combined with each row's index; or one key per row; None: random keys."""


def order_key(fixed: Mapping[str, object]) -> int:
    """Make a key from facts that were fixed before drawing, given as JSON values.

    Use names of facts that never change: the key, and so the bounds, depend on these names.

    Args:
        fixed: the facts with their names, in any order.

    Returns:
        A whole number in [0, 2^63); equal facts give equal numbers.

    Raises:
        TypeError: a value that is not valid JSON.
    """
    text = json.dumps(fixed, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - BITS)


def entropy() -> int:
    """Return a random key from the operating system."""
    return secrets.randbits(BITS)


def one_a_row(seed: Seed, rows: int) -> Counts:
    """Return one seed per row, so that each row can be bounded in a separate call, [rows]."""
    if seed is None or np.ndim(seed) or rows == 1:
        return Keys.read(seed, rows).rows[:, 0]
    own = int(np.asarray(seed))
    return np.array([order_key({"seed": own, "row": i}) for i in range(rows)])


@overload
def one_seed(seed: None) -> None: ...
@overload
def one_seed(seed: int | Counts) -> int: ...
def one_seed(seed: int | Counts | None) -> int | None:
    """Combine the keys of several rows into one number, which an estimate about these rows records.

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
        rows: the key of each row, [Q, 2]; `apart` adds a column for the purpose.
        seed: the seed of the keys, in the form that an estimate records: one number, or one per
            row.
    """

    rows: Counts
    seed: int | Counts

    @classmethod
    def read(cls, seed: Seed, rows: int) -> Keys:
        """Return the keys for a number of rows; a seed of None draws 63 bits of entropy.

        If the seed is one number s, row i has the key (s, i). If row i has its own seed c, its key
        is (c, 0) and does not depend on the other rows. Raises InputError for numbers below 0, and
        if the number of keys is not the number of rows.
        """
        keys = whole_numbers("seed", entropy() if seed is None else seed)
        if keys.ndim == 0:
            place = np.arange(rows)
            return cls(np.stack([np.broadcast_to(keys, rows), place], axis=1), int(keys))
        if keys.shape != (rows,):
            raise InputError(
                f"`seed` must be a number or one number per row ({rows}), got shape {keys.shape}."
            )
        if len(np.unique(keys)) < rows:
            raise InputError(
                "`seed` must be a different number for every row, because equal numbers make the "
                "errors of bounds dependent. Pass one number, which is combined with the index of "
                "each row."
            )
        return cls(np.stack([keys, np.zeros_like(keys)], axis=1), keys)

    @property
    def one(self) -> int:
        """Return the one number that an estimate about all rows records."""
        return one_seed(self.seed)

    def of(self, rows: npt.NDArray[np.bool_]) -> Keys:
        """Return the keys of these rows."""
        return Keys(self.rows[rows], self.seed)

    def apart(self, purpose: int) -> Keys:
        """Return keys for a second, independent order of the same rows, for a `purpose` > 0."""
        mark = np.full(len(self.rows), purpose)
        return Keys(np.column_stack([self.rows, mark]), self.seed)

    def permuted(self, draws: Array) -> Array:
        """Permute each row of [Q, n] draws by its key."""
        n = draws.shape[1]

        def places() -> npt.NDArray[np.integer[Any]]:
            orders = np.stack([rng.permutation(n) for rng in self.generators()])
            return orders.astype(np.min_scalar_type(n))

        order = cached(places, "order", self.rows, n) if draws.size <= MOST_CACHED else places()
        return np.take_along_axis(draws, order, axis=1)

    def generators(self) -> list[np.random.Generator]:
        """Return one random generator per row, seeded by the row's key."""
        return [np.random.default_rng([SHUFFLE, *key]) for key in self.rows.tolist()]
