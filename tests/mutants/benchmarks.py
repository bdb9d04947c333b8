"""Mutants of `residua.benchmarks`."""

# ruff: noqa: E501 (one mutant a line)
TOFU = "benchmarks/test_tofu.py"

MUTANTS = [
    ("benchmarks/tofu.py", "[-_MINI_RETAINED:]", "[:_MINI_RETAINED]", TOFU),
    ("benchmarks/tofu.py", "max_new_tokens=_MINI_TOKENS", "max_new_tokens=200", TOFU),
]
