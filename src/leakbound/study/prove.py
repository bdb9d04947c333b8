"""The settings of a search for leaks that are too rare to be drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.errors import InputError
from leakbound.types.decoding import require

NO_PROPOSAL = "none"


@dataclass(frozen=True, slots=True)
class Prove:
    """Look for rare leaks of every question, by the model's own probabilities of leaking outputs.

    Attributes:
        forwards: prefixes of each question that the model may forward, at most; what proposals
            take is not counted.
        proposals: models, and finished runs of the same questions, where the search begins: with
            what leaks of their answers, beside the true answer and what the run itself drew. A
            model has the tokenizer of the model under evaluation. Without any, that model answers
            each question right after it was shown question and answer; ("none",): nobody.

    Raises InputError for no forwards, and for "none" beside others.
    """

    forwards: int
    proposals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.forwards >= 1, "forwards", self.forwards, "at least 1 per question")
        told = tuple(map(str, self.proposals))
        object.__setattr__(self, "proposals", told)
        if NO_PROPOSAL in told and len(told) > 1:
            raise InputError(
                f"`proposal` {NO_PROPOSAL!r} means that nobody proposes, and "
                f"{', '.join(name for name in told if name != NO_PROPOSAL)} is named too. Leave "
                "one out."
            )

    @property
    def named(self) -> Sequence[str]:
        """The models and runs that propose, where some are named."""
        return [name for name in self.proposals if name != NO_PROPOSAL]

    @property
    def shows_answers(self) -> bool:
        """True if the model itself proposes, shown the answers."""
        return not self.proposals
