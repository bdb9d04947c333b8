"""Recipes of objectives: functions of settings that return terms. Joined recipes add their terms.

Defaults are from the papers (Scholten et al. 2025; Cheng et al. 2025, with their baselines from
OpenUnlearning). A preset replaces these defaults by the settings for a model family, from a paper,
or from OpenUnlearning's code. The presets for OpenUnlearning's code also contain training settings.

Most recipes combine a loss on the forget set with a loss on the retain set (`forgetting`), and have
the settings of both losses. `over` specifies the tokens over which a loss averages. `reduce`
specifies how rows are averaged (see `Term`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature

from leakbound.losses import Setting, loss_named
from leakbound.losses.family import keywords
from leakbound.objective.terms import Dual, Reduce, Term

Terms = tuple[Term, ...]
QUARTER = 0.25
"""The published methods steer the last block within this fraction of the depth: block 7 of 32, or
block 5 of 24.
"""


def forgetting(lost: str, kept: str | None = "nll", /, **defaults: Setting) -> Callable[..., Terms]:
    """Return a recipe with one loss on the forget set and one loss on the retain set.

    Args:
        lost: the loss on the forget set.
        kept: the loss on the retain set (default: the cross-entropy; None: no such loss).
        defaults: defaults of the recipe's settings that differ from the losses' defaults. The
            weights `forget` and `retain` are settings of the recipe if they have a default here,
            and 1 otherwise.

    Returns:
        The recipe. It has the settings of both losses, the weights, and `reduce`, which applies to
        losses that are means over tokens.
    """
    losses = {"forget": lost} | ({"retain": kept} if kept else {})
    settings = {split: keywords(loss_named(loss).function) for split, loss in losses.items()}
    usual: dict[str, Setting] = {
        name: value.default for taken in settings.values() for name, value in taken.items()
    }
    reduced = {split for split, loss in losses.items() if loss_named(loss).over is not None}
    usual |= defaults | ({"reduce": "sequence"} if reduced else {})

    def recipe(**given: Setting) -> Terms:
        values = usual | given
        reduce: Reduce = values.get("reduce", "sequence")  # type: ignore[assignment]
        return tuple(
            Term(
                loss,
                split,
                float(values.get(split, 1.0)),
                {name: values[name] for name in settings[split]},
                reduce if split in reduced else "sequence",
            )
            for split, loss in losses.items()
        )

    kind = Parameter.KEYWORD_ONLY
    parameters = [Parameter(name, kind, default=value) for name, value in usual.items()]
    recipe.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return recipe


def finetune(*, reduce: Reduce = "sequence") -> Terms:
    """Return the term of fine-tuning: the mean token cross-entropy of the training rows."""
    return (Term("nll", "train", reduce=reduce),)


def kl_retain(*, weight: float = 1.0, reduce: Reduce = "sequence", over: str = "answer") -> Terms:
    """Return the term `kl` on the retain set, to join with other recipes; `over` as in `kl`."""
    return (Term("kl", "retain", weight, {"over": over}, reduce),)


def idk(*, forget: float = 1.0, retain: float = 1.0, joined: bool = False) -> Terms:
    """Return terms that teach "I don't know" on forget prompts, and the answers on retain prompts.

    With `joined`, there is one mean over the tokens of both splits, as in the code of Maini et al.
    """
    reduce: Reduce = "joined" if joined else "sequence"
    kept = Term("nll", "retain", retain, reduce=reduce)
    return Term("idk", "forget", forget, reduce=reduce), kept


def pdu(
    *,
    forget: float = 1.0,
    retain: float = 100.0,
    at_most: float = 0.3,
    step: float = 5.0,
    warmup: float = 5.0,
    reduce: Reduce = "sequence",
    over: str = "answer",
) -> Terms:
    """Return a term for flat logits on the forget set, and a bound on the loss on the retain set.

    The method is from Entesari et al. (2025). The defaults are the authors' settings for TOFU.
    `retain` is the initial multiplier of the bound. `step` is the step size of the multiplier's
    updates, which begin after `warmup` epochs. `over` is `answer`, or `read` for the positions that
    the authors' code uses.
    """
    kept = Term("nll", "retain", retain, reduce=reduce, dual=Dual(at_most, step, warmup))
    return Term("margin", "forget", forget, {"over": over}, reduce), kept


OBJECTIVES: dict[str, Callable[..., Terms]] = {
    # Preference of a made-up answer over the true one (Mekala et al. 2024).
    "altpo": forgetting("altpo", retain=1.0),
    # Contrastive embedding loss (Cheng et al. 2025, Llama-2-7B); `retain` is their λ.
    "cel": forgetting("cel", "cel-retain", layer=QUARTER, retain=1.0),
    "ceu": forgetting("ceu", over="rest", forget=1.0, retain=0.0),  # Yang 2025
    # Preference of "I don't know" over the true answer (Rafailov et al. 2023; Maini et al.).
    "dpo": forgetting("dpo", retain=1.0),
    # Lower entropy on forget, higher on retain (Scholten et al. 2025; their code: over "all").
    "entropy": forgetting("entropy", "entropy", forget=1.0, retain=-0.25),
    "finetune": finetune,
    "ga": forgetting("ga", None),  # Yao et al. 2023
    "gd": forgetting("ga", forget=1.0, retain=1.0),  # gradient difference, Liu et al. 2022
    "idk": idk,
    "kl": forgetting("ga", "kl", forget=1.0, retain=1.0),  # Maini et al. 2024; theirs over "all"
    "kl-retain": kl_retain,
    "npo": forgetting("npo", retain=1.0),  # Zhang et al. 2024
    "pdu": pdu,
    # Misdirect one layer's activations on forget, and keep them on retain (Li et al. 2024).
    "rmu": forgetting("rmu", "rmu-retain", layer=QUARTER, retain=1.0),
    "satimp": forgetting("satimp", forget=1.0, retain=0.1),  # Yang et al. 2025
    "simnpo": forgetting("simnpo", forget=0.125, retain=1.0),  # Fan et al. 2024
    "undial": forgetting("undial", forget=1.0, retain=0.0),  # Dong et al. 2024
    "wga": forgetting("wga", forget=1.0, retain=1.0),  # Wang et al. 2025
}
"""The recipes by name. `layer` is the number of a block, from 0, or a fraction of the depth, which
means the last block within this fraction. If `retain` is 0 by default, the paper has no term on
the retain set.
"""

_TOKENS: Mapping[str, Setting] = {"reduce": "tokens"}
_OPEN_UNLEARNING: Mapping[str, Mapping[str, Setting]] = {
    "altpo": _TOKENS,
    "ceu": _TOKENS,
    "dpo": _TOKENS,
    "ga": _TOKENS,
    "gd": _TOKENS,
    "npo": _TOKENS,
    "pdu": {**_TOKENS, "over": "read", "retain": 1.0, "step": 1.0},
    "rmu": {"reduce": "pairs", "layer": 7},
    "satimp": {**_TOKENS, "forget": 0.1, "retain": 1.0},
    "simnpo": _TOKENS,
    "undial": {**_TOKENS, "over": "all"},
    "wga": _TOKENS,
}  # from configs/trainer/*.yaml at d3d7cf9; only values that differ from the defaults here
PRESETS: dict[str, Mapping[str, Mapping[str, Setting]]] = {
    "cel": {
        "llama-2-7b": {"layer": 7, "tau": 0.05, "alpha": 0.5, "beta": 1.0, "retain": 1.0},
        "phi-1.5": {"layer": 5, "tau": 1.0, "alpha": 1.0, "beta": 0.01, "retain": 2.0},
    },
    "entropy": {"leak-at-k": {"retain": 0.0}},
    "idk": {"joined": {"joined": True}},
    "npo": {"scholten": {"beta": 0.05}},
    "rmu": {"7b": {"c": 6.5}, "cais-7b": {"c": 6.5, "retain": 1200.0}},
}
for _name, _settings in _OPEN_UNLEARNING.items():
    PRESETS[_name] = {**PRESETS.get(_name, {}), "openunlearning": _settings}

TRAINING: dict[str, Mapping[str, Setting]] = {
    f"{name}:openunlearning": {
        "epochs": 10,
        "learning_rate": 1e-5,
        "batch_size": 8,
        "accumulation": 4,
        "schedule": "linear",
        "warmup_ratio": 0.1,
        "whole_steps": True,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
    }
    for name in _OPEN_UNLEARNING
}
"""The training settings of a preset's authors; keys are presets as users write them."""
TRAINING["altpo:openunlearning"] = {
    **TRAINING["altpo:openunlearning"], "epochs": 2, "warmup_ratio": 0.5
}  # fmt: skip
