"""Losses: pure functions of a packed batch that return one value for each answer.

None reduces over the batch, and none runs a model: what a frozen reference says comes in as data.
A new one joins by its module and one row of `LOSSES`; other packages add theirs as `Loss` values
in the entry-point group `leakbound.losses`.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from leakbound.losses.contrastive import cel, cel_retain
from leakbound.losses.family import PARTS, Loss, Needs, Setting
from leakbound.losses.inputs import (
    IGNORED,
    Activations,
    LossInputs,
    Over,
    Sampled,
    Site,
    Tokens,
    labelled,
    pack,
    pack_activations,
)
from leakbound.losses.leakage import leakmin
from leakbound.losses.likelihood import (
    entropy,
    entropy_all,
    ga,
    idk,
    kl,
    kl_all,
    nll,
    sequence_nll,
    token_nll,
)
from leakbound.losses.preference import dpo, npo, simnpo
from leakbound.losses.steering import direction, rmu, rmu_retain
from leakbound.registry import find, require_parts

LOSSES: dict[str, Loss] = {
    "cel": Loss(cel, frozenset({"direction", "centres"}), "question"),
    "cel-retain": Loss(cel_retain, frozenset({"reference"}), "question"),
    "dpo": Loss(dpo, frozenset({"logits", "reference_nll", "alternate"})),
    "entropy": Loss(entropy, over="answer"),
    "entropy-all": Loss(entropy_all, frozenset({"whole"}), over="whole"),
    "ga": Loss(ga, over="answer"),
    "idk": Loss(idk, frozenset({"alternate"}), over="alternate"),
    "kl": Loss(kl, frozenset({"logits", "reference_logits"}), over="answer"),
    "kl-all": Loss(kl_all, frozenset({"whole", "whole_reference"}), over="whole"),
    "leakmin": Loss(leakmin, frozenset({"sampled"})),
    "nll": Loss(nll, over="answer"),
    "npo": Loss(npo, frozenset({"logits", "reference_nll"})),
    "rmu": Loss(rmu, frozenset({"direction"}), "answer"),
    "rmu-retain": Loss(rmu_retain, frozenset({"reference"}), "answer"),
    "simnpo": Loss(simnpo),
}


@cache
def loss_named(name: str) -> Loss:
    """The loss called `name`, a third party's too; InputError for an unknown one."""
    loss = find("loss", LOSSES, name)
    require_parts("loss", name, loss, (field.name for field in fields(Loss)))
    return loss


__all__ = [
    "IGNORED",
    "LOSSES",
    "PARTS",
    "Activations",
    "Loss",
    "LossInputs",
    "Needs",
    "Over",
    "Sampled",
    "Setting",
    "Site",
    "Tokens",
    "cel",
    "cel_retain",
    "direction",
    "dpo",
    "entropy",
    "entropy_all",
    "ga",
    "idk",
    "kl",
    "kl_all",
    "labelled",
    "leakmin",
    "loss_named",
    "nll",
    "npo",
    "pack",
    "pack_activations",
    "rmu",
    "rmu_retain",
    "sequence_nll",
    "simnpo",
    "token_nll",
]
