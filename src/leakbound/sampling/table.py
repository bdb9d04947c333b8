"""A model that is a table of probabilities: the public fake at the sampler's seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.sampling.model import WholePrefixes

Prefix = tuple[int, ...]
Table = Mapping[Prefix, Sequence[float]] | Callable[[Prefix], Sequence[float]]


class TableModel(WholePrefixes):
    """Next-token probabilities in float64 from a mapping or function of (prompt + generated).

    `table[prefix]` has one probability a token and sums to 1 within 1e-9. NaN is let through,
    so that tests can make a model break.
    """

    def __init__(self, table: Table, *, vocab_size: int, eos_token_ids: Sequence[int] = ()) -> None:
        super().__init__(self._read)
        self.vocab_size = vocab_size
        self.eos_token_ids = frozenset(eos_token_ids)
        self._table = table

    def probabilities(self, prefix: Prefix) -> NDArray[np.float64]:
        """The next-token distribution after `prefix`, shape (vocab_size,)."""
        table = self._table
        if isinstance(table, Mapping) and prefix not in table:
            raise InputError(f"the table has no row for prefix {prefix}. Add one.")
        row = table[prefix] if isinstance(table, Mapping) else table(prefix)
        values = np.asarray(row, dtype=np.float64)
        if values.shape != (self.vocab_size,) or abs(values.sum() - 1) > 1e-9:
            raise InputError(
                f"the row of prefix {prefix} must be {self.vocab_size} probabilities that sum to "
                f"1, got shape {values.shape} and sum {values.sum()}."
            )
        return values

    def _read(self, prefixes: Sequence[Prefix]) -> torch.Tensor:
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(np.stack([self.probabilities(p) for p in prefixes])))
