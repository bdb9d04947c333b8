"""Utility and memorisation metrics, as pure functions.

Arguments are texts, numbers and readings. A reading contains the values that a model computes for
the tokens of one given text, such as log-probabilities. `METRICS` has every metric of an evaluated
model, with the data that it needs. The functions are in the modules of this package. They reproduce
OpenUnlearning's definitions, because published numbers use these definitions. A metric of a forget
set does not bound the leakage of a model; the functions of `leakbound.stats` do.
"""

from __future__ import annotations

from leakbound.metrics.measuring import NAMES, TEXTS, Item, Items, Kind, Metric, Need, Values
from leakbound.metrics.table import METRICS, metrics_as

__all__ = [
    "METRICS",
    "NAMES",
    "TEXTS",
    "Item",
    "Items",
    "Kind",
    "Metric",
    "Need",
    "Values",
    "metrics_as",
]
