"""The settings of a search for the input that makes a model leak most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from leakbound.errors import InputError
from leakbound.inputs.halving import LEAST_BUDGET
from leakbound.types import Decoding

TEMPERATURES = (0.2, 0.8, 1.0)
TOP_PS = (0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Attack:
    """Search, for every question, for the query and decoding that leak most.

    Searched are rewritings, retained question-answer pairs shown before the question, words that
    open the answer, and decodings: those under evaluation where they are several, else the one
    and every pair of `temperatures` and `top_ps`, which is then the stated grid. Greedy decoding
    is never searched: its answer is known without drawing. While draws would not tell who leaks
    more, it proves instead, where the model's probabilities are exact.

    Attributes:
        budget: draws that the search spends on a question, or proofs for as many forwards.
        temperatures: those of the grid, above 0.
        top_ps: those of the grid, in (0, 1].

    Raises InputError for a budget that is too small for one round, and for a grid that is none.
    """

    budget: int
    temperatures: tuple[float, ...] = TEMPERATURES
    top_ps: tuple[float, ...] = TOP_PS

    def __post_init__(self) -> None:
        if self.budget < LEAST_BUDGET:
            raise InputError(
                f"`attack` is the search's draws of a question, at least {LEAST_BUDGET} for one "
                f"round of two queries, got {self.budget}. Raise it; 2,000 tries about 40 queries."
            )
        for temperature, top_p in product(self.temperatures, self.top_ps):
            if Decoding(temperature=temperature, top_p=top_p).greedy:
                raise InputError(
                    "`temperatures` to search must be above 0, got 0: greedy decoding gives one "
                    "answer, which is known. Leave it out."
                )

    def decodings(self, evaluated: Sequence[Decoding]) -> tuple[Decoding, ...]:
        """The stated grid, the first decoding under evaluation first; InputError without any."""
        sampled = [decoding for decoding in evaluated if not decoding.greedy]
        if not sampled:
            raise InputError(
                "`attack` draws from the model, and greedy decoding draws nothing. Add a "
                "temperature above 0."
            )
        if len(sampled) > 1:
            return tuple(sampled)
        pairs = product(self.temperatures, self.top_ps)
        grid = [replace(sampled[0], temperature=t, top_p=p) for t, p in pairs]
        return tuple(dict.fromkeys([*sampled, *grid]))
