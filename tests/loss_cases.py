"""One small padded batch with all inputs of losses, and its packing.

Each leaf is a padded tensor with its own mask; a loss may only read values inside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leakbound.losses import IGNORED, LossInputs, Needs, Site, direction, labelled, pack_activations

ROWS, WIDTH, VOCAB, SIZE, LAYER = 3, 6, 5, 4, 2
_ = IGNORED
LABELS = torch.tensor([[_, 3, 1, _, _, _], [2, _, 0, 4, _, _], [_, _, _, 1, 1, _]])
ALTERNATE = torch.tensor([[_, 4, _, _, _, _], [_, 1, 1, 0, 2, _], [3, _, 2, _, _, _]])
INVENTED = torch.tensor([[_, _, 0, 3, _, _], [1, _, _, _, _, _], [_, 2, _, 2, 4, _]])

MASKS = {
    "logits": LABELS != IGNORED,
    "alternate": ALTERNATE != IGNORED,
    "whole": torch.arange(WIDTH) < torch.tensor([[4], [5], [6]]),
    "answer": LABELS.roll(1, dims=1) != IGNORED,
    "question": torch.arange(WIDTH) < torch.tensor([[3], [1], [2]]),
    "invented": INVENTED != IGNORED,
}
LENGTHS_OF_CENTRES = ((2, 5), (4, 1, 3), (1, 2))

Tensors = dict[str, Tensor]


def leaves(seed: int = 1) -> Tensors:
    """Return padded outputs of the trained model: logits [B, T, V], hidden states [B, T, d]."""
    chance = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(
            *mask.shape,
            SIZE if name in ("answer", "question") else VOCAB,
            generator=chance,
            dtype=torch.float64,
        )
        for name, mask in MASKS.items()
    }


def references(seed: int = 2) -> dict[str, Any]:
    """Return the outputs of the frozen model with the same padding, and the direction."""
    other, chance = leaves(seed), torch.Generator().manual_seed(seed + 1)
    return {
        "logits": other["logits"],
        "whole": other["whole"],
        "answer": other["answer"],
        "question": other["question"],
        "nll": torch.tensor([4.0, 1.0, 2.5], dtype=torch.float64),
        "alternate nll": torch.tensor([0.5, 6.0, 3.0], dtype=torch.float64),
        "invented nll": torch.tensor([2.0, 1.5, 5.0], dtype=torch.float64),
        "centres": tuple(
            tuple(torch.randn(n, SIZE, generator=chance, dtype=torch.float64) for n in row)
            for row in LENGTHS_OF_CENTRES
        ),
        "direction": direction(SIZE, seed=3).double(),
    }


def pack(logits: Tensor, labels: Tensor, reference_logits: Tensor | None = None) -> LossInputs:
    """Pack padded logits and labels, already shifted, at the labelled positions."""
    at = labelled(labels)
    parts = {"logits": logits, "labels": labels, "reference_logits": reference_logits}
    own = {name: part if part is None else part[at] for name, part in parts.items()}
    return LossInputs(row=at[0], rows=len(labels), **own)


def build(given: Tensors, fixed: dict[str, Any] | None = None, pad: int = 0) -> LossInputs:
    """Return the packed batch with `pad` columns of NaN on the right, or left if negative."""
    fixed = references() if fixed is None else fixed
    side = (-pad, 0) if pad < 0 else (0, pad)

    def wide(values: Tensor) -> Tensor:
        return torch.nn.functional.pad(values, (0, 0, *side), value=torch.nan)

    def widened(mask: Tensor) -> Tensor:
        return torch.nn.functional.pad(mask, side)

    def site(name: str) -> Any:
        mask, centres, led = widened(MASKS[name]), fixed["centres"], fixed["direction"]
        frozen = pack_activations(wide(fixed[name]), mask).values
        made = pack_activations(wide(given[name]), mask)
        return replace(made, reference=frozen, centres=centres, direction=led)

    def labels(name: str, values: Tensor) -> Tensor:
        return torch.nn.functional.pad(values.masked_fill(~MASKS[name], IGNORED), side, value=_)

    alternate = pack(wide(given["alternate"]), labels("alternate", ALTERNATE))
    invented = pack(wide(given["invented"]), labels("invented", INVENTED))
    whole = pack(
        wide(given["whole"]),
        labels("whole", torch.zeros_like(LABELS)),
        reference_logits=wide(fixed["whole"]),
    )
    return replace(
        pack(wide(given["logits"]), labels("logits", LABELS), wide(fixed["logits"])),
        reference_nll=fixed["nll"],
        alternate=replace(alternate, reference_nll=fixed["alternate nll"]),
        invented=replace(invented, reference_nll=fixed["invented nll"]),
        whole=whole,
        activations={
            Site(LAYER, "answer"): site("answer"),
            Site(LAYER, "question"): site("question"),
        },
    )


def rows(batch: LossInputs, wanted: list[int]) -> LossInputs:
    """Return these rows of a batch, in this order, joined by hand."""

    def place(row: Tensor) -> tuple[Tensor, Tensor]:
        order = [(row == i).nonzero().flatten() for i in wanted]
        new = [torch.full_like(each, number) for number, each in enumerate(order)]
        return torch.cat([row[:0], *order]), torch.cat([row[:0], *new])  # wanted may be empty

    order, row = place(batch.row)
    sites = {}
    for site, each in batch.activations.items():
        at, site_row = place(each.row)
        assert each.reference is not None
        assert each.centres is not None
        sites[site] = replace(
            each,
            values=each.values[at],
            row=site_row,
            reference=each.reference[at],
            centres=tuple(each.centres[i] for i in wanted),
        )
    return LossInputs(
        logits=batch.logits[order],
        labels=batch.labels[order],
        row=row,
        rows=len(wanted),
        reference_nll=None if batch.reference_nll is None else batch.reference_nll[wanted],
        reference_logits=(
            None if batch.reference_logits is None else batch.reference_logits[order]
        ),
        alternate=None if batch.alternate is None else rows(batch.alternate, wanted),
        invented=None if batch.invented is None else rows(batch.invented, wanted),
        whole=None if batch.whole is None else rows(batch.whole, wanted),
        activations=sites,
    )


def only(batch: LossInputs, needs: Needs) -> LossInputs:
    """Return the batch with only the needed parts."""
    answers = {"alternate", "invented"}
    absent = {"reference_nll", "reference_logits", "whole", *answers} - needs.parts
    at_site = {"reference", "centres", "direction"} - needs.parts
    batch = replace(
        batch,
        activations={
            site: replace(batch.activations[site], **dict.fromkeys(at_site)) for site in needs.sites
        },
        **dict.fromkeys(absent),
    )
    if "reference_nll" not in needs.parts:
        for part in answers & needs.parts:
            batch = replace(batch, **{part: replace(getattr(batch, part), reference_nll=None)})
    if batch.whole is not None and "whole_reference" not in needs.parts:
        batch = replace(batch, whole=replace(batch.whole, reference_logits=None))
    if "logits" not in needs.parts:
        batch = replace(batch, logits=batch.logits[:, :0])
    return batch
