"""For the tests of those who write engines and scorers: fakes, and checks of what is promised.

`FakeEngine` draws, explores and forces by the code that real engines use, from probabilities that
a test states. `FakeScorer` gives the scores that a test states. `check_engine` and `check_scorer`
raise InputError at the first promise that is broken; passing them is no proof.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "FALSE_ALARM": "leakbound.testing.engines",
    "FakeEngine": "leakbound.testing.fake_engine",
    "FakeScorer": "leakbound.testing.scorers",
    "check_engine": "leakbound.testing.engines",
    "check_scorer": "leakbound.testing.scorers",
}
__all__ = [*_EXPORTS]


def __getattr__(name: str) -> Any:
    """Load an export on first use: what scorers need must not ask for torch."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'leakbound.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
