"""Objectives: weighted sums of losses over named splits, and the named recipes.

A new objective has one of three forms. In Python, write for example `Objective("mine", (Term("npo",
"forget"), Term("kl", "retain", 2)))`. The same objective as text is
`npo:retain=0+kl-retain:weight=2`. The third form is a YAML file with the same terms.
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
