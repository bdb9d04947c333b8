"""Settings that losses refuse, each in one sentence."""

from __future__ import annotations

import math

from leakbound.errors import InputError


def positive(loss: str, **settings: float) -> None:
    """Raise InputError for a setting that is not a finite number above 0."""
    for name, value in settings.items():
        require(0 < value < math.inf, loss, name, value, "positive")


def not_negative(loss: str, **settings: float) -> None:
    """Raise InputError for a setting that is not a finite number, 0 or more."""
    for name, value in settings.items():
        require(0 <= value < math.inf, loss, name, value, "0 or more")


def require(condition: bool, loss: str, name: str, value: object, want: str) -> None:
    """Raise InputError unless `condition` holds of a loss's setting."""
    if not condition:
        raise InputError(
            f"`{name}` of {loss} must be {want}, got {value!r}. Leave it out to take the default."
        )
