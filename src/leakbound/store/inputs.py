"""What was found out about a run's inputs before they were asked, in files of its folder.

`inputs.json` has what a source gave for each prompt and what the filters removed, `ids.json` what
input selection found. A source runs once: what it gave is stored whole, and read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import InputError
from leakbound.inputs import Accepted, Criterion, Selection
from leakbound.store.identity import require_same
from leakbound.store.record import RunRecord
from leakbound.store.sealed import ELSEWHERE, DamagedError, read_sealed, write_sealed
from leakbound.types import from_json, to_json

SELECTION = "selection"
"""The folder, within that of the run."""


@dataclass(frozen=True, slots=True)
class _Selected:
    """What input selection found of a prompt's queries, by their ids."""

    criterion: Criterion
    draws: int
    kept: tuple[str, ...]
    values: Mapping[str, float]


def write_accepted(run: Path, record: RunRecord, accepted: Sequence[Accepted]) -> None:
    """Store what the source of the run with this record gave."""
    write_sealed(_inputs_file(run), {**record.questions, "prompts": to_json(accepted)})


def read_accepted(run: Path, record: RunRecord) -> tuple[Accepted, ...] | None:
    """What is stored for the run with this record; None where nothing is.

    MixError where another command asked a source, DamagedError where the file cannot be read.
    """
    file = _inputs_file(run)
    if not file.exists():
        return None
    stored = read_sealed(file, ELSEWHERE)
    try:
        prompts = from_json(tuple[Accepted, ...], stored.pop("prompts", None))
    except InputError as error:
        raise DamagedError(f"`{file}` is no record of inputs. {ELSEWHERE}") from error
    require_same(run, stored, record.questions)
    return prompts


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the criterion of every query, and which ones are kept."""
    prompts = {
        one.prompt_id: _Selected(
            one.criterion, one.draws, tuple(query.id for query in one.kept), one.values
        )
        for one in selections
    }
    write_sealed(_ids_file(run), {"prompts": to_json(prompts)})


def read_values(run: Path) -> dict[str, float]:
    """The criterion of every query that input selection looked at, by id; empty without it."""
    if not _ids_file(run).exists():
        return {}
    found = read_sealed(_ids_file(run), ELSEWHERE).get("prompts")
    prompts = from_json(dict[str, _Selected], found, f"`{_ids_file(run)}`")
    return {q: value for one in prompts.values() for q, value in one.values.items()}


def _inputs_file(run: Path) -> Path:
    return run / SELECTION / "inputs.json"


def _ids_file(run: Path) -> Path:
    return run / SELECTION / "ids.json"
