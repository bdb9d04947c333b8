"""Each `NAME:openunlearning` next to OpenUnlearning's own trainer, on the same batch.

A tiny random Llama in float64 takes three passes over rows of unequal length, one of them with an
answer of a single token. Its weights differ from the frozen model's. Between two passes PDU's
multiplier moves. Our side is all that training does: the frozen model's values from disk, one
packed forward pass, `ObjectiveTrainer.compute_loss`. Their side is `compute_loss` of their class,
with the arguments of their YAML, on the batch as their collator pads it. The result is the largest
difference of a value, relative where it is above 1, and of a gradient, relative to its largest
entry.

UNDIAL gets its rows one by one, weighted by length, because its mean counts padding. The token at
V - 100 never occurs, because UNDIAL lowers it where there is no label.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from torch import Tensor

from leakbound.losses import direction
from leakbound.objective import Objective, parse_objective
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.examples import Example, ExampleRows, pad
from leakbound.unlearning.forward import forward_for
from leakbound.unlearning.reference import References, frozen_head
from leakbound.unlearning.trainer import Batches, ObjectiveTrainer
from tiny import tiny_llama

VOCAB, LAYER, PASSES = 120, 1, 3
METHODS = {
    "ga": "GradAscent", "gd": "GradDiff", "npo": "NPO", "dpo": "DPO", "altpo": "DPO",
    "simnpo": "SimNPO", "rmu": "RMU", "undial": "UNDIAL", "wga": "WGA", "satimp": "SatImp",
    "ceu": "CEU", "pdu": "PDU",
}  # fmt: skip
MORE = {"rmu": f",layer={LAYER}", "pdu": ",at_most=4.5,warmup=0"}
THEIR_MORE = {"PDU": {"retain_loss_eps": 4.5, "dual_warmup_epochs": 0}}


def examples(seed: int, answers: Sequence[int]) -> list[Example]:
    """Return rows with answers of these lengths and prompts of different lengths."""
    chance = torch.Generator().manual_seed(seed)

    def ids(number: int) -> tuple[int, ...]:
        return tuple(torch.randint(30, VOCAB, (number,), generator=chance).tolist())

    return [Example(ids(3 + 2 * i), ids(length)) for i, length in enumerate(answers)]


FORGET, OTHERS, RETAIN = examples(1, (4, 1, 6)), examples(2, (2, 5, 3)), examples(3, (3, 7, 2))
ALTERNATES = [Example(a.prompt, b.answer) for a, b in zip(FORGET, OTHERS, strict=True)]


def model(tied: bool) -> Any:
    """A random Llama in float64 that never generates token V - 100."""
    made = tiny_llama(VOCAB, seed=4, tie_word_embeddings=tied)
    made.lm_head.bias = torch.nn.Parameter(torch.zeros(VOCAB))
    with torch.no_grad():
        made.lm_head.bias[VOCAB - 100] = -60.0
    return made.double()


@dataclass(frozen=True)
class Difference:
    """Return the differences of values and gradients, and of PDU's multipliers."""

    method: str
    tied: bool
    value: float
    gradient: float
    multiplier: float


def compare(method: str, checkout: Path, tied: bool) -> Difference:
    """Run three passes of a method on both sides."""
    frozen = model(tied)
    moved = copy.deepcopy(frozen)
    with torch.no_grad():
        for i, parameter in enumerate(moved.parameters()):
            chance = torch.Generator().manual_seed(100 + i)
            parameter += 0.05 * torch.randn(parameter.shape, generator=chance, dtype=torch.float64)
    objective = parse_objective(f"{method}:openunlearning{MORE.get(method, '')}")
    with tempfile.TemporaryDirectory() as folder:
        our_pass, weights = ours(objective, frozen, moved, Path(folder))
        their_pass, theirs = other(METHODS[method], checkout, frozen, moved)
        value = gradient = multiplier = 0.0
        for _ in range(PASSES):
            (a, one), (b, two) = taken(our_pass, moved), taken(their_pass, moved)
            value = max(value, abs(a - b) / max(1.0, abs(b)))
            largest = max(float(each.abs().max()) for each in two.values())
            apart = max(float((one[name] - two[name]).abs().max()) for name in two)
            gradient = max(gradient, apart / largest)
            if method == "pdu":
                multiplier = max(multiplier, abs(weights[1] - theirs.preferences[1]))
    return Difference(method, tied, value, gradient, multiplier)


