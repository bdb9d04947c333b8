"""Runs on disk: completions, scores and estimates, written whole and never mixed."""

from residua.store.files import write_json, write_text
from residua.store.plan import Part, Plan
from residua.store.run import Arm, ArmScores, Run
from residua.store.tables import DamagedError

__all__ = ["Arm", "ArmScores", "DamagedError", "Part", "Plan", "Run", "write_json", "write_text"]
