"""Losses: pure functions of a packed batch that return one value per answer.

No loss reduces over the batch, and no loss runs a model: the batch contains the values of the
frozen reference. A new loss is a module and one row of `LOSSES`. Other packages add `Loss` values
in the entry-point group `leakbound.losses`.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from leakbound.losses.contrastive import cel, cel_retain
from leakbound.losses.family import PARTS as PARTS
from leakbound.losses.family import Loss as Loss
from leakbound.losses.family import Needs as Needs
from leakbound.losses.family import Setting as Setting
from leakbound.losses.inputs import IGNORED as IGNORED
from leakbound.losses.inputs import Activations as Activations
from leakbound.losses.inputs import LossInputs as LossInputs
from leakbound.losses.inputs import Over as Over
from leakbound.losses.inputs import Site as Site
from leakbound.losses.inputs import Tokens as Tokens
from leakbound.losses.inputs import labelled as labelled
from leakbound.losses.inputs import pack_activations as pack_activations
from leakbound.losses.likelihood import entropy, ga, idk, kl, nll, satimp, wga
from leakbound.losses.likelihood import sequence_nll as sequence_nll
from leakbound.losses.likelihood import token_nll as token_nll
from leakbound.losses.preference import altpo, dpo, npo, simnpo
from leakbound.losses.steering import direction as direction
from leakbound.losses.steering import rmu, rmu_retain
from leakbound.losses.targets import ceu, margin, undial
from leakbound.registry import find, require_parts

_LOGITS, _WHOLE = frozenset({"logits"}), frozenset({"whole"})
_COMPARED = frozenset({"logits", "reference_logits"})
_WHOLE_COMPARED = frozenset({"whole", "whole_reference"})
LOSSES: dict[str, Loss] = {
    "altpo": Loss(altpo, frozenset({"logits", "reference_nll", "invented"})),
    "cel": Loss(cel, frozenset({"direction", "centres"}), "question"),
    "cel-retain": Loss(cel_retain, frozenset({"reference"}), "question"),
    "ceu": Loss(ceu, over="answer", others={"rest": (_LOGITS, "rest")}),
    "dpo": Loss(dpo, frozenset({"logits", "reference_nll", "alternate"})),
    "entropy": Loss(entropy, over="answer", others={"all": (_WHOLE, "whole")}),
    "ga": Loss(ga, over="answer"),
    "idk": Loss(idk, frozenset({"alternate"}), over="alternate"),
    "kl": Loss(kl, _COMPARED, over="answer", others={"all": (_WHOLE_COMPARED, "whole")}),
    "margin": Loss(margin, over="answer", others={"read": (_WHOLE, "answer")}),
    "nll": Loss(nll, over="answer"),
    "npo": Loss(npo, frozenset({"logits", "reference_nll"})),
    "rmu": Loss(rmu, frozenset({"direction"}), "answer", "answer"),
    "rmu-retain": Loss(rmu_retain, frozenset({"reference"}), "answer", "answer"),
    "satimp": Loss(satimp, over="answer"),
    "simnpo": Loss(simnpo),
    "undial": Loss(undial, _COMPARED, over="answer", others={"all": (_WHOLE_COMPARED, "read")}),
    "wga": Loss(wga, over="answer"),
}


@cache
def loss_named(name: str) -> Loss:
    """Return a loss by its name, from this or another package.

    Args:
        name: a key of `LOSSES`, or of the entry-point group `leakbound.losses`.

    Returns:
        The loss. A loss of another package is loaded once.

    Raises:
        InputError: an unknown name, or a broken loss of another package.
    """
    loss = find("loss", LOSSES, name)
    require_parts("loss", name, loss, (field.name for field in fields(Loss)))
    return loss
