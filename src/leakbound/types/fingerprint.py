"""What of an engine's fingerprint is read again; the rest is only compared."""

from __future__ import annotations

from dataclasses import dataclass, fields

from leakbound.types.records import Json, JsonObject, from_json


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The members of a fingerprint that have a meaning beyond being equal.

    dtype: of the weights, as they are computed with; None: not told.
    prompting: how questions become prompts, as `Prompting.described` reads it.
    ordinary_end_tokens: ids of tokens of text at which the model ends its answers.
    repeatable: whether the same keys give the same draws again.
    confirmed: whether it is known that nothing truncates but the decoding; else neutral settings
        were sent to a server of which that is not known.
    assumes: what every bound on the draws takes for granted, as nobody outside can check it.
    """

    dtype: str | None = None
    prompting: Json = None
    ordinary_end_tokens: tuple[int, ...] = ()
    repeatable: bool = True
    confirmed: bool = True
    assumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, told: JsonObject) -> Fingerprint:
        """Those that this fingerprint has; the others at their defaults."""
        known = {f.name: told[f.name] for f in fields(cls) if f.name in told}
        return from_json(cls, known, "the fingerprint")
