"""Store the inputs of a run and their selection in files of its folder.

`inputs.json` has the rewritings of each prompt, accepted or removed by filters.
`ids.json` has the result of input selection. `found.json` has the queries that
a search for worst-case inputs selected. A source of rewritings runs only once;
later commands use the stored rewritings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.inputs import Accepted, Selection
from leakbound.inputs.halving import Standing
from leakbound.store.arm_key import ArmKey
from leakbound.store.files import read_value, write_sealed
from leakbound.store.identity import require_same
from leakbound.store.record import RunRecord
from leakbound.types import Decoding, JsonObject, Query

SELECTION = "selection"
"""The folder of the selection, inside the run's folder."""
_GIVEN, _SELECTED = Path(SELECTION, "inputs.json"), Path(SELECTION, "ids.json")


@dataclass(frozen=True, slots=True)
class _InputsFile:
    """The content of `inputs.json`: the rewritings of each prompt, and the questions."""

    questions: JsonObject
    prompts: tuple[Accepted, ...]


@dataclass(frozen=True, slots=True)
class _SelectionFile:
    """The content of `ids.json`: the selection among each prompt's queries."""

    prompts: tuple[Selection, ...]


def write_accepted(run: Path, record: RunRecord, accepted: Sequence[Accepted]) -> None:
    """Store the rewritings that the source returned."""
    write_sealed(run / _GIVEN, _InputsFile(record.questions, tuple(accepted)))


def read_accepted(run: Path, record: RunRecord) -> tuple[Accepted, ...] | None:
    """Return the stored rewritings of a run; None if none are stored.

    Raises MixError if another command stored them, DamagedError if the file is damaged.
    """
    stored = read_value(_InputsFile, run / _GIVEN)
    if stored is None:
        return None
    require_same(run, stored.questions, record.questions)
    return stored.prompts


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the selected queries, and the value of the selection criterion for every query."""
    write_sealed(run / _SELECTED, _SelectionFile(tuple(selections)))


def read_values(run: Path) -> dict[str, float]:
    """Return the value of the selection criterion by query id; empty without input selection."""
    stored = read_value(_SelectionFile, run / _SELECTED) or _SelectionFile(())
    return {q: value for selection in stored.prompts for q, value in selection.values.items()}


ATTACK_FOLDER = "attack"  # inside the run's folder
_ATTACK_FILE = Path(ATTACK_FOLDER, "found.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuery:
    """The worst query that a search found for a question, under the question's id.

    Attributes:
        query: the query.
        decoding: the decoding under which its outputs are drawn.
        shots: the pairs of question and answer that are shown before the query.
        rounds: the results of the query after each round of the search. A lower bound from draws
            only steers the search, and is not a valid statement. A proved lower bound is valid.
        arm: the key of the arm that draws outputs of the query.
    """

    query: Query
    decoding: Decoding
    shots: tuple[str, ...]
    rounds: tuple[Standing, ...]
    arm: ArmKey

    @property
    def lower(self) -> float:
        """The lower bound after the last round of the search; 0 without a round."""
        return self.rounds[-1].floor if self.rounds else 0.0


@dataclass(frozen=True, slots=True)
class _AttackFile:
    """The content of `found.json`."""

    queries: tuple[AttackQuery, ...]


def write_attack_queries(run: Path, queries: tuple[AttackQuery, ...]) -> None:
    """Store the queries that the search of a run found."""
    write_sealed(run / _ATTACK_FILE, _AttackFile(queries))


def read_attack_queries(run: Path) -> tuple[AttackQuery, ...] | None:
    """Return the queries that the search of a run found; None if it is not finished."""
    again = "Remove it, and repeat the command that made the run."
    stored = read_value(_AttackFile, run / _ATTACK_FILE, again)
    return None if stored is None else stored.queries
