"""What was found out about a run's inputs before they were asked, in files of its folder.

`inputs.json` has what a source gave for each prompt and what the filters removed, `ids.json` what
input selection found. A source runs once: what it gave is stored whole, and read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leakbound.inputs import Accepted, Removed, Selection
from leakbound.store.identity import questions, require_same
from leakbound.store.sealed import ELSEWHERE, DamagedError, read_sealed, write_sealed

SELECTION = "selection"
"""The folder, within that of the run."""


def write_accepted(run: Path, record: Mapping[str, Any], accepted: Sequence[Accepted]) -> None:
    """Store what the source of the run with this record gave."""
    prompts = [asdict(one) for one in accepted]
    write_sealed(_inputs_file(run), {**questions(record), "prompts": prompts})


def read_accepted(run: Path, record: Mapping[str, Any]) -> tuple[Accepted, ...] | None:
    """What is stored for the run with this record; None where nothing is.

    MixError where another command asked a source, DamagedError where the file cannot be read.
    """
    file = _inputs_file(run)
    if not file.exists():
        return None
    stored = read_sealed(file, ELSEWHERE)
    try:
        prompts = [_accepted(**prompt) for prompt in stored.pop("prompts")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"`{file}` is no record of inputs. {ELSEWHERE}") from error
    require_same(run, stored, questions(record))
    return tuple(prompts)


def write_selections(run: Path, selections: Iterable[Selection]) -> None:
    """Store the criterion of every query, and which ones are kept."""
    prompts = {
        one.prompt_id: {
            "criterion": one.criterion,
            "draws": one.draws,
            "kept": [query.id for query in one.kept],
            "values": dict(one.values),
        }
        for one in selections
    }
    write_sealed(_ids_file(run), {"prompts": prompts})


def read_values(run: Path) -> dict[str, float]:
    """The criterion of every query that input selection looked at, by id; empty without it."""
    if not _ids_file(run).exists():
        return {}
    prompts = read_sealed(_ids_file(run), ELSEWHERE)["prompts"]
    return {q: value for one in prompts.values() for q, value in one["values"].items()}


def _inputs_file(run: Path) -> Path:
    return run / SELECTION / "inputs.json"


def _ids_file(run: Path) -> Path:
    return run / SELECTION / "ids.json"


def _accepted(prompt_id: str, queries: Sequence[str], rejected: Sequence[Any]) -> Accepted:
    removed = tuple(Removed(**removal) for removal in rejected)
    return Accepted(prompt_id=prompt_id, queries=tuple(queries), rejected=removed)
