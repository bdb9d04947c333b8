"""Scores that another tool gave to the draws which were imported from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from leakbound.errors import InputError
from leakbound.scorers.family import named
from leakbound.types import Prompt


@dataclass(frozen=True, slots=True)
class Logged:
    """Scores that `by` gave, as a log has them beside the draws; none can be given anew.

    `values`: `binary` where that tool's scorer can give 0 and 1 only, else `unit`, [0, 1].
    """

    by: str
    values: Literal["unit", "binary"] = "unit"

    @property
    def binary(self) -> bool:
        return self.values == "binary"

    name = named("logged")

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Refused: whoever gave these scores is not at hand."""
        raise InputError(
            f"scorer {self.name!r} stands for scores that another tool gave, and cannot score "
            "anything itself. Import the log that has them."
        )
