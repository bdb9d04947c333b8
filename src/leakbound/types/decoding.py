"""How it is asked: the named output distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from leakbound.errors import InputError
from leakbound.types.records import Json

AdaptiveMode = Literal["running", "two_pass"]
# Settings that a record of draws may leave out, as a reader sees them.
UNSTATED = {
    "temperature": "T",
    "top_k": "top-k",
    "top_p": "top-p",
    "max_new_tokens": "length limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The named output distribution; every bound is about exactly one.

    The next-token distribution is softmax(logits / temperature), cut to the `top_k` likeliest
    tokens (0: all), then to the smallest set of them that holds mass `top_p` of what is left,
    ties by token id, renormalised. Temperature 0 is greedy, ties to the lowest id. No penalties.

    Attributes:
        temperature: at least 0; 0 is greedy.
        top_p: the mass kept, in (0, 1]; 1 keeps all.
        top_k: how many tokens are kept; 0 keeps all.
        max_new_tokens: the most tokens of a completion.
        max_tokens: the most tokens of a prompt and its completion together, beside
            `max_new_tokens` (None: only the completion is bounded).
        adaptive_temperature: the confidence threshold c_T of Scholten et al. (2025), section 5, in
            (0, 1]; None: off.
        adaptive_mode: "running": a step is greedy when the mean over the tokens so far, this one
            included, of the largest T = 1 untruncated probability exceeds c_T. "two_pass": a
            prompt is greedy altogether when its greedy completion's mean exceeds c_T.
        stop: strings of which the first to appear ends a completion, itself left out.
        unknown: settings that another tool used and did not state; their values here stand for
            nothing, and a bound is about the distribution as that tool drew from it.

    Raises InputError for a value outside its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 200
    max_tokens: int | None = None
    adaptive_temperature: float | None = None
    adaptive_mode: AdaptiveMode = "running"
    stop: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "unknown", tuple(self.unknown))
        require(
            math.isfinite(self.temperature) and self.temperature >= 0,
            "temperature", self.temperature, "0 (greedy) or a positive number",
        )  # fmt: skip
        require(0 < self.top_p <= 1, "top_p", self.top_p, "a number in (0, 1]; 1 keeps all")
        require(self.top_k >= 0, "top_k", self.top_k, "a whole number, 0 to keep all")
        require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        most = self.max_tokens
        require(most is None or most >= 1, "max_tokens", most, "at least 1, or None")
        threshold = self.adaptive_temperature
        require(
            threshold is None or 0 < threshold <= 1,
            "adaptive_temperature", threshold, "a number in (0, 1], or None",
        )  # fmt: skip
        require(
            self.adaptive_mode in ("running", "two_pass"),
            "adaptive_mode", self.adaptive_mode, "'running' or 'two_pass'",
        )  # fmt: skip
        require(all(self.stop), "stop", self.stop, "strings that are not empty")
        require(
            set(self.unknown) <= set(UNSTATED),
            "unknown", self.unknown, f"some of {', '.join(UNSTATED)}",
        )  # fmt: skip

    @property
    def greedy(self) -> bool:
        """True if this decoding puts all its mass on one completion per query."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def name(self) -> str:
        """A short unambiguous name: what is not said is at its default."""
        parts = ["greedy"] if self.temperature == 0 else [f"T={self.temperature:g}"]
        if self.top_k:
            parts.append(f"top-k={self.top_k}")
        if self.top_p < 1:
            parts.append(f"top-p={self.top_p:g}")
        if self.adaptive_temperature is not None:
            parts.append(f"adaptive={self.adaptive_temperature:g}")
            if self.adaptive_mode != "running":
                parts.append(self.adaptive_mode)
        if "temperature" in self.unknown:
            del parts[0]
        parts += [f"{UNSTATED[name]} unknown" for name in UNSTATED if name in self.unknown]
        return " ".join(parts)

    def to_dict(self) -> dict[str, Json]:
        """Every field, as JSON holds it; `unknown` and `max_tokens` only where there are any."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {"stop": list(self.stop), "unknown": list(self.unknown)}
        return {k: v for k, v in values.items() if v or k not in ("unknown", "max_tokens")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Decoding:
        """The inverse of `to_dict`; an unknown key is refused."""
        unknown = set(values) - {f.name for f in fields(cls)}
        require(not unknown, "decoding", sorted(unknown), "only the fields of Decoding")
        return cls(**values)


def require(condition: bool, name: str, value: object, want: str) -> None:
    """Refuse a setting that is not what it must be."""
    if not condition:
        raise InputError(f"`{name}` must be {want}, got {value!r}.")
