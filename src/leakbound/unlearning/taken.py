"""What training takes from a benchmark where it is not given: the rows, and how they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError
from leakbound.types import Passage, Prompt, Role

Given: TypeAlias = Sequence[Prompt] | Sequence[Passage]


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


def loaded(benchmark: str | Benchmark | None) -> Benchmark | None:
    """The benchmark that is named."""
    return load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark


def rows_of(task: Benchmark | None, role: Role | None, what: str) -> Given:
    """The rows of a role, None for those that are evaluated.

    InputError where they are for evaluation alone, and where there is no benchmark; `what` names
    the argument that lacks.
    """
    if task is None:
        raise InputError(
            f"there is nothing to train on. Give rows as `{what}`, or name a `benchmark`."
        )
    return task.to_train(role or task.role)
