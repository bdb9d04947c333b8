"""Objectives: weighted sums of losses over named splits, and the named recipes.

You can write a new objective in three forms: in Python, such as `Objective("mine", (Term("npo",
"forget"), Term("kl", "retain", 2)))`; as text, such as `npo:retain=0+kl-retain:weight=2`; or as a
YAML file with the same terms.
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
