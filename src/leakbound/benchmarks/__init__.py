"""The family of benchmarks: named sets of prompts with the data needed to evaluate on them.

A member of this family is a function `load(argument, data) -> Benchmark`. `argument` is the text
after the colon of the benchmark's spec. `data` is a folder of local files; None if the user names
no folder. Other packages add benchmarks through the entry-point group `leakbound.benchmarks`.
"""

from __future__ import annotations

from leakbound.benchmarks.benchmark import Benchmark, Loaded
from leakbound.benchmarks.catalogue import (
    BENCHMARKS,
    load_benchmark,
    made_again,
    with_rewritings,
)
from leakbound.benchmarks.coin import Coin
from leakbound.benchmarks.corpora import load_corpus
from leakbound.benchmarks.profiles import Profile, profiles

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "Coin",
    "Loaded",
    "Profile",
    "load_benchmark",
    "load_corpus",
    "made_again",
    "profiles",
    "with_rewritings",
]
