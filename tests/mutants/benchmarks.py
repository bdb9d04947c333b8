"""Mutants of `leakbound.benchmarks`."""

TOFU = "benchmarks/test_tofu.py"

MUTANTS = [
    ("benchmarks/tofu.py", "[-_MINI_RETAINED:]", "[:_MINI_RETAINED]", TOFU),
    ("benchmarks/tofu.py", "max_new_tokens=_MINI_TOKENS", "max_new_tokens=200", TOFU),
]
