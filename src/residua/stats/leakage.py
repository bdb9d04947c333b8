"""`Leakage`: what every bound takes, distinct scores with counts and missing draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from residua.errors import InputError
from residua.stats.estimate import Array, Counts, one_or_all

SLACK = 1e-9  # a score may leave [0, 1] by rounding, not by more
SHUFFLE = 0x5B0F  # keys the shuffle apart from whatever else a caller seeds with the same number


@dataclass(frozen=True)
class Leakage:
    """Scores of Q questions: `values` (Q, d) ascending in each row, their `counts` (Q, d).

    `missing` (Q,) draws were made and have no score. `single`: the caller gave one question, so
    results lose their first axis. A value with count 0 is padding.
    """

    values: Array
    counts: Counts
    missing: Counts
    single: bool

    @classmethod
    def read(
        cls,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        missing: npt.ArrayLike = 0,
    ) -> Leakage:
        """Check and sort scores, one row a question.

        `scores` is 1-D (one question) or 2-D; `counts` has its shape and defaults to ones;
        `missing` is one number or one a question. Raises InputError for scores that are NaN or
        leave [0, 1], counts or missing that are no whole numbers >= 0, and questions without
        a draw.
        """
        values = _numbers("scores", scores)
        if values.ndim not in (1, 2):
            raise InputError(
                f"`scores` must be 1-D, or 2-D with one row a question, got {values.ndim}-D."
            )
        single = values.ndim == 1
        tally = np.ones(values.shape, np.int64) if counts is None else whole("counts", counts)
        if tally.shape != values.shape:
            raise InputError(
                f"`counts` must have the shape of `scores`, {values.shape}, got {tally.shape}."
            )
        values, tally = np.atleast_2d(values), np.atleast_2d(tally)
        values = _checked(np.where(tally > 0, values, 0.0), single)
        gone = per_question("missing", missing, len(values))
        _refuse_empty(tally.sum(axis=1) + gone, single)
        if counts is None:
            return cls(np.sort(values, axis=1), tally, gone, single)
        order = np.argsort(values, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        return cls(values, np.take_along_axis(tally, order, axis=1), gone, single)

    @cached_property
    def n(self) -> Counts:
        """Draws of each question, the missing ones included: (Q,)."""
        return np.asarray(self.counts.sum(axis=1) + self.missing)

    @property
    def size(self) -> int:
        """The n that all rows share; only inside a rule that `each` calls."""
        return int(self.n[0])

    @cached_property
    def knots(self) -> Array:
        """0, the values, 1: the ends of the steps of the empirical CDF, (Q, d + 2)."""
        return np.pad(self.values, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))

    @cached_property
    def gaps(self) -> Array:
        """The widths of the steps: (Q, d + 1)."""
        return np.diff(self.knots, axis=1)

    @cached_property
    def seen(self) -> Counts:
        """Scored draws at or below each step of the empirical CDF: (Q, d + 1)."""
        return np.pad(np.cumsum(self.counts, axis=1), ((0, 0), (1, 0)))

    def seen_at(self, x: Array) -> Counts:
        """Scored draws at or below each entry of x, (K,): (Q, K)."""
        steps = [np.searchsorted(row, x, side="right") for row in self.values]
        return np.take_along_axis(self.seen, np.stack(steps), axis=1)

    def scored(self) -> Leakage:
        """The same scores as if no draw were missing; a row may then be empty."""
        if not self.missing.any():
            return self
        return replace(self, missing=np.zeros_like(self.missing))

    def mirrored(self) -> Leakage:
        """1 - X for X: a lower bound is the mirror of an upper one."""
        return replace(self, values=1 - self.values[:, ::-1], counts=self.counts[:, ::-1])

    def pooled(self) -> Leakage:
        """All questions as one."""
        values, counts = self.values.ravel(), self.counts.ravel()
        return Leakage.read(values, counts, self.missing.sum())

    def shuffled(self, seed: int, *, missing: float) -> Array:
        """The draws of rows with one n, in an order that owes nothing to the sampler: (Q, n).

        Ascending scores, then `missing` for each missing draw, permuted by a generator of its
        own. It is keyed by the seed and a digest of the row's draws: a question is shuffled alone
        as it is in a batch, and no two questions share a permutation. One permutation for all
        (or for everyone who keeps the default seed) would let their bounds fail together: given
        it, sorted draws are no longer in random order.
        """
        values = np.pad(self.values, ((0, 0), (0, 1)), constant_values=missing)
        counts = np.column_stack([self.counts, self.missing])
        draws = np.repeat(values.ravel(), counts.ravel()).reshape(len(values), -1)
        return np.stack([_generator(seed, row).permutation(row) for row in draws])

    def each(self, rule: Callable[[Leakage], Array]) -> Array:
        """Apply a rule that needs rows of one n to the rows of every n; NaN where n is 0."""
        n = self.n
        if n[0] and (n == n[0]).all():
            return rule(self)
        result: Array | None = None
        for size in np.unique(n[n > 0]):
            rows = n == size
            part = rule(Leakage(self.values[rows], self.counts[rows], self.missing[rows], False))
            if result is None:
                result = np.full((len(n), *part.shape[1:]), np.nan)
            result[rows] = part
        return np.full(len(n), np.nan) if result is None else result

    def single_or_all(self, result: Array) -> float | Array:
        """A result with one row a question, without that axis if there was one question."""
        return one_or_all(result, self.single)


def whole(name: str, given: npt.ArrayLike) -> Counts:
    """An array of whole numbers >= 0, or InputError."""
    numbers = _numbers(name, given)
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    if bad.any():
        raise InputError(f"`{name}` must be whole numbers >= 0, got {numbers[bad].flat[0]:g}.")
    return numbers.astype(np.int64)


def per_question(name: str, given: npt.ArrayLike, questions: int) -> Counts:
    """Whole numbers, one a question, from one number or one a question."""
    numbers = whole(name, given)
    if numbers.shape not in ((), (questions,)):
        raise InputError(
            f"`{name}` must be one number or one a question ({questions}), "
            f"got shape {numbers.shape}."
        )
    return np.broadcast_to(numbers, (questions,))


def _numbers(name: str, given: npt.ArrayLike) -> Array:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of numbers, got {type(given).__name__} that is none. "
            "Pad rows to one length and give the padding count 0."
        ) from None


def _checked(values: Array, single: bool) -> Array:
    bad = np.argwhere(~((values >= -SLACK) & (values <= 1 + SLACK)))
    if len(bad):
        row, column = bad[0]
        place = f"position {column}" if single else f"question {row}, position {column}"
        raise InputError(
            f"`scores` must lie in [0, 1], got {values[row, column]:g} at {place}. Rescale the "
            "scorer's output; leave undecided draws out and count them in `missing`."
        )
    return values.clip(0, 1) + 0.0  # -0.0 becomes 0.0: a draw's bytes key its shuffle


def _refuse_empty(n: Counts, single: bool) -> None:
    if not n.size or not n.all():
        place = "" if single or not n.size else f" for question {int(n.argmin())}"
        raise InputError(f"`scores` holds no draw{place} (n = 0). A bound needs at least one.")


def _generator(seed: int, draws: Array) -> np.random.Generator:
    digest = int.from_bytes(blake2b(draws.tobytes(), digest_size=16).digest(), "little")
    return np.random.default_rng([SHUFFLE, seed, digest])
