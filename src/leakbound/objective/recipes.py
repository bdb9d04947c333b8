"""Recipes: functions of their settings that return terms; joined recipes add up their terms.

Defaults are those of the papers (Scholten et al. 2025; Cheng et al. 2025 and the baselines they
take from OpenUnlearning). A preset is a name for other settings: those of one model family, of one
paper, or of OpenUnlearning's code, which tells how to train as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leakbound.losses import Setting
from leakbound.losses.contrastive import Align
from leakbound.losses.steering import Distance
from leakbound.objective.terms import Dual, Reduce, Term

Terms = tuple[Term, ...]
QUARTER = 0.25
"""The share of the depth whose last block is led: 7 of 32 and 5 of 24, as published."""


def _descent(retain: float, reduce: Reduce) -> Term:
    """On the cross-entropy of what is kept."""
    return Term("nll", "retain", retain, reduce=reduce)


def finetune(*, reduce: Reduce = "sequence") -> Terms:
    """Plain fine-tuning: mean token cross-entropy on the rows given."""
    return (Term("nll", "train", reduce=reduce),)


def ga(*, reduce: Reduce = "sequence") -> Terms:
    """Gradient ascent on the forget set alone (Yao et al. 2023)."""
    return (Term("ga", "forget", reduce=reduce),)


def gd(*, forget: float = 1.0, retain: float = 1.0, reduce: Reduce = "sequence") -> Terms:
    """Gradient difference (Liu et al. 2022): ascent on forget, descent on retain."""
    return Term("ga", "forget", forget, reduce=reduce), _descent(retain, reduce)


def kl(
    *, forget: float = 1.0, retain: float = 1.0, reduce: Reduce = "sequence", over: str = "answer"
) -> Terms:
    """KL minimisation (Maini et al. 2024): ascent on forget, close to the reference on retain.

    `over` is `answer`, or `all` for every token of prompt and answer, as in their code.
    """
    return Term("ga", "forget", forget, reduce=reduce), *kl_retain(
        weight=retain, reduce=reduce, over=over
    )


def kl_retain(*, weight: float = 1.0, reduce: Reduce = "sequence", over: str = "answer") -> Terms:
    """Closeness to the reference on retain, to join to any other recipe; `over` as in `kl`."""
    return (Term("kl", "retain", weight, {"over": over}, reduce),)


def idk(*, forget: float = 1.0, retain: float = 1.0, joined: bool = False) -> Terms:
    """Fine-tuning on "I don't know" answers to forget, with descent on retain (Maini et al.).

    `joined` takes one mean over the tokens of both, as their code does.
    """
    reduce: Reduce = "joined" if joined else "sequence"
    return Term("idk", "forget", forget, reduce=reduce), _descent(retain, reduce)


def dpo(
    *, beta: float = 0.1, textbook: bool = False, retain: float = 1.0, reduce: Reduce = "sequence"
) -> Terms:
    """Preference of "I don't know" over the true answer (Rafailov et al. 2023; Maini et al.).

    `reduce`, here and in `npo` and `simnpo`, is that of the descent on retain.
    """
    settings: dict[str, Setting] = {"beta": beta, "textbook": textbook}
    return Term("dpo", "forget", settings=settings), _descent(retain, reduce)


def npo(*, beta: float = 0.1, retain: float = 1.0, reduce: Reduce = "sequence") -> Terms:
    """Negative preference optimisation (Zhang et al. 2024) with descent on retain."""
    return Term("npo", "forget", settings={"beta": beta}), _descent(retain, reduce)


def simnpo(
    *,
    beta: float = 4.5,
    delta: float = 0.0,
    forget: float = 0.125,
    retain: float = 1.0,
    reduce: Reduce = "sequence",
) -> Terms:
    """NPO by length instead of a reference (Fan et al. 2024), with descent on retain."""
    settings: dict[str, Setting] = {"beta": beta, "delta": delta}
    return Term("simnpo", "forget", forget, settings), _descent(retain, reduce)


def rmu(
    *, layer: float = QUARTER, c: float = 2.0, retain: float = 1.0, reduce: Reduce = "sequence"
) -> Terms:
    """Misdirection of one layer's activations (Li et al. 2024), held in place on retain.

    `layer` is a block, counted from 0, or the last one of a share of the depth.
    """
    return (
        Term("rmu", "forget", settings={"layer": layer, "c": c}, reduce=reduce),
        Term("rmu-retain", "retain", retain, {"layer": layer}, reduce),
    )


def cel(
    *,
    layer: float = QUARTER,
    tau: float = 0.05,
    alpha: float = 0.5,
    beta: float = 1.0,
    s: float = 1.0,
    retain: float = 1.0,
    distance: Distance = "mean",
    align: Align = "clamp",
) -> Terms:
    """Contrastive embedding loss (Cheng et al. 2025, Llama-2-7B); `retain` is their λ.

    `layer` as in `rmu`.
    """
    push: dict[str, Setting] = {"tau": tau, "alpha": alpha, "align": align}
    pull: dict[str, Setting] = {"beta": beta, "s": s}
    common: dict[str, Setting] = {"layer": layer, "distance": distance}
    return (
        Term("cel", "forget", settings=push | pull | common),
        Term("cel-retain", "retain", retain, common),
    )


def entropy(*, forget: float = 1.0, retain: float = -0.25, over: str = "answer") -> Terms:
    """Entropy regularisation (Scholten et al. 2025): surer on forget, not so on retain.

    `over` is `answer`, or `all` for every token of prompt and answer, nearer to their code.
    """
    weights = {"forget": forget, "retain": retain}
    return tuple(Term("entropy", name, weight, {"over": over}) for name, weight in weights.items())


def altpo(*, beta: float = 0.1, retain: float = 1.0, reduce: Reduce = "sequence") -> Terms:
    """Preference of what the model makes up over the true answer (Mekala et al. 2024).

    It draws from the model before training. `reduce`, here and where it is no other's, is that of
    the descent on retain.
    """
    return Term("altpo", "forget", settings={"beta": beta}), _descent(retain, reduce)


def ceu(
    *, forget: float = 1.0, retain: float = 0.0, reduce: Reduce = "sequence", over: str = "rest"
) -> Terms:
    """Cross-entropy to the model's own law without the true token (Yang 2025).

    `over` is `rest`, all of the answer's tokens but the first, or `answer`.
    """
    return Term("ceu", "forget", forget, {"over": over}, reduce), _descent(retain, reduce)


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
    """Flat logits on forget, the cross-entropy of retain at most so large (Entesari et al. 2025).

    The defaults are theirs for TOFU: `retain` is the multiplier at first, `step` its step and
    `warmup` the epochs that it stands still. `over` is `answer`, or `read` for where their code
    takes logits.
    """
    kept = Term("nll", "retain", retain, reduce=reduce, dual=Dual(at_most, step, warmup))
    return Term("margin", "forget", forget, {"over": over}, reduce), kept


def satimp(
    *,
    beta1: float = 5.0,
    beta2: float = 1.0,
    forget: float = 1.0,
    retain: float = 0.1,
    reduce: Reduce = "sequence",
) -> Terms:
    """Ascent weighted by saturation and importance (Yang et al. 2025), with descent on retain."""
    settings: dict[str, Setting] = {"beta1": beta1, "beta2": beta2}
    return Term("satimp", "forget", forget, settings, reduce), _descent(retain, reduce)


def undial(
    *,
    beta: float = 10.0,
    forget: float = 1.0,
    retain: float = 0.0,
    reduce: Reduce = "sequence",
    over: str = "answer",
) -> Terms:
    """Self-distillation with the true tokens' logits lowered by β (Dong et al. 2024).

    `over` is `answer`, or `all` for every token of prompt and answer that predicts another.
    """
    settings: dict[str, Setting] = {"beta": beta, "over": over}
    return Term("undial", "forget", forget, settings, reduce), _descent(retain, reduce)


def wga(
    *, beta: float = 1.0, forget: float = 1.0, retain: float = 1.0, reduce: Reduce = "sequence"
) -> Terms:
    """Ascent weighted by the token's probability (Wang et al. 2025), with descent on retain."""
    return Term("wga", "forget", forget, {"beta": beta}, reduce), _descent(retain, reduce)


OBJECTIVES: dict[str, Callable[..., Terms]] = {
    recipe.__name__.replace("_", "-"): recipe
    for recipe in (
        altpo, cel, ceu, dpo, entropy, finetune, ga, gd, idk, kl, kl_retain, npo, pdu, rmu,
        satimp, simnpo, undial, wga
    )
}  # fmt: skip
"""The recipes by name."""

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
}  # configs/trainer/*.yaml at d3d7cf9, where they depart from our defaults
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
"""How those who published a preset train, by the preset as it is written."""
TRAINING["altpo:openunlearning"] = {
    **TRAINING["altpo:openunlearning"], "epochs": 2, "warmup_ratio": 0.5
}  # fmt: skip
