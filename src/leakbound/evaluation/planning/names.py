"""The arms of a run by their decodings."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.errors import InputError
from leakbound.store import TARGET, ArmKey
from leakbound.types import Decoding


def arm_keys(decodings: Sequence[Decoding], base: ArmKey = TARGET) -> dict[ArmKey, Decoding]:
    """The arm of each decoding: `base` alone, or with the decoding's name where they are several.

    InputError where two of them have one name.
    """
    names = [decoding.name for decoding in decodings]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two decodings are called {name!r}: the same, or alike to six digits. "
                "List each temperature and top-p once."
            )
    if len(decodings) == 1:
        return {base: decodings[0]}
    return {base.under(how): how for how in decodings}
