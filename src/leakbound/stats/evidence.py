"""Evidence from draws: `Rows` (n fixed), `Stopped` (n depends on scores), `Pair` (two models).

The module `mass` defines `Masses` (exact probability masses, with draws from
the remaining outputs), and `pool` defines `Pool` (several queries of one
question). The kind of the evidence selects the theorems of `THEOREMS` that
apply.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.arrays import numbers, per_question, whole_numbers
from leakbound.stats.estimate import Array, Counts, plain
from leakbound.stats.order import Keys, Seed

SLACK = 1e-9  # a score may be outside [0, 1] by a rounding error only


@dataclass(frozen=True)
class Rows:
    """Scores of Q questions, with counts and missing draws, one row of arrays per question.

    Attributes:
        values: the distinct scores, ascending in each row, [Q, d]; a value with count 0 is padding.
        counts: the number of draws with each value, [Q, d].
        missing: the number of draws without a score, [Q].
        single: whether the caller passed a single question; results then have no axis of questions.
        binary: whether the scorer declares that its scores are only 0 and 1. Its leakage is then a
            probability.
        keys: the keys of the order of the draws, for bounds that need an order.
        ids: the ids of the questions, [Q]; empty if they have none.
    """

    values: Array
    counts: Counts
    missing: Counts
    single: bool
    binary: bool = False
    keys: Keys | None = None
    ids: tuple[str, ...] = ()

    kind: ClassVar[str] = "draws"

    @classmethod
    def of(
        cls,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        missing: npt.ArrayLike = 0,
        *,
        binary: bool = False,
        empty: bool = False,
    ) -> Rows:
        """Return rows of scores, one row per question, after checking and sorting the scores.

        Args:
            scores: scores in [0, 1], [m] for one question or [Q, m] for Q questions.
            counts: the number of draws with each score, of the shape of `scores`; None: one draw
                per score.
            missing: the number of draws without a score, [Q] or one number; they count as 1 in
                upper bounds and as 0 in lower bounds.
            binary: whether the scorer declares that its scores are only 0 and 1; other scores then
                raise InputError.
            empty: whether questions without a draw are allowed; their bounds are trivial.

        Returns:
            The rows.

        Raises:
            InputError: drawn scores that are NaN or out of range, `counts` or `missing` that are
                not whole numbers >= 0, and, unless `empty`, questions without a draw.
        """
        values = numbers("scores", scores)
        if values.ndim not in (1, 2):
            raise InputError(
                "`scores` must be a 1-D array, or a 2-D array with one row per question, got a "
                f"{values.ndim}-D array."
            )
        single = values.ndim == 1
        tally = (
            np.ones(values.shape, np.int64) if counts is None else whole_numbers("counts", counts)
        )
        if tally.shape != values.shape:
            raise InputError(
                f"`counts` must have the shape of `scores`, {values.shape}, got {tally.shape}."
            )
        values, tally = np.atleast_2d(values), np.atleast_2d(tally)
        values = _checked(np.where(tally > 0, values, 0.0), single)
        if binary:
            require_binary(values)
        unscored = per_question("missing", missing, len(values))
        n = tally.sum(axis=1) + unscored
        if not empty and not (n.size and n.all()):
            place = "" if single or not n.size else f" for question {int(n.argmin())}"
            raise InputError(f"`scores` has no draw{place}. A bound needs at least one draw.")
        if counts is None:
            return cls(np.sort(values, axis=1), tally, unscored, single, binary)
        order = np.argsort(values, axis=1, kind="stable")
        values = np.take_along_axis(values, order, axis=1)
        return cls(values, np.take_along_axis(tally, order, axis=1), unscored, single, binary)

    @classmethod
    def of_hits(cls, hits: npt.ArrayLike, n: npt.ArrayLike, missing: npt.ArrayLike = 0) -> Rows:
        """Make rows of a binary scorer from numbers of leaks.

        Args:
            hits: the number of leaks of each question, [Q] or one number for all.
            n: the number of draws of each question, including missing draws, [Q] or one number; at
                least 1.
            missing: the number of draws without a score, [Q] or one number; they count as 1 in
                upper bounds and as 0 in lower bounds.

        Returns:
            The rows of a binary scorer.

        Raises:
            InputError: numbers that are not whole numbers >= 0, an n of 0, or more hits and missing
                draws together than n.
        """
        given = {"hits": hits, "n": n, "missing": missing}
        parts = {name: whole_numbers(name, values) for name, values in given.items()}
        if max(part.ndim for part in parts.values()) > 1:
            raise InputError(
                "`hits`, `n` and `missing` must be numbers, or 1-D arrays with one number per "
                "question."
            )
        rows = max(part.size for part in parts.values())
        leaks, draws, lost = (per_question(name, part, rows) for name, part in parts.items())
        if not draws.size or not draws.all():
            raise InputError("`n` must be at least 1, got 0. A bound needs at least one draw.")
        if (leaks + lost > draws).any():
            row = int((leaks + lost - draws).argmax())
            raise InputError(
                f"`hits` and `missing` must not exceed `n`, got {leaks[row]} hits and "
                f"{lost[row]} missing of {draws[row]} draws at question {row}."
            )
        coins, counts = np.tile([0.0, 1.0], (rows, 1)), [draws - lost - leaks, leaks]
        single = all(part.ndim == 0 for part in parts.values())
        return cls(coins, np.column_stack(counts), np.array(lost), single, binary=True)

    @property
    def questions(self) -> int:
        """Return the number of questions."""
        return len(self.n)

    @property
    def draws(self) -> Rows:
        """Return the rows themselves; every kind of evidence has this property."""
        return self

    @cached_property
    def n(self) -> Counts:
        """Return the number of draws of each question, including missing draws, [Q]."""
        return np.asarray(self.counts.sum(axis=1) + self.missing)

    @property
    def size(self) -> int:
        """Return the n that all rows share. Only rules that `each` calls may use this property."""
        return int(self.n[0])

    @cached_property
    def knots(self) -> Array:
        """Return 0, the values and 1, which delimit the steps of the empirical CDF, [Q, d + 2]."""
        return np.pad(self.values, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))

    @cached_property
    def gaps(self) -> Array:
        """Return the widths of the steps of the empirical CDF, [Q, d + 1]."""
        return np.diff(self.knots, axis=1)

    @cached_property
    def seen(self) -> Counts:
        """Count the scored draws at or below each step of the empirical CDF, [Q, d + 1]."""
        return np.pad(np.cumsum(self.counts, axis=1), ((0, 0), (1, 0)))

    def seen_at(self, x: Array) -> Counts:
        """Return the number of scored draws at or below each entry of x [K], as [Q, K]."""
        steps = [np.searchsorted(row, x, side="right") for row in self.values]
        return np.take_along_axis(self.seen, np.stack(steps), axis=1)

    @property
    def hits(self) -> Counts:
        """Return the number of draws with score 1, [Q]."""
        return np.asarray((self.counts * (self.values == 1)).sum(axis=1))

    def scored(self) -> Rows:
        """Return the rows without their missing draws; a row may then be empty."""
        if not self.missing.any():
            return self
        return replace(self, missing=np.zeros_like(self.missing))

    @property
    def seed(self) -> int | Counts | None:
        """Return the seed of the draws' order, in the form that an estimate records."""
        return None if self.keys is None else self.keys.seed

    def mirrored(self) -> Rows:
        """Replace each score X by 1 - X; a lower bound on X is 1 minus an upper bound on 1 - X."""
        return replace(self, values=1 - self.values[:, ::-1], counts=self.counts[:, ::-1])

    def ordered(self, seed: Seed, purpose: int | None = None) -> Rows:
        """Return the same draws with keys that determine their order (see `leakbound.stats.order`).

        With a `purpose`, the order is independent of the order in which bets use the draws.
        """
        keys = Keys.read(seed, len(self.n))
        return replace(self, keys=keys if purpose is None else keys.apart(purpose))

    def shuffled(self, *, missing: float) -> Array:
        """Return the draws of rows with the same n, in the order of their keys, [Q, n].

        The ascending scores, followed by the number `missing` for each missing draw, are permuted.
        """
        assert self.keys is not None, "declare a method that shuffles with Method(shuffles=True)"
        values = np.pad(self.values, ((0, 0), (0, 1)), constant_values=missing)
        counts = np.column_stack([self.counts, self.missing])
        draws = np.repeat(values.ravel(), counts.ravel()).reshape(len(values), -1)
        return self.keys.permuted(draws)

    def in_order(self, *, missing: float) -> Array:
        """Return each row's draws in the order of the row's key, padded with 0, [Q, largest n]."""
        widest = int(self.n.max())

        def rule(rows: Rows) -> Array:
            return np.pad(rows.shuffled(missing=missing), ((0, 0), (0, widest - rows.size)))

        return self.each(rule)

    def joined_with(self, other: Rows) -> Rows:
        """Return these rows, then the rows of `other`; the keys are kept if both have keys."""
        width = max(self.values.shape[1], other.values.shape[1])
        values, counts = (
            np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (mine, theirs)])
            for mine, theirs in ((self.values, other.values), (self.counts, other.counts))
        )
        keys = None
        if self.keys is not None and other.keys is not None:
            keys = Keys(np.concatenate([self.keys.rows, other.keys.rows]), self.keys.seed)
        missing = np.concatenate([self.missing, other.missing])
        return Rows(values, counts, missing, single=False, binary=self.binary, keys=keys)

    def only(self, rows: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows of some of the questions."""
        keys = None if self.keys is None else self.keys.of(rows)
        parts = self.values[rows], self.counts[rows], self.missing[rows]
        ids = tuple(compress(self.ids, rows))
        return Rows(*parts, single=False, binary=self.binary, keys=keys, ids=ids)

    def among(self, ids: Container[str]) -> Rows:
        """Return the rows of the questions with these ids."""
        return self.only(np.array([own in ids for own in self.ids], dtype=np.bool_))

    def each(self, rule: Callable[[Rows], Array]) -> Array:
        """Apply a rule to each group of rows with the same n; the result is NaN where n is 0."""
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
        """Drop the axis of the questions from a result if the caller gave a single question."""
        return plain(result[0] if self.single else result)


class OfRows:
    """Evidence that is about the questions of its `rows`."""

    rows: Rows

    @property
    def draws(self) -> Rows:
        """Return the draws of each question."""
        return self.rows

    @property
    def binary(self) -> bool:
        """Return whether the scorer declares that its scores are only 0 and 1."""
        return self.rows.binary

    @property
    def questions(self) -> int:
        """Return the number of questions."""
        return self.rows.questions


@dataclass(frozen=True)
class Stopped(OfRows):
    """Draws whose number may depend on the scores: sampling stopped at a look or at the cap.

    The draws must be i.i.d., of one query or of an allocated pool. A look is a time at which the
    scores so far are evaluated. The stopping rule may use all earlier scores, and nothing else.

    Attributes:
        rows: the draws of each question.
        cap: the largest number of draws of a question, fixed in advance.

    Raises:
        InputError: a cap that is not a whole number >= 1, or a question with more draws than the
            cap.
    """

    rows: Rows
    cap: int

    kind: ClassVar[str] = "stopped"

    def __post_init__(self) -> None:
        check_cap(self.cap)
        if (n := self.rows.n).max(initial=0) > self.cap:
            row = int(n.argmax())
            raise InputError(
                f"no question may have more draws than the cap of {self.cap}, got {n[row]} at "
                f"question {row}. Pass the cap with which the run was planned."
            )


@dataclass(frozen=True)
class Pair(OfRows):
    """Independent draws of a model and of its control, for the same questions.

    The numbers of draws are fixed in advance, and the draws of the two models share no randomness.
    If they may share random numbers, bound each model separately and use `excess_of`.

    Attributes:
        rows: the model's draws.
        control: the control's draws, with the same number of rows.

    Raises:
        InputError: `control` and `rows` differ in their numbers of rows or in their declared
            ranges.
    """

    rows: Rows
    control: Rows

    kind: ClassVar[str] = "pair"

    def __post_init__(self) -> None:
        mine, other = self.rows, self.control
        if (mine.questions, mine.single) != (other.questions, other.single):
            raise InputError(
                f"`rows` and `control` must have the same questions, got {mine.questions} and "
                f"{other.questions} questions. Omit questions that only one model answered."
            )
        if mine.binary != other.binary:
            raise InputError(
                "`rows` and `control` need the same scorer, got binary and graded scores."
            )


def check_cap(cap: int) -> None:
    """Raise InputError unless the cap is a whole number of draws >= 1."""
    if cap != int(cap) or cap < 1:
        raise InputError(f"`cap` must be a whole number of draws >= 1, got {cap!r}.")


def sample_mean(rows: Rows) -> Array:
    """Return the mean of the scored draws, [Q]."""
    return np.asarray((rows.counts * rows.values).sum(axis=1) / rows.counts.sum(axis=1))


def require_binary(values: Array, name: str = "`scores`") -> None:
    """Raise InputError if a binary scorer has scores other than 0 and 1."""
    if (other := values[~np.isin(values, (0, 1))]).size:
        raise InputError(
            f"to bound a leak probability, {name} must be 0 or 1, got {other[0]:g}. Make the "
            "scorer binary (`NAME>=t`), or bound the mean leakage."
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
