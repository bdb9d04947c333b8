"""residua: how much a language model still leaks, over its whole output distribution.

Names load on first use, so that `import residua` costs nothing and needs no torch. Verbs are
functions here (`residua.evaluate`), the packages behind them nouns (`residua.evaluation`).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "Prompt": "residua.types",
    "Passage": "residua.types",
    "Query": "residua.types",
    "Decoding": "residua.types",
    "Completion": "residua.types",
    "Sample": "residua.types",
    "Estimate": "residua.stats",
    "ResiduaError": "residua.errors",
    "evaluate": "residua.evaluation",
    "certify": "residua.certificate",
    "load": "residua.store",
    "load_benchmark": "residua.benchmarks",
    "load_corpus": "residua.benchmarks",
    "unlearn": "residua.unlearning",
    "finetune": "residua.unlearning",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'residua' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
