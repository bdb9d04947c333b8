"""`ListedBound`: one bound, with what it takes and what it is about, as `stats.BOUNDS` lists it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from leakbound.stats.about import About

Evidence = Literal[
    "hits",
    "scores",
    "hits of questions",
    "scores of questions",
    "scores of two models",
    "masses",
    "masses of questions",
    "pool",
    "bound",
    "bound of questions",
    "bound of queries",
    "two bounds",
    "two estimates",
    "cells",
]
K, X = 3, 0.3
FIXED = {"k": K, "x": X, "cap": 56, "positives": (190, 200), "negatives": (6, 300)}
"""What a bound may ask to be fixed beforehand, as a simulation or a test sets it."""


@dataclass(frozen=True, slots=True)
class ListedBound:
    """One bound of the package.

    `bound`: the function.
    `evidence`: what it takes first: leaks among n draws ("hits") or scores with counts, of one
        question or of each, for their mean, of several; of a model and its control; exact masses
        with draws of the rest; a pool; other bounds, which have their scores filled in.
    `about`: what its estimates are about, at its `settings`.
    `methods`: by name, the default first; empty where there is no choice.
    """

    bound: Callable[..., Any]
    evidence: Evidence
    about: About
    methods: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """What it asks for beside its evidence, as `FIXED` sets it."""
        asked = inspect.signature(self.bound).parameters.values()
        required = {one.name for one in asked if one.default is one.empty}
        return {name: value for name, value in FIXED.items() if name in required}
