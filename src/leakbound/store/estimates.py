"""`Estimates`: the table of a run's estimates as typed rows, with methods that find statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import attrgetter, contains
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

import pyarrow as pa

from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.stats import About, Estimate
from leakbound.stats.about import Beyond, Inputs, Quantity, Scope
from leakbound.stats.theorems import QUANTITIES
from leakbound.store.tables import row_of, table_of, to_pandas
from leakbound.text.shown import Displayed, between, many

ALL = None  # replaces the query id in statements about all questions
_SHOWN = 8  # rows that are shown in a shell or a notebook
Family = Literal[
    "single",
    "questions",
    "excess",
    "gaps",
    "grid",
    "leak@k",
    "readings",
    "stresses",
    "models",
    "claim",
    "simultaneous",
]
"""See `EstimateRow.family`."""
DECIDING: tuple[Family, Family] = ("claim", "simultaneous")
"""The families that certificates use."""
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
    """Values of fields of `EstimateRow` and `stats.About`, for the selection of rows.

    The fields quantity and scope are excluded. A tuple lists alternative values.
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
    proved: bool


class Fields(Where, total=False):
    """Values of fields for the selection of rows, including quantity and scope."""

    quantity: Quantity | tuple[Quantity, ...]
    scope: Scope | tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """A row of the table: one estimate, with its arm, scorer and query.

    Attributes:
        arm: the name of the arm whose draws the estimate uses.
        scorer: the name of the scorer.
        query_id: the id of the query or question; None: the row is about all questions.
        estimate: the estimate of a single number. The properties of the row repeat the fields of
            the estimate.
        family: the group of statements that are valid simultaneously with this row, at the row's
            confidence.

            These groups are about one arm and scorer:

            - "single" is only this statement.
            - "questions" are the statements about every question.
            - "excess" is the mean and the largest excess over the control.
            - "gaps" is the largest gap and the number of positive gaps, for one kind of inputs.
            - "leak@k" is the mean leak@k at several k.
            - "readings" are three statements: about the answer, about the thought, and about either
              of them.
            - "claim" is one claim that was recorded before its draws. Each bound has the full
              alpha, because at most one of the two bounds can lead to a wrong decision.

            These groups are about one scorer:

            - "grid" is one quantity under all decodings, and the effects of the decodings on it.
            - "stresses" are all effects of stresses on a model.
            - "models" are all differences from a baseline.

            The group "simultaneous" is about all arms and all binary scorers of a run. It contains
            their means and worst questions. So any limit can be judged after the results are known.
        model, decoding, stress: the model, decoding and stress of the arm; empty in a row about
            several arms.
        reading: the part of an output that the scorer evaluates; empty if outputs have one text.
        evidence: the SHA-256 of the plans and the stored scores of all arms that the row uses.
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
        """The specification of the quantity."""
        return self.estimate.about

    @property
    def quantity(self) -> Quantity:
        """The estimated quantity."""
        return self.about.quantity

    @property
    def scope(self) -> Scope:
        """The scope: one query or question, the mean over them, the worst, or a count."""
        return self.about.scope

    @property
    def estimand(self) -> str:
        """The quantity in words."""
        return self.about.estimand

    @property
    def target(self) -> str:
        """The population that the quantity is about, in words."""
        return self.about.target

    @property
    def parameter(self) -> float | None:
        """The parameter of the quantity, such as x or k; None if it has no parameter."""
        parameter = self.about.parameter
        return None if isinstance(parameter, tuple) else parameter

    @property
    def over(self) -> int | None:
        """The number of queries, questions or cells that the quantity is about."""
        over = self.about.over
        return None if isinstance(over, tuple) else over

    @property
    def value(self) -> float | None:
        """The point estimate; None if no draw has a score."""
        value = float(self.estimate.value)
        return None if value != value else value

    @property
    def lower(self) -> float:
        """The lower bound."""
        return float(self.estimate.lower)

    @property
    def upper(self) -> float:
        """The upper bound."""
        return float(self.estimate.upper)

    @property
    def confidence(self) -> float:
        """The probability with which the bounds are valid, at least."""
        return self.estimate.confidence

    @property
    def n(self) -> int:
        """The number of draws, including missing draws."""
        return int(self.estimate.n)

    @property
    def missing(self) -> int:
        """The number of draws without a score."""
        return int(self.estimate.missing)

    @property
    def method(self) -> str:
        """The method of the bounds."""
        return self.estimate.method

    def with_values(self, **values: Any) -> EstimateRow:
        """Return a copy of the row in which these fields of the estimate have these values."""
        return replace(self, estimate=replace(self.estimate, **values))

    def to_dict(self) -> dict[str, Any]:
        """Return the row for JSON: its columns, and the quantity in words."""
        return {"estimand": self.estimand, "target": self.target, **row_of(self)}


PLAIN: Fields = {
    "family": ("single", "excess", "gaps", "stresses", "models"),
    "beyond": None,
    "proved": False,
    "inputs": ("as asked", "these queries", "input distribution", "as found"),
}
"""The default selection: statements from draws about all queries of a question, without excesses.

