"""Fakes and checks for the tests of packages that define engines and scorers.

`FakeEngine` works like a real engine, but without a model: a test specifies the probabilities of
outputs. It draws and explores outputs, and computes probabilities of given texts. `FakeScorer`
returns the scores that a test specifies. `check_engine` and `check_scorer` raise InputError at the
first promise that the engine or the scorer breaks. An engine or a scorer that passes may still
break a promise.
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
    """Load an export on first use, so that the exports for scorers do not import torch."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'leakbound.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
