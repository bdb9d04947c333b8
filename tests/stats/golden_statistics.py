"""The reference values of `tests/golden/statistics.json`, parsed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "statistics.json").read_text()
)
EXTRAS = GOLDEN["extras"]
SCORES = {name: np.array(values, float) for name, values in GOLDEN["score_sets"].items()}


def spread_order(scores: np.ndarray) -> np.ndarray:
    """The fixed order in which the betting references take their draws: (1, n)."""
    n = len(scores)
    return scores[(7919 * np.arange(n)) % n][None]


def label(case: dict[str, Any]) -> str:
    return "-".join(str(case[key]) for key in ("set", "n", "s", "alpha", "k", "rho") if key in case)
