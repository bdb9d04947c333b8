"""What was found out about a run's inputs before they were asked, in files of its folder.

`inputs.json` has what a source gave for each prompt and what the filters removed, `ids.json` what
input selection found, `found.json` the queries that a search for worst-case inputs found. A source
runs once: what it gave is stored whole, and read again.
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
class _Given:
    """What `inputs.json` says: what a source gave for each prompt of which questions."""

    questions: JsonObject
    prompts: tuple[Accepted, ...]


@dataclass(frozen=True, slots=True)
class _Selected:
    """What `ids.json` says: what input selection found of each prompt's queries."""

    prompts: tuple[Selection, ...]


def write_accepted(run: Path, record: RunRecord, accepted: Sequence[Accepted]) -> None:
    """Store what the source of the run with this record gave."""
    write_sealed(run / _GIVEN, _Given(record.questions, tuple(accepted)))


def read_accepted(run: Path, record: RunRecord) -> tuple[Accepted, ...] | None:
    """What is stored for the run with this record; None where nothing is.

    MixError where another command asked a source, DamagedError where the file cannot be read.
    """
    stored = read_value(_Given, run / _GIVEN)
    if stored is None:
        return None
    require_same(run, stored.questions, record.questions)
    return stored.prompts


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the criterion of every query, and which ones are kept."""
    write_sealed(run / _SELECTED, _Selected(tuple(selections)))


def read_values(run: Path) -> dict[str, float]:
    """The criterion of every query that input selection looked at, by id; empty without it."""
    stored = read_value(_Selected, run / _SELECTED) or _Selected(())
    return {q: value for one in stored.prompts for q, value in one.values.items()}


ATTACK_FOLDER = "attack"  # within that of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuery:
    """What was found for a question: a query, under the question's id, that `arm` draws from.

    `rounds`: how it stood after each of the search, by bounds that steered and claim nothing; what
    was proved there holds.
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
class _Found:
    """What the file of a search says."""

    found: tuple[AttackQuery, ...]


def write_attack_queries(run: Path, found: tuple[AttackQuery, ...]) -> None:
    """Keep what the search of a run found."""
    write_sealed(attack_file(run), _Found(found))


def read_attack_queries(run: Path) -> tuple[AttackQuery, ...] | None:
    """What the search of a run found; None where it is not finished, or there was none."""
    again = "Remove it, and the command that made the run makes it again."
    stored = read_value(_Found, attack_file(run), again)
    return None if stored is None else stored.found


def attack_file(run: Path) -> Path:
    return run / ATTACK_FOLDER / "found.json"
