"""`Estimates`: the table of a run's estimates as typed rows, among which statements are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter, contains
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

import pyarrow as pa

from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.stats import About, Estimate
from leakbound.stats.about import Beyond, Inputs, Quantity, Scope
from leakbound.stats.theorems import QUANTITIES
from leakbound.store.tables import table_of, to_pandas
from leakbound.text.shown import as_html, as_lines, between, many

ALL = None  # in place of a query id: a statement about all questions
_SHOWN = 8  # rows, in a shell or a notebook
Family = Literal[
    "single",
    "questions",
    "excess",
    "gaps",
    "grid",
    "readings",
    "stresses",
    "models",
    "claim",
    "simultaneous",
]
"""The statements that are valid simultaneously with a row, at its confidence.

Of one arm and scorer: "single", the row and no other; "questions", that of every question;
"excess", the mean and the largest excess over the control; "gaps", the largest gap and the number
of gaps; "readings", those of the answer, the
thought and either; "claim", one claim that was recorded before its draws, each end at the whole
alpha, as at most one of them can decide wrongly. Of one scorer: "grid", those of all decodings;
"stresses", all that stresses add; "models", all differences from a baseline. Of all arms and all
binary scorers of a run: "simultaneous", the mean and the worst question, so that any limit can be
judged after looking.
"""
DECIDING: tuple[Family, Family] = ("claim", "simultaneous")
"""The families that certificates rest on."""
_PLACE = ("arm", "scorer", "query_id")
_INDEXED = ((*_PLACE, "quantity"), ("arm", "scorer", "quantity"), _PLACE, ("quantity",))
_OWN = (*_PLACE, "family", "model", "reading", "decoding", "stress")
_FIELDS = frozenset(_OWN) | {field.name for field in fields(About)}
_CHOICES: Mapping[str, Collection[str]] = {
    "family": get_args(Family),
    "quantity": QUANTITIES,
    "scope": get_args(Scope),
    "inputs": get_args(Inputs),
    "beyond": get_args(Beyond),
}


class Where(TypedDict, total=False):
    """Which rows are meant, of those about one quantity: of several values in a tuple, any will do.

    The fields of `EstimateRow` and of `stats.About`.
    """

    arm: str | tuple[str, ...]
    scorer: str | tuple[str, ...]
    query_id: str | tuple[str | None, ...] | None
    family: Family | tuple[Family, ...]
    model: str | tuple[str, ...]
    reading: str | tuple[str, ...]
    decoding: str | tuple[str, ...]
    stress: str | tuple[str, ...]
    inputs: Inputs | tuple[Inputs, ...]
    beyond: Beyond | tuple[Beyond | None, ...] | None
    parameter: float | tuple[float | None, ...] | None
    constant: float | None
    knob: str | None
    seeds: int | None
    jointly: bool
    proved: bool


class Fields(Where, total=False):
    """Which rows are meant of all."""

    quantity: Quantity | tuple[Quantity, ...]
    scope: Scope | tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """One line of the table: a statement, and which arm, scorer and query it is about.

    Attributes:
        arm: the arm whose draws it rests on.
        scorer: by its name.
        query_id: the query, or the question in several queries; None: all questions.
        estimate: the statement, of single numbers; the row has its fields, too.
        family: the statements that are valid simultaneously with it.
        model, decoding, stress: those of the arm; empty of a row about several arms.
        reading: the part of an output that the scorer reads; empty where it reads texts as one.
        evidence: the SHA-256 of the plan and the stored scores of every arm that it rests on.
    """

    arm: str
    scorer: str
    query_id: str | None
    estimate: Estimate
    family: Family = "single"
    model: str = ""
    reading: str = ""
    decoding: str = ""
    stress: str = ""
    evidence: str = ""

    @property
    def about(self) -> About:
        """The quantity, and whose it is."""
        return self.estimate.about

    @property
    def quantity(self) -> Quantity:
        """Which quantity is estimated."""
        return self.about.quantity

    @property
    def scope(self) -> Scope:
        """The scope: one query or question, the mean over them, the worst, a count."""
        return self.about.scope

    @property
    def estimand(self) -> str:
        """The quantity in words."""
        return self.about.estimand

    @property
    def target(self) -> str:
        """Whose quantity it is, in words."""
        return self.about.target

    @property
    def parameter(self) -> float | None:
        """The x or k; None where the quantity takes none."""
        parameter = self.about.parameter
        return None if isinstance(parameter, tuple) else parameter

    @property
    def over(self) -> int | None:
        """How many queries, questions or cells it is about."""
        over = self.about.over
        return None if isinstance(over, tuple) else over

    @property
    def value(self) -> float | None:
        """The point estimate; None where no draw has a score."""
        value = float(self.estimate.value)
        return None if value != value else value

    @property
    def lower(self) -> float:
        """The lower end."""
        return float(self.estimate.lower)

    @property
    def upper(self) -> float:
        """The upper end."""
        return float(self.estimate.upper)

    @property
    def confidence(self) -> float:
        """The probability, at least, with which the ends hold."""
        return self.estimate.confidence

    @property
    def n(self) -> int:
        """Draws, the missing ones included."""
        return int(self.estimate.n)

    @property
    def missing(self) -> int:
        """Draws without a score."""
        return int(self.estimate.missing)

    @property
    def method(self) -> str:
        """How the ends were found."""
        return self.estimate.method

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON holds it: its columns, and what they are about in words."""
        (row,) = table_of(EstimateRow, [self]).to_pylist()
        return {"estimand": self.estimand, "target": self.target, **row}


