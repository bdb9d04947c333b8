"""leakbound: how much a language model still leaks, over its whole output distribution.

Names load on first use, so that `import leakbound` costs nothing and needs no torch. Verbs are
functions here (`leakbound.evaluate`), the packages behind them nouns (`leakbound.evaluation`).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0.dev0"

_EXPORTS = {
    "Prompt": "leakbound.types",
    "Passage": "leakbound.types",
    "Query": "leakbound.types",
    "Decoding": "leakbound.types",
    "Completion": "leakbound.types",
    "Sample": "leakbound.types",
    "Estimate": "leakbound.stats",
    "LeakboundError": "leakbound.errors",
    "Study": "leakbound.study",
    "FixedN": "leakbound.study",
    "Until": "leakbound.study",
    "Explore": "leakbound.study",
    "Rewritings": "leakbound.study",
    "Attack": "leakbound.study",
    "Prove": "leakbound.study",
    "ModelSettings": "leakbound.study",
    "RayWorkers": "leakbound.engines.ray_workers",
    "evaluate": "leakbound.evaluation",
    "merge": "leakbound.evaluation.verbs",
    "sample": "leakbound.evaluation",
    "score": "leakbound.evaluation",
    "bound": "leakbound.evaluation",
    "measure": "leakbound.evaluation",
    "prove": "leakbound.evaluation",
    "certify": "leakbound.certificate",
    "verify": "leakbound.certificate",
    "show": "leakbound.presenting.verdict",
    "follow": "leakbound.evaluation.following",
    "picture": "leakbound.reporting.page",
    "report": "leakbound.reporting.page",
    "write_index": "leakbound.reporting.index",
    "compare": "leakbound.presenting.comparing",
    "figures": "leakbound.plotting",
    "export": "leakbound.formats.exporting",
    "import_run": "leakbound.formats.importing",
    "plan": "leakbound.stats",
    "load": "leakbound.store",
    "load_benchmark": "leakbound.benchmarks",
    "load_corpus": "leakbound.benchmarks",
    "unlearn": "leakbound.unlearning",
    "finetune": "leakbound.unlearning",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'leakbound' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