Other families are excluded. Their rows repeat these statements at another part of alpha.
"""


@dataclass(frozen=True, repr=False)
class Estimates(Displayed, Sequence[EstimateRow]):
    """Rows of the estimates table of a run.

    Attributes:
        rows: the rows in the order of the table.
        main: the default arm, see `Run.main`; None: the run has no such arm.
    """

    rows: tuple[EstimateRow, ...]
    main: str | None = None

    def _shown(self) -> Iterator[tuple[str, ...]]:
        """Yield the number of rows, the first rows, and the number of rows that are not shown."""
        yield (many(len(self), "estimate"),)
        for row in self.rows[:_SHOWN]:
            bounds = between(row.value, row.lower, row.upper)
            yield row.arm, row.scorer, row.query_id or "all questions", row.estimand, bounds
        if len(self) > _SHOWN:
            yield (f"and {len(self) - _SHOWN:,} more: use `where`, `worst`, `mean` or `each`",)

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
        """Return the rows whose fields have these values.

        There are no defaults. For example, excess rows are included unless you pass `beyond=None`.

        Args:
            wanted: values of fields of `EstimateRow` and of `stats.About` by name; a tuple lists
                alternatives.

        Returns:
            The rows, in the same order; possibly none.

        Raises:
            InputError: a field, or a value of quantity, scope, inputs or beyond, does not exist. Or
                no row is about the arm, the scorer or the query. The message lists the choices.
        """
        rows = self._having(wanted)
        if not rows:
            self._require_names(wanted)
        return rows

    def matching(self, **wanted: Unpack[Fields]) -> Estimates:
        """Select rows like `where`, but return no rows for unknown names instead of raising.

        Args:
            wanted: as for `where`.

        Returns:
            The rows, in the same order; possibly none.
        """
        return self._having(wanted)

    def plain(self, **wanted: Unpack[Fields]) -> Estimates:
        """Select rows like `matching`, but with the defaults in `PLAIN`.

        Args:
            wanted: as for `where`.

        Returns:
            The rows, in the same order; possibly none.
        """
        return self._having(PLAIN | wanted)

    def first(self, **wanted: Unpack[Fields]) -> EstimateRow | None:
        """Return the first row that `plain` finds.

        Args:
            wanted: as for `where`.

        Returns:
            The row; None if there is no such row.
        """
        return next(iter(self.plain(**wanted)), None)

    def worst(self, quantity: Quantity, **wanted: Unpack[Where]) -> EstimateRow:
        """Return the statement about the worst question, corrected for selecting this question.

        Args:
            quantity: the quantity, such as "leak probability".
            wanted: other fields, as for `where`. The defaults are the run's main arm, its first
                scorer and `PLAIN`.

        Returns:
            Its row.

        Raises:
            InputError: there is no such statement, or more than one; the message lists statements.
        """
        return self._only(self._meant(quantity, "worst question", wanted))

    def mean(self, quantity: Quantity, **wanted: Unpack[Where]) -> EstimateRow:
        """Return the statement about the mean over the questions.

        Args:
            quantity: the quantity, such as "leak probability".
            wanted: as for `worst`.

        Returns:
            Its row.

        Raises:
            InputError: there is no such statement, or more than one; the message lists statements.
        """
        return self._only(self._meant(quantity, "mean", wanted))

    def each(self, quantity: Quantity, **wanted: Unpack[Where]) -> Estimates:
        """Return the statement about each question (over all of its queries).

        Args:
            quantity: the quantity, such as "leak probability".
            wanted: as for `worst`.

        Returns:
            Their rows.

        Raises:
            InputError: there is no statement, or there are several statements about one question.
                The message lists statements.
        """
        rows = self._having(meant := self._meant(quantity, "question", wanted))
        rows = rows or self._having(meant := self._meant(quantity, "query", wanted))
        if not rows:
            raise self._lacks(meant)
        if len(parameters := {row.parameter for row in rows}) > 1:
            raise _several(meant, parameters)
        return rows

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table with a column per field."""
        return table_of(EstimateRow, self.rows)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas data frame with a column per field.

        Raises:
            InputError: pandas is not installed.
        """
        return to_pandas(self.to_arrow())

    @cached_property
    def _index(self) -> Mapping[tuple[str, ...], Mapping[object, Sequence[EstimateRow]]]:
        """Indexes of the rows, one per entry of `_INDEXED`: from the fields' values to rows."""
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
        """Return the indexed fields and the rows that they select; all rows if none is indexed."""
        for names in _INDEXED:
            key = tuple(wanted.get(name, ...) for name in names)
            if all(part is None or isinstance(part, str) for part in key):
                return names, self._index[names].get(key if len(key) > 1 else key[0], ())
        return (), self.rows

    def _require_names(self, wanted: Fields) -> None:
        """Raise InputError for a wanted name that does not exist."""
        for field in (*_OWN, *_CHOICES):
            value = wanted.get(field)
            names = _CHOICES.get(field) or {getattr(row, field) for row in self.rows} - {None}
            for name in value if isinstance(value, tuple) else (value,):
                if isinstance(name, str) and names and name not in names:
                    raise InputError(f"no estimate has {field}={name!r}. {suggestion(name, names)}")

    def _meant(self, quantity: Quantity, scope: Scope, wanted: Where) -> Fields:
        """Fill in defaults for the fields that are not given."""
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
        """Return the error for a missing statement; its message lists existing statements."""
        there = dict.fromkeys(
            f"{row.about.quantity!r}, arm={row.arm!r}, scorer={row.scorer!r}"
            for row in self._having(PLAIN | Fields(scope=meant["scope"]))
        )
        beyond = f", beyond {meant['beyond']}" if meant.get("beyond") else ""
        empty = "The run has no statements. Check that every question has completions."
        return InputError(
            f"the run has no statement about {meant['quantity']!r}{beyond}, scope "
            f"{meant['scope']!r}, arm {meant.get('arm')!r}, scorer {meant.get('scorer')!r}. "
            + (f"It has statements about {'; '.join(there)}." if there else empty)
        )


def _having(choices: Mapping[str, tuple[object, ...]]) -> Callable[[object], bool]:
    """Return a function that tests whether each field has one of its values."""
    names, values = tuple(choices), tuple(choices.values())
    read = attrgetter(*names, names[0])  # repeated, because a getter of one name returns no tuple
    return lambda item: all(map(contains, values, read(item)))


def _several(meant: Fields, parameters: Collection[float | None]) -> InputError:
    """Return the error for several matching statements, at these parameters."""
    listed = ", ".join(f"{p:g}" for p in sorted(p for p in parameters if p is not None))
    which = f"`parameter`: {listed}" if len(parameters) > 1 else "`inputs`, or use `where`"
    return InputError(
        f"the run has several statements about {meant['quantity']!r}, scope {meant['scope']!r}. "
        f"Specify {which}."
    )
