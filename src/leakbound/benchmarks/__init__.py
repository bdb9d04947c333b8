"""The family of benchmarks: named sets of prompts with what is needed to evaluate on them.

A member is a function `load(argument, data) -> Benchmark`: `argument` is what follows the colon
of its spec, `data` a folder of local files or None. Third parties add theirs in the entry-point
group `leakbound.benchmarks`.
"""

from __future__ import annotations

from leakbound.benchmarks.benchmark import Benchmark as Benchmark
from leakbound.benchmarks.benchmark import Loaded as Loaded
from leakbound.benchmarks.catalogue import BENCHMARKS as BENCHMARKS
from leakbound.benchmarks.catalogue import load_benchmark as load_benchmark
from leakbound.benchmarks.catalogue import with_rewritings as with_rewritings
from leakbound.benchmarks.corpora import load_corpus as load_corpus
from leakbound.benchmarks.profiles import PROFILES as PROFILES
from leakbound.benchmarks.profiles import Profile as Profile