PLAIN: Fields = {
    "family": tuple(name for name in get_args(Family) if name not in DECIDING),
    "beyond": None,
    "jointly": False,
    "proved": False,
    "inputs": ("as asked", "these queries", "input distribution", "as found"),
}
"""The rows of a quantity: no excess, not joint, from draws, of all queries of a question.

Rows that decide claims are left out: they differ from these only in their share of alpha.
"""


@dataclass(frozen=True, repr=False)
class Estimates(Sequence[EstimateRow]):
    """Rows of the estimates table of a run.

    Attributes:
        rows: in the order of the table.
        main: the arm that is meant where none is named: the run's first that was sampled in the
            questions' own words; None: there is none.
    """

    rows: tuple[EstimateRow, ...]
    main: str | None = None

    def __repr__(self) -> str:
        return as_lines(many(len(self), "estimate"), self._shown())

    def _repr_html_(self) -> str:
        return as_html(many(len(self), "estimate"), self._shown())

    def _shown(self) -> Iterator[tuple[str, ...]]:
        """The first rows, as a person reads them, and how many more there are."""
        for row in self.rows[:_SHOWN]:
            ends = between(row.value, row.lower, row.upper)
            yield row.arm, row.scorer, row.query_id or "all questions", row.estimand, ends
        if len(self) > _SHOWN:
            yield (f"and {len(self) - _SHOWN:,} more: choose by where, worst, mean or each",)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[EstimateRow]:
        return iter(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i]

    @cached_property
    def scorers(self) -> tuple[str, ...]:
        """The names of the scorers, in the order of the table."""
        return tuple(dict.fromkeys(row.scorer for row in self.rows))

    def where(self, **wanted: Unpack[Fields]) -> Estimates:
        """The rows whose fields have these values.

        Nothing is taken for granted: without `beyond=None` an excess is a leak probability too.

        Args:
            wanted: values by the names of the fields of `EstimateRow` and of `stats.About`; of
                several in a tuple, any will do.

        Returns:
            The rows, in the same order; maybe none.

        Raises:
            InputError: a field, quantity, scope, inputs or beyond that does not exist, or an arm,
                a scorer or a query that no row is about; it lists the choices.
        """
        rows = self._having(wanted)
        if not rows:
            self._require_names(wanted)
        return rows

    def matching(self, **wanted: Unpack[Fields]) -> Estimates:
        """Return rows like `where`, or none; unknown names are accepted.

        Args:
            wanted: as for `where`.

        Returns:
            The rows, in the same order; maybe none.
        """
        return self._having(wanted)

    def plain(self, **wanted: Unpack[Fields]) -> Estimates:
        """As `where`, of quantities as they are unless the fields say otherwise: see `PLAIN`.

        Args:
            wanted: as for `where`.

        Returns:
            The rows, in the same order; maybe none.
        """
        return self._having(PLAIN | wanted)

    def first(self, **wanted: Unpack[Fields]) -> EstimateRow | None:
        """The first of `plain`.

        Args:
            wanted: as for `where`.

        Returns:
            The row; None where there is none.
        """
        return next(iter(self.plain(**wanted)), None)

    def worst(self, quantity: Quantity, **wanted: Unpack[Where]) -> EstimateRow:
        """The statement about the worst question, which has paid for the choice among them.

        Args:
            quantity: such as "leak probability".
            wanted: other fields, as for `where`; `arm` and `scorer` are the run's main arm and
                first scorer unless they are given, and the quantity is as it is (see `PLAIN`)
                unless they say otherwise.

        Returns:
            Its row.

        Raises:
            InputError: there is no such statement, or more than one; it names what there is.
        """
        return self._only(self._meant(quantity, "worst question", wanted))

    def mean(self, quantity: Quantity, **wanted: Unpack[Where]) -> EstimateRow:
        """The statement about the mean over the questions.

        Args:
            quantity: such as "leak probability".
            wanted: as for `worst`.

        Returns:
            Its row.

        Raises:
            InputError: there is no such statement, or more than one; it names what there is.
        """
        return self._only(self._meant(quantity, "mean", wanted))

    def each(self, quantity: Quantity, **wanted: Unpack[Where]) -> Estimates:
        """The statements about every question, one a question.

        Of an arm that asks several queries of a question, the statements about all of them.

        Args:
            quantity: such as "leak probability".
            wanted: as for `worst`.

        Returns:
            Their rows.

        Raises:
            InputError: there are none, or several of a question; it names what there is.
        """
        rows = self._having(meant := self._meant(quantity, "question", wanted))
        rows = rows or self._having(meant := self._meant(quantity, "query", wanted))
        if not rows:
            raise self._lacks(meant)
        if len(parameters := {row.parameter for row in rows}) > 1:
            raise _several(meant, parameters)
        return rows

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, a column a field."""
        return table_of(EstimateRow, self.rows)

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame, a column a field.

        Raises:
            InputError: pandas is not installed.
        """
        return to_pandas(self.to_arrow())

    @cached_property
    def _index(self) -> Mapping[tuple[str, ...], Mapping[object, Sequence[EstimateRow]]]:
        """The rows by their values of each of the names in `_INDEXED`."""
        index: dict[tuple[str, ...], dict[object, list[EstimateRow]]] = {}
        for names in _INDEXED:
            rows, read = index.setdefault(names, {}), attrgetter(*names)
            for row in self.rows:
                rows.setdefault(read(row), []).append(row)
        return index

    def _having(self, wanted: Fields) -> Estimates:
        for name in wanted.keys() - _FIELDS:
            raise InputError(f"estimates have no field {name!r}. {suggestion(name, _FIELDS)}")
        names, rows = self._among(wanted)
        choices = {
            name: value if isinstance(value, tuple) else (value,)
            for name, value in wanted.items()
            if name not in names
        }
        if own := {name: choices.pop(name) for name in _OWN if name in choices}:
            rows = list(filter(_having(own), rows))
        if choices:
            fits = _having(choices)
            rows = [row for row in rows if fits(row.estimate.about)]
        return Estimates(tuple(rows), self.main)

    def _among(self, wanted: Fields) -> tuple[tuple[str, ...], Sequence[EstimateRow]]:
        """Names for which all wanted rows are found at once, and these rows; else all rows."""
        for names in _INDEXED:
            key = tuple(wanted.get(name, ...) for name in names)
            if all(part is None or isinstance(part, str) for part in key):
                return names, self._index[names].get(key if len(key) > 1 else key[0], ())
        return (), self.rows

    def _require_names(self, wanted: Fields) -> None:
        """Raise InputError for a wanted name that is not among the choices."""
        for field in (*_OWN, *_CHOICES):
            value = wanted.get(field)
            names = _CHOICES.get(field) or {getattr(row, field) for row in self.rows} - {None}
            for name in value if isinstance(value, tuple) else (value,):
                if isinstance(name, str) and names and name not in names:
                    raise InputError(f"no estimate has {field}={name!r}. {suggestion(name, names)}")

    def _meant(self, quantity: Quantity, scope: Scope, wanted: Where) -> Fields:
        """The requested fields, with defaults for the others."""
        meant: Fields = {"quantity": quantity, "scope": scope}
        if self.main is not None:
            meant["arm"] = self.main
        if self.scorers:
            meant["scorer"] = self.scorers[0]
        return cast(Fields, {**PLAIN, **meant, **wanted})

    def _only(self, meant: Fields) -> EstimateRow:
        rows = self._having(meant)
        if not rows:
            raise self._lacks(meant)
        if len(rows) > 1:
            raise _several(meant, {row.parameter for row in rows})
        return rows.rows[0]

    def _lacks(self, meant: Fields) -> InputError:
        """There is no such statement; what there is instead."""
        there = dict.fromkeys(
            f"{row.about.quantity!r}, arm={row.arm!r}, scorer={row.scorer!r}"
            for row in self._having(PLAIN | Fields(scope=meant["scope"]))
        )
        beyond = f", beyond {meant['beyond']}" if meant.get("beyond") else ""
        says = "There is none of any quantity: some question may have no completions."
        return InputError(
            f"the run has no statement about {meant['quantity']!r}{beyond}, scope "
            f"{meant['scope']!r}, arm {meant.get('arm')!r}, scorer {meant.get('scorer')!r}. "
            + (f"There is {'; '.join(there)}." if there else says)
        )


def _having(choices: Mapping[str, tuple[object, ...]]) -> Callable[[object], bool]:
    """Whether each of these fields has one of its values."""
    names, values = tuple(choices), tuple(choices.values())
    read = attrgetter(*names, names[0])  # of one name alone it would make no tuple
    return lambda item: all(map(contains, values, read(item)))


def _several(meant: Fields, parameters: Collection[float | None]) -> InputError:
    """There is more than one such statement, at these parameters; how to say which."""
    listed = ", ".join(f"{p:g}" for p in sorted(p for p in parameters if p is not None))
    which = f"`parameter`: {listed}" if len(parameters) > 1 else "`inputs`, or take `where`"
    return InputError(
        f"the run has several statements about {meant['quantity']!r}, scope {meant['scope']!r}. "
        f"Say which {which}."
    )
