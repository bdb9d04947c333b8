"""Utility and memorisation metrics, as pure functions.

Arguments are texts, numbers and readings. A reading has the values that a model computes for the
tokens of a given text, such as log-probabilities. `METRICS` contains every metric of an evaluated
model, with the data that the metric needs. The functions are in the modules of this package. They
follow the definitions of OpenUnlearning, because published numbers use these definitions. A metric
of a forget set does not bound the leakage of a model; the functions of `leakbound.stats` do.
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
