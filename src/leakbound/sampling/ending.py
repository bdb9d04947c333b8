"""When a completion is over, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leakbound.errors import InputError
from leakbound.sampling.model import PrefixModel
from leakbound.types import Decoding, FinishReason

Ended = Callable[[tuple[int, ...]], bool]
"""Whether generated ids contain a stop string, where the decoding has some."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends a completion: an end token, a stop string or its length, in this order."""

    eos: frozenset[int]
    longest: int
    ended: Ended | None

    @classmethod
    def of(cls, model: PrefixModel, decoding: Decoding, ended: Ended | None) -> Ending:
        """The endings of a decoding; InputError where stop strings cannot be recognised."""
        if decoding.stop and ended is None:
            raise InputError("a decoding with stop strings needs `ended`. Pass one.")
        return cls(model.eos_token_ids, decoding.max_new_tokens, ended if decoding.stop else None)

    def reason(self, path: tuple[int, ...]) -> FinishReason | None:
        """Why generated ids are complete; None where they go on."""
        if path[-1] in self.eos:
            return "stop"
        if self.ended is not None and self.ended(path):
            return "stop_string"
        return "length" if len(path) == self.longest else None
