"""The settings of draws that count with a weight, from a model that leaks more."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.types.decoding import require


@dataclass(frozen=True, slots=True)
class Weighing:
    """Importance sampling: draws of a mixture with a model that proposes, each with its weight.

    Attributes:
        draws: of each question.
        mix: the share, in (0, 1), of draws that come from the model that proposes, fixed
            beforehand; the others come from the model under evaluation. No weight exceeds
            1/(1 - mix).

    Raises InputError for a value outside its range.
    """

    draws: int
    mix: float = 0.5

    def __post_init__(self) -> None:
        require(self.draws >= 1, "draws", self.draws, "at least 1 per question")
        require(0 < self.mix < 1, "mix", self.mix, "above 0 and below 1")
