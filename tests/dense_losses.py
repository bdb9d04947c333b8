"""Every loss by plain loops over padded float64 arrays, without shared code.

A new loss adds a row to `CASES`, which the conformance suite iterates over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from leakbound.losses import Setting
from loss_cases import ALTERNATE, INVENTED, LABELS, LAYER, MASKS, ROWS, SIZE, Tensors

Values = list[float]
Fixed = dict[str, Any]


def softmax(row: Tensor) -> Values:
    total = sum(math.exp(x) for x in row.tolist())
    return [math.exp(x) / total for x in row.tolist()]


def places(leaf: str, b: int) -> list[int]:
    """Return the columns of row b that count."""
    return [t for t, counts in enumerate(MASKS[leaf][b].tolist()) if counts]


def mean(values: Values) -> float:
    return sum(values) / len(values)


def summed_nll(logits: Tensor, labels: Tensor, leaf: str) -> Values:
    return [
        sum(-math.log(softmax(logits[b, t])[labels[b, t]]) for t in places(leaf, b))
        for b in range(len(labels))
    ]


def mean_nll(logits: Tensor, labels: Tensor, leaf: str) -> Values:
    sums = summed_nll(logits, labels, leaf)
    return [s / len(places(leaf, b)) for b, s in enumerate(sums)]


def nll(given: Tensors, fixed: Fixed) -> Values:
    return mean_nll(given["logits"], LABELS, "logits")


def ga(given: Tensors, fixed: Fixed) -> Values:
    return [-x for x in nll(given, fixed)]


def idk(given: Tensors, fixed: Fixed) -> Values:
    return mean_nll(given["alternate"], ALTERNATE, "alternate")


LEAF = {"answer": "logits", "all": "whole"}


def kl(given: Tensors, fixed: Fixed, over: str = "answer") -> Values:
    leaf = LEAF[over]

    def at(b: int, t: int) -> float:
        p, q = softmax(fixed[leaf][b, t]), softmax(given[leaf][b, t])
        return sum(x * math.log(x / y) for x, y in zip(p, q, strict=True))

    return [mean([at(b, t) for t in places(leaf, b)]) for b in range(ROWS)]


def entropy(given: Tensors, fixed: Fixed, over: str = "answer") -> Values:
    leaf = LEAF[over]

    def at(b: int, t: int) -> float:
        return -sum(p * math.log(p) for p in softmax(given[leaf][b, t]))

    return [mean([at(b, t) for t in places(leaf, b)]) for b in range(ROWS)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def npo(given: Tensors, fixed: Fixed, beta: float = 0.1) -> Values:
    own = summed_nll(given["logits"], LABELS, "logits")
    return [
        -(2 / beta) * math.log(sigmoid(beta * (nll - ref)))
        for nll, ref in zip(own, fixed["nll"].tolist(), strict=True)
    ]


def dpo(
    given: Tensors,
    fixed: Fixed,
    beta: float = 0.1,
    textbook: bool = False,
    other: tuple[str, Tensor] = ("alternate", ALTERNATE),
) -> Values:
    (part, labels), values = other, []
    lost, won = summed_nll(given["logits"], LABELS, "logits"), summed_nll(given[part], labels, part)
    for b in range(ROWS):
        margin = (lost[b] - float(fixed["nll"][b])) - (won[b] - float(fixed[f"{part} nll"][b]))
        values.append(-math.log(sigmoid(beta * margin)) * (1 if textbook else 2 / beta))
    return values


def altpo(given: Tensors, fixed: Fixed, beta: float = 0.1) -> Values:
    return dpo(given, fixed, beta, other=("invented", INVENTED))


def weighted(given: Tensors, kept: Tensors | None, known: float, unsure: float) -> Values:
    """Return log p of each token, weighted by the probabilities of `held` or of the model."""
    law = (kept or given)["logits"]

    def at(b: int, t: int) -> float:
        p, then = (softmax(each[b, t])[LABELS[b, t]] for each in (given["logits"], law))
        return float(then**known * (1 - then) ** unsure) * math.log(p)

    return [mean([at(b, t) for t in places("logits", b)]) for b in range(ROWS)]


def wga(given: Tensors, fixed: Fixed, beta: float = 1.0, kept: Tensors | None = None) -> Values:
    return weighted(given, kept, beta, 0.0)


def satimp(
    given: Tensors,
    fixed: Fixed,
    beta1: float = 5.0,
    beta2: float = 1.0,
    kept: Tensors | None = None,
) -> Values:
    return weighted(given, kept, beta1, beta2)


def cross_entropy(law: Values, logits: Tensor) -> float:
    return -sum(q * math.log(p) for q, p in zip(law, softmax(logits), strict=True))


def undial(given: Tensors, fixed: Fixed, beta: float = 10.0, over: str = "answer") -> Values:
    leaf, values = LEAF[over], []
    for b in range(ROWS):
        read, labels = places(leaf, b), [int(LABELS[b, t]) for t in places("logits", b)]
        if over == "all":  # the last token of a row predicts nothing
            read = read[:-1]
        lowered = [None] * (len(read) - len(labels)) + labels
        each = []
        for t, label in zip(read, lowered, strict=True):
            reference = fixed[leaf][b, t].clone()
            if label is not None:
                reference[label] -= beta
            each.append(cross_entropy(softmax(reference), given[leaf][b, t]))
        values.append(mean(each))
    return values


def ceu(given: Tensors, fixed: Fixed, kept: Tensors | None = None, over: str = "answer") -> Values:
    law, first = (kept or given)["logits"], int(over == "rest")

    def at(b: int, t: int) -> float:
        others = softmax(law[b, t])
        others[LABELS[b, t]] = 0.0
        return cross_entropy([q / sum(others) for q in others], given["logits"][b, t])

    return [mean([at(b, t) for t in places("logits", b)[first:]]) for b in range(ROWS)]


def margin(given: Tensors, fixed: Fixed, over: str = "answer") -> Values:
    leaf = "whole" if over == "read" else "logits"
    own = [places(leaf, b)[-len(places("logits", b)) :] for b in range(ROWS)]
    rows = [[given[leaf][b, t].tolist() for t in own[b]] for b in range(ROWS)]
    return [mean([(max(logits) - mean(logits)) ** 2 for logits in row]) for row in rows]


def simnpo(given: Tensors, fixed: Fixed, beta: float = 4.5, delta: float = 0.0) -> Values:
    return [-(2 / beta) * math.log(sigmoid(beta * (x - delta))) for x in nll(given, fixed)]


def square(a: Tensor, b: Tensor, distance: str = "mean") -> float:
    total = sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return total / SIZE if distance == "mean" else total


def rmu(given: Tensors, fixed: Fixed, layer: int = 0, c: float = 2.0) -> Values:
    hidden, target = given["answer"], c * fixed["direction"]
    return [mean([square(hidden[b, t], target) for t in places("answer", b)]) for b in range(ROWS)]


def rmu_retain(given: Tensors, fixed: Fixed, layer: int = 0) -> Values:
    return kept(given, fixed, "answer", "mean")


def cel_retain(given: Tensors, fixed: Fixed, layer: int = 0, distance: str = "mean") -> Values:
    return kept(given, fixed, "question", distance)


def kept(given: Tensors, fixed: Fixed, leaf: str, distance: str) -> Values:
    return [
        mean([square(given[leaf][b, t], fixed[leaf][b, t], distance) for t in places(leaf, b)])
        for b in range(ROWS)
    ]


def cel(
    given: Tensors,
    fixed: Fixed,
    *,
    layer: int = 0,
    tau: float = 0.05,
    alpha: float = 0.5,
    beta: float = 1.0,
    s: float = 1.0,
    distance: str = "mean",
    align: str = "clamp",
) -> Values:
    values = []
    for b in range(ROWS):
        question = [given["question"][b, t] for t in places("question", b)]
        far = []
        for centre in fixed["centres"][b]:
            each = []
            for t, h in enumerate(question):
                if t < len(centre):
                    each.append(square(h, centre[t], distance))
                elif align == "clamp":
                    each.append(square(h, centre[-1], distance))
            far.append(mean(each))
        pull = mean([square(h, s * fixed["direction"], distance) for h in question])
        values.append(alpha * max(0.0, tau - mean(far)) + beta * pull)
    return values


@dataclass(frozen=True)
class Case:
    """A loss by hand, the settings that every property is tested under, and other settings.

    `holds`: its gradient treats some outputs of the model as constants, `held` of the twin.
    """

    twin: Callable[..., Values]
    settings: dict[str, Setting] = field(default_factory=dict)
    others: tuple[dict[str, Setting], ...] = ()
    holds: bool = False


CASES: dict[str, Case] = {
    "altpo": Case(altpo, {"beta": 0.3}, ({}, {"beta": 0.5})),
    "cel": Case(
        cel,
        {"layer": LAYER, "tau": 9.0, "alpha": 0.7, "beta": 0.4, "s": 1.5},
        (
            {"layer": LAYER},
            {"layer": LAYER, "tau": 2.0, "alpha": 1.0, "beta": 0.0},
            {"layer": LAYER, "tau": 9.0, "alpha": 0.4, "beta": 0.3, "s": 2.0},
            {"layer": LAYER, "tau": 9.0, "align": "truncate"},
            {"layer": LAYER, "tau": 30.0, "distance": "sum"},
        ),
    ),
    "cel-retain": Case(cel_retain, {"layer": LAYER}, ({"layer": LAYER, "distance": "sum"},)),
    "ceu": Case(ceu, holds=True),
    "ceu:rest": Case(ceu, {"over": "rest"}, holds=True),
    "dpo": Case(dpo, {"beta": 0.3}, ({}, {"beta": 0.5}, {"beta": 0.5, "textbook": True})),
    "entropy": Case(entropy),
    "entropy:all": Case(entropy, {"over": "all"}),
    "ga": Case(ga),
    "idk": Case(idk),
    "kl": Case(kl),
    "kl:all": Case(kl, {"over": "all"}),
    "margin": Case(margin),
    "margin:read": Case(margin, {"over": "read"}),
    "nll": Case(nll),
    "npo": Case(npo, {"beta": 0.3}, ({}, {"beta": 0.05}, {"beta": 2.0})),
    "rmu": Case(rmu, {"layer": LAYER, "c": 3.0}, ({"layer": LAYER}, {"layer": LAYER, "c": 6.5})),
    "rmu-retain": Case(rmu_retain, {"layer": LAYER}),
    "satimp": Case(
        satimp, {"beta1": 2.0, "beta2": 0.7}, ({}, {"beta1": 0.0, "beta2": 0.0}), holds=True
    ),
    "simnpo": Case(simnpo, {"beta": 2.0, "delta": 0.5}, ({}, {"beta": 1.5, "delta": 0.7})),
    "undial": Case(undial, {"beta": 2.0}, ({}, {"beta": 0.0})),
    "undial:all": Case(undial, {"beta": 2.0, "over": "all"}, ({"over": "all"},)),
    "wga": Case(wga, {"beta": 0.6}, ({}, {"beta": 0.0}), holds=True),
}
