"""The inputs of a run and their selection, in files of its folder.

`inputs.json` has the rewritings of each prompt and those that filters removed, `ids.json` the
result of input selection, `found.json` the queries that a search for worst-case inputs selected. A
source runs once: its rewritings are stored whole, and read again.
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
"""The folder, within that of the run."""
_GIVEN, _SELECTED = Path(SELECTION, "inputs.json"), Path(SELECTION, "ids.json")


@dataclass(frozen=True, slots=True)
class _InputsFile:
    """The content of `inputs.json`: what a source gave for each prompt of which questions."""

    questions: JsonObject
    prompts: tuple[Accepted, ...]


@dataclass(frozen=True, slots=True)
class _SelectionFile:
    """The content of `ids.json`: what input selection found of each prompt's queries."""

    prompts: tuple[Selection, ...]


def write_accepted(run: Path, record: RunRecord, accepted: Sequence[Accepted]) -> None:
    """Store what the source of the run with this record gave."""
    write_sealed(run / _GIVEN, _InputsFile(record.questions, tuple(accepted)))


def read_accepted(run: Path, record: RunRecord) -> tuple[Accepted, ...] | None:
    """The results of a source stored for the run with this record; None where nothing is.

    MixError where another command used a source, DamagedError where the file cannot be read.
    """
    stored = read_value(_InputsFile, run / _GIVEN)
    if stored is None:
        return None
    require_same(run, stored.questions, record.questions)
    return stored.prompts


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the criterion of every query, and which ones are kept."""
    write_sealed(run / _SELECTED, _SelectionFile(tuple(selections)))


def read_values(run: Path) -> dict[str, float]:
    """The criterion of every query that input selection looked at, by id; empty without it."""
    stored = read_value(_SelectionFile, run / _SELECTED) or _SelectionFile(())
    return {q: value for selection in stored.prompts for q, value in selection.values.items()}


ATTACK_FOLDER = "attack"  # within that of the run
_FOUND = Path(ATTACK_FOLDER, "found.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuery:
    """The finding for a question: a query, under the question's id, that `arm` draws from.

    Attributes:
        query: the query.
        decoding: the distribution that it is drawn from.
        shots: the pairs shown before it.
        rounds: how it stood after each of the search, by bounds that steered and claim nothing;
            what was proved there holds.
        arm: the key of its arm.
    """

    query: Query
    decoding: Decoding
    shots: tuple[str, ...]
    rounds: tuple[Standing, ...]
    arm: ArmKey

    @property
    def lower(self) -> float:
        """Where the search left it: 0 where there was nothing to choose from."""
        return self.rounds[-1].floor if self.rounds else 0.0


@dataclass(frozen=True, slots=True)
class _AttackFile:
    """The content of the file of a search."""

    queries: tuple[AttackQuery, ...]


def write_attack_queries(run: Path, queries: tuple[AttackQuery, ...]) -> None:
    """Keep what the search of a run found."""
    write_sealed(run / _FOUND, _AttackFile(queries))


def read_attack_queries(run: Path) -> tuple[AttackQuery, ...] | None:
    """The findings of the search of a run; None where it is not finished, or there was none."""
    again = "Remove it, and the command that made the run makes it again."
    stored = read_value(_AttackFile, run / _FOUND, again)
    return None if stored is None else stored.queries
