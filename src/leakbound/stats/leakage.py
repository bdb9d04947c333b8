"""`Leakage`: what every bound takes, distinct scores with counts and missing draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Counts, plain
from leakbound.stats.order import Keys, Seed
from leakbound.stats.whole import numbers, per_question, whole

SLACK = 1e-9  # a score may leave [0, 1] by rounding, not by more


@dataclass(frozen=True)
class Leakage:
    """Scores of Q questions, with counts and missing draws; a value with count 0 is padding.

    Attributes:
        values: ascending in each row, [Q, d].
        counts: how often each value was drawn, [Q, d].
        missing: how many draws were made and have no score, [Q].
        single: whether the caller gave one question, so that results lose their first axis.
        keys: give the order of the draws to bounds that need one.
    """

    values: Array
    counts: Counts
    missing: Counts
    single: bool
    keys: Keys | None = None

    @classmethod
    def read(
        cls,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        missing: npt.ArrayLike = 0,
        *,
        empty: bool = False,
    ) -> Leakage:
        """Check and sort scores, one row a question.

        Args:
            scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
            counts: how often each score was drawn, of the shape of `scores`; None: once each.
            missing: draws without a score, [Q] or one number.
            empty: whether questions without a draw are allowed.

        Returns:
            The scores, without keys.

        Raises:
            InputError: scores that are NaN or leave [0, 1] where a draw has them, counts or missing
                that are no whole numbers >= 0, and, unless they may be `empty`, questions without a
                draw.
        """
        values = numbers("scores", scores)
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
        unscored = per_question("missing", missing, len(values))
        n = tally.sum(axis=1) + unscored
        if not empty and not (n.size and n.all()):
            place = "" if single or not n.size else f" for question {int(n.argmin())}"
            raise InputError(f"`scores` holds no draw{place} (n = 0). A bound needs at least one.")
        if counts is None:
            return cls(np.sort(values, axis=1), tally, unscored, single)
        order = np.argsort(values, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        return cls(values, np.take_along_axis(tally, order, axis=1), unscored, single)

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

    @property
    def hits(self) -> Counts:
        """Draws with score 1: (Q,)."""
        return np.asarray((self.counts * (self.values == 1)).sum(axis=1))

    def scored(self) -> Leakage:
        """The same scores as if no draw were missing; a row may then be empty."""
        if not self.missing.any():
            return self
        return replace(self, missing=np.zeros_like(self.missing))

    @property
    def seed(self) -> int | Counts | None:
        """The source of the draws' order, as an estimate of each row records it."""
        return None if self.keys is None else self.keys.seed

    def mirrored(self) -> Leakage:
        """1 - X for X: a lower bound is the mirror of an upper one."""
        return replace(self, values=1 - self.values[:, ::-1], counts=self.counts[:, ::-1])

    def pooled(self) -> Leakage:
        """All questions as one."""
        values, counts = self.values.ravel(), self.counts.ravel()
        return Leakage.read(values, counts, self.missing.sum())

    def ordered(self, seed: Seed) -> Leakage:
        """The same draws with the keys of their order: see `leakbound.stats.order`."""
        return replace(self, keys=Keys.read(seed, len(self.n)))

    def shuffled(self, *, missing: float) -> Array:
        """The draws of rows with one n, in the order that their keys give: (Q, n).

        Ascending scores, then `missing` for each missing draw, permuted.
        """
        assert self.keys is not None, "a method that shuffles says so: Method(shuffles=True)"
        values = np.pad(self.values, ((0, 0), (0, 1)), constant_values=missing)
        counts = np.column_stack([self.counts, self.missing])
        draws = np.repeat(values.ravel(), counts.ravel()).reshape(len(values), -1)
        return self.keys.permuted(draws)

    def in_order(self, *, missing: float) -> Array:
        """The draws of each row in the order of its key, 0 behind the last: (Q, widest)."""
        widest = int(self.n.max())

        def rule(rows: Leakage) -> Array:
            return np.pad(rows.shuffled(missing=missing), ((0, 0), (0, widest - rows.size)))

        return self.each(rule)

    def beside(self, other: Leakage) -> Leakage:
        """The questions of both, those of `other` last; both have keys of one kind."""
        assert self.keys is not None, "rows that are met together have an order"
        assert other.keys is not None, "rows that are met together have an order"
        width = max(self.values.shape[1], other.values.shape[1])
        values, counts = (
            np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (mine, theirs)])
            for mine, theirs in ((self.values, other.values), (self.counts, other.counts))
        )
        keys = Keys(np.concatenate([self.keys.rows, other.keys.rows]), self.keys.seed)
        missing = np.concatenate([self.missing, other.missing])
        return Leakage(values, counts, missing, single=False, keys=keys)

    def only(self, rows: npt.NDArray[np.bool_]) -> Leakage:
        """Some of the questions."""
        keys = None if self.keys is None else self.keys.of(rows)
        parts = self.values[rows], self.counts[rows], self.missing[rows]
        return Leakage(*parts, single=False, keys=keys)

    def each(self, rule: Callable[[Leakage], Array]) -> Array:
        """Apply a rule that needs rows of one n to the rows of every n; NaN where n is 0."""
        n = self.n
        if n[0] and (n == n[0]).all():
            return rule(self)
        result: Array | None = None
        for size in np.unique(n[n > 0]):
            rows = n == size
            part = rule(self.only(rows))
            if result is None:
                result = np.full((len(n), *part.shape[1:]), np.nan)
            result[rows] = part
        return np.full(len(n), np.nan) if result is None else result

    def single_or_all(self, result: Array) -> float | Array:
        """A result with one row a question, without that axis if there was one question."""
        return plain(result[0] if self.single else result)


def sample_mean(rows: Leakage) -> Array:
    """The mean of the scored draws: (Q,)."""
    return np.asarray((rows.counts * rows.values).sum(axis=1) / rows.counts.sum(axis=1))


def require_binary(values: Array, name: str = "`scores`") -> None:
    """Refuse scores of a binary scorer that are not 0 or 1."""
    if (other := values[~np.isin(values, (0, 1))]).size:
        raise InputError(
            f"{name} of a leak probability must be 0 or 1, got {other[0]:g}. Make the scorer "
            "binary (`NAME>=t`), or bound the mean leakage."
        )


def _checked(values: Array, single: bool) -> Array:
    bad = np.argwhere(~((values >= -SLACK) & (values <= 1 + SLACK)))
    if len(bad):
        row, column = bad[0]
        place = f"position {column}" if single else f"question {row}, position {column}"
        raise InputError(
            f"`scores` must lie in [0, 1], got {values[row, column]:g} at {place}. Rescale the "
            "scorer's output; leave undecided draws out and count them in `missing`."
        )
    return values.clip(0, 1)
