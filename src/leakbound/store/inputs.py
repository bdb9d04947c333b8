"""What was found out about a run's inputs before they were asked, in files of its folder.

`inputs.json` has what a source gave for each prompt and what the filters removed, `ids.json` what
input selection found. A source runs once: what it gave is stored whole, and read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.inputs import Accepted, Selection
from leakbound.store.identity import require_same
from leakbound.store.record import RunRecord
from leakbound.store.sealed import read_value, write_sealed
from leakbound.types import JsonObject

SELECTION = "selection"
"""The folder, within that of the run."""


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
    write_sealed(_inputs_file(run), _Given(record.questions, tuple(accepted)))


def read_accepted(run: Path, record: RunRecord) -> tuple[Accepted, ...] | None:
    """What is stored for the run with this record; None where nothing is.

    MixError where another command asked a source, DamagedError where the file cannot be read.
    """
    stored = read_value(_Given, _inputs_file(run))
    if stored is None:
        return None
    require_same(run, stored.questions, record.questions)
    return stored.prompts


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the criterion of every query, and which ones are kept."""
    write_sealed(_ids_file(run), _Selected(tuple(selections)))


def read_values(run: Path) -> dict[str, float]:
    """The criterion of every query that input selection looked at, by id; empty without it."""
    stored = read_value(_Selected, _ids_file(run)) or _Selected(())
    return {q: value for one in stored.prompts for q, value in one.values.items()}


def _inputs_file(run: Path) -> Path:
    return run / SELECTION / "inputs.json"


def _ids_file(run: Path) -> Path:
    return run / SELECTION / "ids.json"
