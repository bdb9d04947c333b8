"""Every stress by its name, and the parser of its written form, such as `round:int4`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leakbound.errors import InputError
from leakbound.registry import find, make, read_settings, setting_types
from leakbound.stress.bench import Stress
from leakbound.stress.dialogue import Dialogue
from leakbound.stress.prompts import OpenedBy, Openers, Shots, TestFrame
from leakbound.stress.relearned import Relearn
from leakbound.stress.weights import Prune, Round

STRESSES: dict[str, Callable[..., Stress]] = {
    kind.name: kind
    for kind in (Dialogue, OpenedBy, Openers, Prune, Relearn, Round, Shots, TestFrame)
}

USUAL = ("round:int4", "prune:0.3", "openers", "test-frame")
"""Stresses that need only the model."""


def stresses_of(specs: Sequence[str]) -> tuple[Stress, ...]:
    """Return the stresses of these specs, without duplicates.

    Raises InputError for an unknown stress or setting.
    """
    return tuple({stress.spec: stress for spec in specs for stress in _opened(spec).each}.values())


def named_stress(spec: str) -> str:
    """Return the text of the single stress of this spec, as in results.

    Raises InputError if the spec means several stresses.
    """
    stresses = stresses_of([spec])
    if len(stresses) > 1:
        raise InputError(
            f"the stress {spec!r} is a group of {len(stresses)} stresses. Choose one, such as "
            f"{stresses[0].spec!r}."
        )
    return stresses[0].spec


def _opened(spec: str) -> Stress:
    name, _, written = spec.strip().partition(":")
    family = find("stress", STRESSES, name)
    types = setting_types("stress", name, family)
    values = read_settings("stress", name, written, types, next(iter(types), ""))
    parts = ("spec", "each", "require", "model", "queries", "engine")
    made: Stress = make("stress", name, family, values, parts)
    return made
