"""Utility and memorisation metrics, as pure functions of readings, texts and numbers.

`METRICS` has each that can be asked of an evaluated model, with what it needs of the model; the
functions are in the modules beside it. They reproduce OpenUnlearning's definitions, whose numbers
are what people report. A metric of a forget set does not bound what a model leaks:
`leakbound.stats` does.
"""

from __future__ import annotations

from leakbound.metrics.measuring import TEXTS, Item, Items, Kind, Metric, Need, Values
from leakbound.metrics.table import METRICS, metrics_as

__all__ = ["METRICS", "TEXTS", "Item", "Items", "Kind", "Metric", "Need", "Values", "metrics_as"]
