"""The names of a run's arms: which model, what it is asked, under which decoding."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.errors import InputError
from leakbound.types import (
    Decoding,
)

NO_INPUTS = "none"
IMPORTED = "imported"  # the engine of draws that were made elsewhere, and keyed who knows how
TARGET, GREEDY, CONTROL, CONTROL_GREEDY = "target", "greedy", "control", "control-greedy"
INPUTS = " inputs"  # ends the name of an arm that asks rewritings too
ATTACK = f"{TARGET} attack"  # the arm of what was found, or how the names of several begin


def arm_names(decodings: Sequence[Decoding], base: str = TARGET) -> dict[str, Decoding]:
    """A name for each decoding's arm: `base` alone, or with the decoding's name behind it."""
    names = [decoding.name for decoding in decodings]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two decodings are called {name!r}: the same, or alike to six digits. "
                "List each temperature and top-p once."
            )
    if len(decodings) == 1:
        return {base: decodings[0]}
    return {f"{base} {name}": how for name, how in zip(names, decodings, strict=True)}


def control_of(arm: str) -> str:
    """The name of the control's arm that stands beside a target's."""
    return CONTROL_GREEDY if arm == GREEDY else CONTROL + arm.removeprefix(TARGET)