def taken(loss: Callable[[], Tensor], moved: Any) -> tuple[float, dict[str, Tensor]]:
    """Return a loss with its gradient by parameter, 0 without a gradient."""
    moved.zero_grad()
    value = loss()
    value.backward()
    named = moved.named_parameters()
    zero = torch.zeros_like
    return value.item(), {k: zero(p) if p.grad is None else p.grad.clone() for k, p in named}


def ours(
    objective: Objective, frozen: Any, moved: Any, folder: Path
) -> tuple[Callable[[], Tensor], list[float]]:
    """Return a pass of our trainer, and the weights of the terms, which it moves."""
    others = {"alternate": ALTERNATES, "invented": ALTERNATES}
    data = {"forget": ExampleRows(FORGET, others), "retain": ExampleRows(RETAIN)}
    assembly = Assembly({split: data[split] for split in objective.splits}, objective.needs)
    step = {split: [0, 1, 2] for split in objective.splits}
    references = References(folder, assembly, [step], chunk=2)
    before = forward_for(frozen, pad(FORGET[:2]), assembly.layers)
    references.compute(before, torch.device("cpu"))
    forward = forward_for(moved, pad(FORGET[:2]), assembly.layers)
    trainer = SimpleNamespace(
        args=SimpleNamespace(device=torch.device("cpu")),
        objective=objective,
        weights=objective.weights,
        assembly=assembly,
        head=frozen_head(before, assembly.needs),
        draw=lambda part: {},
        terms=torch.zeros(len(objective.terms), dtype=torch.float64),
        passes=0,
        accelerator=SimpleNamespace(reduce=lambda shares, how: shares),
    )
    trainer.move = partial(ObjectiveTrainer.move, trainer)
    inputs = Batches(assembly, references, [step], 0, 1)[0]
    return partial(ObjectiveTrainer.compute_loss, trainer, forward, inputs), trainer.weights


def other(name: str, checkout: Path, frozen: Any, moved: Any) -> tuple[Callable[[], Tensor], Any]:
    """Return a pass of their trainer, and the trainer."""
    from trainer import TRAINER_REGISTRY

    made = object.__new__(TRAINER_REGISTRY[name])  # without what else a Trainer is
    vars(made).update(arguments(checkout, name), model=moved, ref_model=frozen, log=lambda _: None)
    if name == "RMU":
        led = made.steering_coeff * direction(moved.config.hidden_size, seed=0)
        layers = moved.model.layers[LAYER], frozen.model.layers[LAYER]
        vars(made).update(model_module=layers[0], ref_module=layers[1])
        made.control_vec = led.double()[None, None]
    if name == "PDU":
        made.preferences, made.can_update = [made.gamma, made.alpha], True
    forget = {"original": collated(FORGET), "alternate": collated(ALTERNATES)}
    given = {"forget": forget if name == "DPO" else forget["original"], "retain": collated(RETAIN)}
    if name == "UNDIAL":
        return partial(row_by_row, made, moved, given["retain"]), made
    return partial(made.compute_loss, moved, given), made


def row_by_row(made: Any, moved: Any, retain: Any) -> Tensor:
    """Return their loss of each row, without padding, by its number of predictions."""
    losses = [made.compute_loss(moved, {"forget": collated([r]), "retain": retain}) for r in FORGET]
    lengths = [len(row.tokens) - 1 for row in FORGET]
    total: Tensor = sum(n * each for n, each in zip(lengths, losses, strict=True))
    return total / sum(lengths)


def arguments(checkout: Path, name: str) -> dict[str, Any]:
    """Return `method_args` of a trainer in their YAML, after those of its defaults."""
    got: dict[str, Any] = yaml.safe_load((checkout / f"configs/trainer/{name}.yaml").read_text())
    bases = [arguments(checkout, base) for base in got.get("defaults", ())]
    own = {**got.get("method_args", {}), **THEIR_MORE.get(name, {})}
    return {k: v for each in (*bases, own) for k, v in each.items()}


def collated(rows: Sequence[Example]) -> dict[str, Tensor]:
    """Pad like their collator: all tokens, with labels -100 except at the answer."""
    width = max(len(row.tokens) for row in rows)
    ids, labels = torch.zeros(len(rows), width, dtype=torch.long), []
    for i, row in enumerate(rows):
        ids[i, : len(row.tokens)] = torch.tensor(row.tokens)
        padding = width - len(row.tokens)
        labels.append([-100] * len(row.prompt) + [*row.answer] + [-100] * padding)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor(labels)}
