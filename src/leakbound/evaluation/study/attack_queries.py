"""The queries that a search for worst-case inputs found, as the run keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leakbound.inputs.halving import Standing
from leakbound.store import ArmKey, DamagedError, Run, read_sealed
from leakbound.types import Decoding, Query

FOLDER = "attack"  # within that of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackQuery:
    """What was found for a question: a query, under the question's id, that `arm` draws from.

    `rounds`: how it stood after each of the search, by bounds that steered and claim nothing.
    """

    query: Query
    decoding: Decoding
    shots: tuple[str, ...]
    rounds: tuple[Standing, ...]
    arm: ArmKey

    @property
    def lower(self) -> float:
        """Where the search left it: 0 where there was nothing to choose from."""
        return self.rounds[-1].lower if self.rounds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As found.json holds it."""
        query = self.query
        return {
            "prompt_id": query.prompt_id,
            "text": query.text,
            "prefix": query.prefix,
            "examples": list(query.examples),
            "source": query.source,
            "shots": list(self.shots),
            "decoding": self.decoding.name,
            "rounds": [asdict(standing) for standing in self.rounds],
            "lower": self.lower,
            "arm": str(self.arm),
        }


def read_attack_queries(run: Run) -> tuple[AttackQuery, ...] | None:
    """What the search of a run found; None where it is not finished, or there was none."""
    if not attack_file(run).exists():
        return None
    again = "Remove it, and the command that made the run makes it again."
    entries = read_sealed(attack_file(run), again)
    try:
        decodings = {d.name: d for d in map(Decoding.from_dict, run.record["attack"]["decodings"])}
        return tuple(_found(entry, decodings) for entry in entries["found"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"`{attack_file(run)}` is no record of a search. {again}") from error


def attack_file(run: Run) -> Path:
    return run.path / FOLDER / "found.json"


def _found(entry: Mapping[str, Any], decodings: Mapping[str, Decoding]) -> AttackQuery:
    """The inverse of `AttackQuery.to_dict`."""
    prompt_id = entry["prompt_id"]
    words = {name: entry[name] for name in ("text", "prefix", "examples", "source")}
    return AttackQuery(
        query=Query(id=prompt_id, prompt_id=prompt_id, **words),
        decoding=decodings[entry["decoding"]],
        shots=tuple(entry["shots"]),
        rounds=tuple(Standing(**standing) for standing in entry["rounds"]),
        arm=ArmKey.from_text(entry["arm"]),
    )
