"""What no study can ask for."""

from __future__ import annotations

from leakbound.errors import InputError
from leakbound.stats.tail import LEAST_ALPHA

LEAST_SHARE = 1e-14  # of alpha: 1 less that keeps two digits of it


def require_confidence(confidence: float, questions: int) -> None:
    """Refuse, before anything is sampled for it, a confidence that some statement cannot have.

    A band, of every x or k at once, spends half of alpha, and none is solved below `LEAST_ALPHA`.
    The largest excess over a control among N questions spends alpha/4N on one bound.
    """
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence!r}. Use 0.99."
        )
    least = max(2 * LEAST_ALPHA, 4 * questions * LEAST_SHARE)
    if 1 - confidence < least:
        raise InputError(
            f"`confidence` is too near 1, got {confidence!r}: shared among the statements about "
            f"{questions:,} questions, an error rate below {least:.2g} is more than float64 can "
            f"tell from none. Use {1 - 1.01 * least:.13g} or less."
        )
