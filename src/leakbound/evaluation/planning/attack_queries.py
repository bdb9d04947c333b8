"""The queries that a search for worst-case inputs found, as the run keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakbound.inputs.halving import Standing
from leakbound.store import ArmKey, Run, read_value, write_sealed
from leakbound.types import Decoding, Query

FOLDER = "attack"  # within that of the run


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


def write_attack_queries(run: Run, found: tuple[AttackQuery, ...]) -> None:
    """Keep what the search of a run found."""
    write_sealed(attack_file(run), _Found(found))


def read_attack_queries(run: Run) -> tuple[AttackQuery, ...] | None:
    """What the search of a run found; None where it is not finished, or there was none."""
    again = "Remove it, and the command that made the run makes it again."
    stored = read_value(_Found, attack_file(run), again)
    return None if stored is None else stored.found


def attack_file(run: Run) -> Path:
    return run.path / FOLDER / "found.json"
