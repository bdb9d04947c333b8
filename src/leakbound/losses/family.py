"""`Loss`: a loss function with the parts of a batch that it needs and its settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses.inputs import Activations, LossInputs, Over, Site, Tokens, given
from leakbound.registry import suggestion

PARTS = (
    "logits",
    "reference_nll",
    "reference_logits",
    "alternate",
    "invented",
    "whole",
    "whole_reference",  # the field reference_logits of `whole`
    # of the activations
    "reference",
    "centres",
    "direction",
)
"""Names of the fields of `LossInputs` and `Activations` that a loss may need."""

Setting = float | str  # for the type checker, whole numbers and booleans are floats


@dataclass(frozen=True, slots=True)
class Needs:
    """The parts and activations that one forward pass over a split must provide.

    If `parts` has `reference`, `centres` or `direction`, every site needs this part. All other
    parts may be absent; absent `logits` have the shape N × 0. Additional parts are ignored.

    Attributes:
        parts: names of PARTS.
        sites: the layers and tokens at which activations are needed.
    """

    parts: frozenset[str] = frozenset()
    sites: frozenset[Site] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.parts | other.parts, self.sites | other.sites)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss: `function(batch, **settings)` returns one value per row, [B].

    Attributes:
        function: maps a `LossInputs` and keyword-only settings to a tensor [B].
        needs: the parts of a batch that the loss uses, as names of PARTS.
        tokens: the tokens whose activations the loss uses (None: it uses no activations). Its
            setting `layer` specifies the layer: the number of a block, or a fraction of the model's
            depth that `Objective.at_depth` replaces by a block.
        over: the tokens over which the loss averages (None: its values are not means over tokens).
        others: for each value of the loss's setting `over` except "answer", the values that replace
            the attributes `needs` and `over`.
    """

    function: Callable[..., Tensor]
    needs: frozenset[str] = frozenset({"logits"})
    tokens: Tokens | None = None
    over: Over | None = None
    others: Mapping[str, tuple[frozenset[str], Over]] = field(default_factory=dict)

    def mean_over(self, settings: Mapping[str, Setting]) -> Over | None:
        """Return the tokens over which the values of the loss are means under these settings.

        Args:
            settings: the values of the loss's settings.

        Returns:
            The tokens; None if the values are not means over tokens.
        """
        return self._under(settings)[1]

    def _under(self, settings: Mapping[str, Setting]) -> tuple[frozenset[str], Over | None]:
        default = keywords(self.function)["over"].default if self.others else "answer"
        return self.others.get(str(settings.get("over", default)), (self.needs, self.over))

    def needed(self, settings: Mapping[str, Setting]) -> Needs:
        """Return the parts and activations that the loss needs under these settings.

        Args:
            settings: the values of the loss's settings, with `layer` if it uses activations.

        Returns:
            The parts, and the site whose activations the loss uses.
        """
        parts, _ = self._under(settings)
        if self.tokens is None:
            return Needs(parts)
        layer: Any = settings["layer"]
        return Needs(parts, frozenset({Site(layer, self.tokens)}))

    def check(self, name: str, settings: Mapping[str, Setting]) -> None:
        """Raise InputError for settings that are unknown, missing or invalid.

        Args:
            name: the loss's name, for the message.
            settings: the values of its settings.

        Raises:
            InputError: an unknown setting, a value that is not of the same kind as the default, no
                value for a setting without a default, or a value that the loss function refuses.
        """
        parameters = keywords(self.function)
        for setting, value in settings.items():
            if setting not in parameters:
                raise InputError(
                    f"loss {name!r} has no setting {setting!r}. {suggestion(setting, parameters)}"
                )
            require_kind(parameters[setting], value, f"loss {name!r}")
        for setting, parameter in parameters.items():
            if parameter.default is parameter.empty and setting not in settings:
                raise InputError(f"loss {name!r} needs the setting `{setting}`, got none.")
        self.function(_probe(self.needed(settings)), **settings)  # the function refuses bad values


def keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the settings of a loss or a recipe: its keyword-only parameters."""
    parameters = inspect.signature(function).parameters
    return {name: param for name, param in parameters.items() if param.kind is param.KEYWORD_ONLY}


def require_kind(parameter: inspect.Parameter, value: object, of: str) -> None:
    """Raise InputError unless a setting and its default are both a word, a boolean or a number."""
    if parameter.name == "layer":
        good = value >= 0 if type(value) is int else type(value) is float and 0 < value < 1
        kind = "a whole number, 0 or more, or a fraction of the depth below 1"
    elif isinstance(parameter.default, bool):
        good, kind = isinstance(value, bool), "true or false"
    elif isinstance(parameter.default, str):
        good, kind = isinstance(value, str), "a word"
    else:
        good = isinstance(value, int | float) and math.isfinite(value)
        good, kind = good and not isinstance(value, bool), "a finite number"
    if not good:
        raise InputError(f"`{parameter.name}` of {of} must be {kind}, got {value!r}.")


def _probe(needs: Needs) -> LossInputs:
    """Return a minimal batch with every part, on which a loss function checks its settings."""
    zero, row = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    answer = LossInputs(logits=zero, labels=row, row=row, rows=1, reference_nll=torch.zeros(1))
    hidden = Activations(
        values=zero, row=row, reference=zero, centres=((zero, zero),), direction=zero[0]
    )
    return replace(
        answer,
        reference_logits=zero,
        alternate=answer,
        invented=answer,
        whole=replace(answer, reference_logits=zero),
        activations=dict.fromkeys(needs.sites, hidden),
    )


def covered(batch: LossInputs, loss: str, over: str, other: str) -> LossInputs:
    """Return the batch, or its `whole` if `over` is not "answer".

    Raises InputError for an unknown `over`.
    """
    require(over in ("answer", other), loss, "over", over, f"answer or {other}")
    return batch if over == "answer" else given(batch.whole, "whole", loss)


def frozen_logits(part: LossInputs, loss: str, over: str) -> Tensor:
    """Return the frozen model's logits for the result of `covered`; raise InputError if absent."""
    name = "reference_logits" if over == "answer" else "whole_reference"
    return given(part.reference_logits, name, loss)


def positive(loss: str, **settings: float) -> None:
    """Raise InputError for a setting that is not a finite number above 0."""
    for name, value in settings.items():
        require(0 < value < math.inf, loss, name, value, "positive")


def not_negative(loss: str, **settings: float) -> None:
    """Raise InputError for a setting that is not a finite number, 0 or more."""
    for name, value in settings.items():
        require(0 <= value < math.inf, loss, name, value, "0 or more")


def require(condition: bool, loss: str, name: str, value: object, want: str) -> None:
    """Raise InputError unless a condition on a loss's setting is true."""
    if not condition:
        raise InputError(
            f"`{name}` of {loss} must be {want}, got {value!r}. Omit it to use the default."
        )
