"""Recipes: functions of their settings that return terms; joined recipes add up their terms.

Defaults are those of the papers (Scholten et al. 2025; Cheng et al. 2025 and the baselines they
take from OpenUnlearning). A preset is a name for other settings: those of one model family, or of
one paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leakbound.losses import Setting
from leakbound.losses.contrastive import Align
from leakbound.losses.family import require
from leakbound.losses.steering import Distance
from leakbound.objective.terms import Reduce, Term

Terms = tuple[Term, ...]


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
    *, forget: float = 1.0, retain: float = 1.0, reduce: Reduce = "sequence", scope: str = "answer"
) -> Terms:
    """KL minimisation (Maini et al. 2024): ascent on forget, close to the reference on retain.

    `scope` is `answer`, or `all` for every token of prompt and answer, as in their code.
    """
    held = kl_retain(weight=retain, reduce=reduce, scope=scope)
    return Term("ga", "forget", forget, reduce=reduce), *held


def kl_retain(*, weight: float = 1.0, reduce: Reduce = "sequence", scope: str = "answer") -> Terms:
    """Closeness to the reference on retain, to join to any other recipe; `scope` as in `kl`."""
    require(scope in ("answer", "all"), "kl", "scope", scope, "answer or all")
    return (Term("kl" if scope == "answer" else "kl-all", "retain", weight, reduce=reduce),)


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


def leakmin(*, forget: float = 1.0, retain: float = 1.0) -> Terms:
    """Leak minimisation: down with the scores of the model's own answers to forget, beyond papers.

    Close to the reference on retain. It draws from the model in training.
    """
    return (Term("leakmin", "forget", forget), Term("kl", "retain", retain))


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


def rmu(*, layer: int = 7, c: float = 2.0, retain: float = 1.0) -> Terms:
    """Misdirection of one layer's activations (Li et al. 2024), held in place on retain."""
    return (
        Term("rmu", "forget", settings={"layer": layer, "c": c}),
        Term("rmu-retain", "retain", retain, {"layer": layer}),
    )


def cel(
    *,
    layer: int = 7,
    tau: float = 0.05,
    alpha: float = 0.5,
    beta: float = 1.0,
    s: float = 1.0,
    retain: float = 1.0,
    distance: Distance = "mean",
    align: Align = "clamp",
) -> Terms:
    """Contrastive embedding loss (Cheng et al. 2025, Llama-2-7B); `retain` is their λ."""
    push: dict[str, Setting] = {"tau": tau, "alpha": alpha, "align": align}
    pull: dict[str, Setting] = {"beta": beta, "s": s}
    common: dict[str, Setting] = {"layer": layer, "distance": distance}
    return (
        Term("cel", "forget", settings=push | pull | common),
        Term("cel-retain", "retain", retain, common),
    )


def entropy(*, forget: float = 1.0, retain: float = -0.25, scope: str = "answer") -> Terms:
    """Entropy regularisation (Scholten et al. 2025): surer on forget, not so on retain.

    `scope` is `answer`, or `all` for every token of prompt and answer, nearer to their code.
    """
    require(scope in ("answer", "all"), "entropy", "scope", scope, "answer or all")
    loss = "entropy" if scope == "answer" else "entropy-all"
    return (Term(loss, "forget", forget), Term(loss, "retain", retain))


OBJECTIVES: dict[str, Callable[..., Terms]] = {
    recipe.__name__.replace("_", "-"): recipe
    for recipe in (
        cel, dpo, entropy, finetune, ga, gd, idk, kl, kl_retain, leakmin, npo, rmu, simnpo
    )
}  # fmt: skip
"""The recipes by name."""

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
