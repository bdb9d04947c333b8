"""Losses: pure functions of a packed batch that return one value for each answer.

None reduces over the batch, and none runs a model: what a frozen reference says comes in as data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from residua.losses.entropy import entropy
from residua.losses.inputs import IGNORED, LossInputs, labelled, pack
from residua.losses.likelihood import ga, nll, sequence_nll, token_nll
from residua.losses.preference import npo


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and what it needs: `function(batch, **settings)` gives one value a row, [B].

    `reference` tells that it takes `reference_nll`.
    """

    function: Callable[..., Tensor]
    reference: bool = False


LOSSES: dict[str, Loss] = {
    "entropy": Loss(entropy),
    "ga": Loss(ga),
    "nll": Loss(nll),
    "npo": Loss(npo, reference=True),
}

__all__ = [
    "IGNORED",
    "LOSSES",
    "Loss",
    "LossInputs",
    "entropy",
    "ga",
    "labelled",
    "nll",
    "npo",
    "pack",
    "sequence_nll",
    "token_nll",
]
