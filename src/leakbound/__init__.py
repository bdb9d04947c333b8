"""leakbound: bound the leakage of a language model over its whole output distribution.

An export is imported at its first use, so `import leakbound` is fast and does not import torch.
Names of functions are verbs (`leakbound.evaluate`). Names of packages are nouns
(`leakbound.evaluation`).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0.dev0"

_MODULES = {
    "leakbound.types": "Prompt Passage Query Decoding Completion Sample",
    "leakbound.stats": "Estimate plan",
    "leakbound.errors": "LeakboundError",
    "leakbound.study": "Study FixedN Until Explore Rewritings Attack Prove ModelSettings",
    "leakbound.engines.ray_workers": "RayWorkers",
    "leakbound.evaluation": "evaluate sample score bound measure prove",
    "leakbound.evaluation.verbs": "merge",
    "leakbound.certificate": "certify verify",
    "leakbound.presenting.verdict": "show",
    "leakbound.evaluation.following": "follow",
    "leakbound.reporting.page": "picture report",
    "leakbound.reporting.index": "write_index",
    "leakbound.presenting.comparing": "compare",
    "leakbound.plotting": "figures",
    "leakbound.formats.exporting": "export",
    "leakbound.formats.importing": "import_run",
    "leakbound.store": "load",
    "leakbound.benchmarks": "load_benchmark load_corpus",
    "leakbound.unlearning": "unlearn finetune",
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'leakbound' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
