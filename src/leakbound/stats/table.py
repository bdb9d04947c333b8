"""`ListedBound`: one bound, with what it takes and what it is about, as `stats.BOUNDS` lists it."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class ListedBound:
    """One bound of the package.

    `bound`: the function.
    `evidence`: what it takes first: leaks among n draws ("hits") or scores with counts, of one
        question or of each, for their mean, of several; of a model and its control; exact masses
        with draws of the rest; a pool; other bounds, which have their scores filled in.
    `about`: what its estimates are about, but for the x or k that a call fixes.
    `methods`: by name, the default first; empty where there is no choice.
    """

    bound: Callable[..., Any]
    evidence: Evidence
    about: About
    methods: tuple[str, ...] = ()
