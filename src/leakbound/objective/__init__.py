"""Objectives: weighted sums of losses over named splits, and the named recipes.

Compose a new one in Python, `Objective("mine", (Term("npo", "forget"), Term("kl", "retain", 2)))`,
as text, `npo:retain=0+kl-retain:weight=2`, or as a YAML file with the same terms.
"""

from __future__ import annotations

from leakbound.objective.reading import load_objective, parse_objective
from leakbound.objective.recipes import OBJECTIVES, PRESETS
from leakbound.objective.terms import Dual, Objective, Term

__all__ = [
    "OBJECTIVES",
    "PRESETS",
    "Dual",
    "Objective",
    "Term",
    "load_objective",
    "parse_objective",
]
