"""The settings of a search for leaks that are too rare to be drawn."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.types.decoding import require

_NOBODY = "none"  # among the proposals of stored studies, where models proposed too


@dataclass(frozen=True, slots=True)
class Prove:
    """Look for rare leaks of every question, by the model's own probabilities of leaking outputs.

    Attributes:
        forwards: prefixes of each question that the model may forward, at most.
        proposals: finished runs of the same questions, where the search begins: with what leaks of
            their answers, beside the true answer and what the run itself drew.

    Raises InputError for no forwards.
    """

    forwards: int
    proposals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.forwards >= 1, "forwards", self.forwards, "at least 1 per question")
        told = tuple(name for name in map(str, self.proposals) if name != _NOBODY)
        object.__setattr__(self, "proposals", told)
