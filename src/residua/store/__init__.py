"""Runs on disk: completions, scores and estimates, written whole and never mixed."""

from pathlib import Path

from residua.store.files import write_json, write_text
from residua.store.looks import Look, Looks
from residua.store.masses import Masses, QueryMasses
from residua.store.plan import Part, Plan
from residua.store.run import Arm, Run
from residua.store.scores import ArmScores
from residua.store.tables import DamagedError


def load(path: str | Path) -> Run:
    """Open a run directory that exists."""
    return Run.open(Path(path))


__all__ = [
    "Arm",
    "ArmScores",
    "DamagedError",
    "Look",
    "Looks",
    "Masses",
    "Part",
    "Plan",
    "QueryMasses",
    "Run",
    "load",
    "write_json",
    "write_text",
]
