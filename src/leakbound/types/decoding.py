"""`Decoding`, the output distribution that bounds are about."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from leakbound.errors import InputError
from leakbound.types.records import Json, changed, object_of, require_types

AdaptiveMode = Literal["running", "two_pass"]
FilterRule = Literal["missing", "part-of-system"]
# Settings that a record of draws may leave out, with their labels.
UNSTATED = {
    "temperature": "T",
    "top_k": "top-k",
    "top_p": "top-p",
    "max_new_tokens": "length limit",
}
_LATER = ("unknown", "max_tokens", "max_thinking_tokens", "filter")
CUTS: dict[str, tuple[str, float]] = {"top_k": ("top-k", 0), "top_p": ("top-p", 1.0)}
"""Settings that keep only some tokens: for each setting, its label and the value that keeps all
tokens.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The settings that define an output distribution; each bound is about one such distribution.

    The next-token distribution is softmax(logits / temperature). It is restricted to the `top_k`
    likeliest tokens (0: all tokens). Then it is restricted to the smallest set of these tokens that
    has at least the fraction `top_p` of their mass, and renormalised. Ties are broken by token id.
    Temperature 0 is greedy: the likeliest token, with ties broken by the lowest id. There are no
    penalties.

    Attributes:
        temperature: at least 0; 0 is greedy.
        top_p: the smallest fraction of the mass to keep, in (0, 1]; 1 keeps all tokens.
        top_k: the number of kept tokens; 0 keeps all.
        max_new_tokens: the largest number of tokens of a completion, at least 1.
        max_tokens: the largest number of tokens of a prompt and its completion together, at least
            1; it applies in addition to `max_new_tokens` (None: only the completion is limited).
        max_thinking_tokens: the largest number of tokens of a thought, at least 1; `max_new_tokens`
            then limits only the answer (None: it limits thought and answer together).
        adaptive_temperature: the confidence threshold c_T of Scholten et al. (2025), section 5, in
            (0, 1]; None: off.
        adaptive_mode: how a confidence is compared with c_T. The confidence is a mean over tokens
            of the largest T = 1 untruncated probability. "running": a step is greedy if the mean
            over the generated tokens, including the present token, exceeds c_T. "two_pass": all
            draws of a prompt are the greedy completion if the mean over the greedy completion
            exceeds c_T.
        stop: stop strings. The first one that appears ends the completion, and is not part of it.
        filter: "missing": an output that a content filter withheld has no answer, so it counts as 1
            in upper bounds and as 0 in lower bounds. "part-of-system": the filter belongs to the
            evaluated system, so the text that users see is scored.
        unknown: the settings that another tool used but did not record ("temperature", "top_k",
            "top_p", "max_new_tokens"). The values of these fields have no meaning, and a bound is
            about the distribution that the tool used.

    Raises:
        InputError: a value outside its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 200
    max_tokens: int | None = None
    max_thinking_tokens: int | None = None
    adaptive_temperature: float | None = None
    adaptive_mode: AdaptiveMode = "running"
    stop: tuple[str, ...] = ()
    filter: FilterRule = "missing"
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "unknown", tuple(self.unknown))
        require_types(self)
        heat, most, threshold = self.temperature, self.max_tokens, self.adaptive_temperature
        thought = self.max_thinking_tokens
        left_out = ", ".join(UNSTATED)
        for name, fits, want in (
            ("temperature", math.isfinite(heat) and heat >= 0, "0 (greedy) or a positive number"),
            ("top_p", 0 < self.top_p <= 1, "a number in (0, 1]; 1 keeps all"),
            ("top_k", self.top_k >= 0, "a whole number, 0 to keep all"),
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("max_tokens", most is None or most >= 1, "at least 1, or None"),
            ("max_thinking_tokens", thought is None or thought >= 1, "at least 1, or None"),
            ("max_thinking_tokens", thought is None or most is threshold is None,
             "None with `max_tokens` or `adaptive_temperature`"),
            ("adaptive_temperature", threshold is None or 0 < threshold <= 1,
             "a number in (0, 1], or None"),
            ("stop", all(self.stop), "strings that are not empty"),
            ("unknown", set(self.unknown) <= set(UNSTATED), f"some of {left_out}"),
        ):  # fmt: skip
            require(fits, name, getattr(self, name), want)

    @property
    def greedy(self) -> bool:
        """Return whether this decoding gives all probability to one completion per query."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def truncated(self) -> bool:
        """Return whether some tokens of positive probability under the model cannot be drawn."""
        return any(getattr(self, cut) != keeps_all for cut, (_, keeps_all) in CUTS.items())

    @property
    def two_passes(self) -> bool:
        """Return whether `adaptive_mode` "two_pass" is in use.

        The confidence of the greedy answer then decides whether other answers are drawn.
        """
        return self.adaptive_temperature is not None and self.adaptive_mode == "two_pass"

    @property
    def inexact(self) -> str:
        """The reason why output probabilities cannot be computed exactly; empty if they can."""
        if self.two_passes:
            return (
                "adaptive_mode 'two_pass' has no exact probabilities. Use adaptive_mode 'running'"
            )
        if self.max_tokens is not None:
            return (
                f"max_tokens {self.max_tokens} limits prompt and completion together, so there are "
                "no exact probabilities. Use --max-new-tokens"
            )
        return ""

    @property
    def longest(self) -> int:
        """Return the largest number of tokens of an output, including its thought."""
        return self.max_new_tokens + (self.max_thinking_tokens or 0)

    @property
    def greediest(self) -> Decoding:
        """Return greedy decoding with the same limits on tokens."""
        cuts: dict[str, Any] = {cut: keeps_all for cut, (_, keeps_all) in CUTS.items()}
        return replace(self, temperature=0.0, adaptive_temperature=None, **cuts)

    def beyond(self, *offered: str) -> list[str]:
        """Return the settings that differ from their defaults, and that an engine does not offer.

        Args:
            offered: the names of the settings that the engine offers.

        Returns:
            Names of settings, in the order of the fields.
        """
        return [name for name in changed(self) if name not in offered]

    @property
    def name(self) -> str:
        """Return a short unambiguous name; settings that the name omits have their defaults."""
        parts = ["greedy"] if self.temperature == 0 else [f"T={self.temperature:g}"]
        for cut, (label, keeps_all) in CUTS.items():
            if (value := getattr(self, cut)) != keeps_all:
                parts.append(f"{label}={value if isinstance(value, int) else f'{value:g}'}")
        if self.adaptive_temperature is not None:
            parts.append(f"adaptive={self.adaptive_temperature:g}")
            if self.adaptive_mode != "running":
                parts.append(self.adaptive_mode)
        if "temperature" in self.unknown:
            del parts[0]
        if self.filter != "missing":
            parts.append("after the service's filter")
        parts += [f"{UNSTATED[name]} unknown" for name in UNSTATED if name in self.unknown]
        return " ".join(parts)

    def room(self, length: int) -> int:
        """Return the largest number of tokens that a completion may have after a prompt.

        Args:
            length: the number of tokens of the prompt.

        Returns:
            The number; 0 or less if the prompt and `max_tokens` leave no room for a completion.
        """
        most = self.max_tokens
        return self.longest if most is None else min(self.longest, most - length)

    def to_dict(self) -> dict[str, Json]:
        """Return the fields as JSON values; newer fields are left out if they have their defaults.

        Returns:
            Values by the names of the fields.
        """
        later = changed(self)
        items = object_of(self).items()
        return {k: v for k, v in items if k not in _LATER or k in later}


def require(condition: bool, name: str, value: object, want: str, remedy: str = "") -> None:
    """Raise InputError if a setting does not satisfy its condition.

    Args:
        condition: whether the value is valid.
        name: the name of the setting in the message.
        value: the value of the setting.
        want: the requirement, as a phrase after "must be".
        remedy: the fix, as a sentence; empty: the message has no fix.

    Raises:
        InputError: the condition is false. The message states the setting, the value and the
            remedy.
    """
    if not condition:
        raise InputError(f"`{name}` must be {want}, got {value!r}. {remedy}".rstrip())
