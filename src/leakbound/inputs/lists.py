"""The finite sources: what the benchmark brings, what a file holds, what rules make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from leakbound.inputs.english.rewriting import rewritings
from leakbound.inputs.file import read_rewritings
from leakbound.inputs.source import digests_of
from leakbound.types import Prompt


@dataclass(frozen=True, slots=True)
class BenchmarkInputs:
    """The paraphrases that the prompts carry, in their order."""

    name: ClassVar[str] = "benchmark"
    finite: ClassVar[bool] = True

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        return [list(prompt.paraphrases[:number]) for prompt in prompts]


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """English question forms made by rule: no model, every word kept. The seed picks their order.

    A question in another language has none.
    """

    name: ClassVar[str] = "rules"
    finite: ClassVar[bool] = True

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        return [rewritings(prompt.question, seed)[:number] for prompt in prompts]


@dataclass(frozen=True, slots=True)
class FileInputs:
    """The rewritings in a file, in its order; `read_rewritings` says how it is written.

    A row for a prompt that is not among those asked about raises InputError, as it is likelier a
    misspelling than meant. So ask about all prompts of the benchmark, then take those you need.
    """

    path: Path

    finite: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"file:{self.path}"

    @property
    def fingerprint(self) -> dict[str, str]:
        """What is in the file, wherever it lies."""
        return digests_of(self.path)

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        found = read_rewritings(prompts, self.path)
        return [list(found[prompt.id][:number]) for prompt in prompts]
