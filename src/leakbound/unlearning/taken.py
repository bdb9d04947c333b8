"""What training takes from a benchmark: its rows, and how they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines.prompting import Prompting
from leakbound.types import Passage, Prompt, Role

Given: TypeAlias = Sequence[Prompt] | Sequence[Passage]
Source: TypeAlias = str | Benchmark | Given
"""Rows, or the benchmark that has them, which may be named."""


def prompting_of(
    task: Benchmark | None, *, template: str | None = None, system: str | None = None
) -> Prompting:
    """How `evaluate` asks the questions of a benchmark; `template` and `system` as there."""
    if task is None:
        return Prompting(template=template, system=system, chat=False if template else None)
    return Prompting(
        template=template or task.template,
        system=system,
        default_system=task.system,
        chat=False if template else task.chat,
    )


def opened(source: Source) -> Benchmark | Given:
    """The benchmark that is named, or what was given in its place."""
    return load_benchmark(source) if isinstance(source, str) else source


def rows_of(source: Benchmark | Given, role: Role | None = None) -> Given:
    """The rows of a role, None for those that are evaluated; rows themselves as they are.

    InputError where the benchmark's are for evaluation alone.
    """
    return source.to_train(role or source.role) if isinstance(source, Benchmark) else source
