"""Every loss keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from residua.losses import IGNORED, LOSSES, LossInputs, pack

ROWS = {
    "entropy": {},
    "ga": {},
    "nll": {},
    "npo": {"beta": 0.3},
}
LABELS = torch.tensor([[IGNORED, 3, 1], [2, IGNORED, 0]])
REFERENCE = torch.tensor([4.0, 1.0], dtype=torch.float64)

every_loss = pytest.mark.parametrize("name", ROWS)


def logits() -> Tensor:
    return torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def value(name: str, batch: LossInputs) -> Tensor:
    return LOSSES[name].function(batch, **ROWS[name])


def at(name: str, x: Tensor, labels: Tensor = LABELS, reference: Tensor = REFERENCE) -> Tensor:
    return value(name, pack(x, labels, reference_nll=reference))


def test_every_loss_has_a_row() -> None:
    assert set(ROWS) == set(LOSSES)


@every_loss
def test_one_value_a_row(name: str) -> None:
    values = at(name, logits())
    assert values.shape == (2,)
    assert values.isfinite().all()


@every_loss
def test_rows_do_not_mix(name: str) -> None:
    alone = [at(name, logits()[[i]], LABELS[[i]], REFERENCE[[i]]) for i in range(2)]
    torch.testing.assert_close(at(name, logits()), torch.cat(alone))
    swapped = at(name, logits().flip(0), LABELS.flip(0), REFERENCE.flip(0))
    torch.testing.assert_close(swapped, at(name, logits()).flip(0))


@every_loss
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(name: str, side: str) -> None:
    width = (2, 0) if side == "left" else (0, 2)
    labels = torch.nn.functional.pad(LABELS, width, value=IGNORED)
    padded = torch.nn.functional.pad(logits(), (0, 0, *width), value=torch.nan)
    torch.testing.assert_close(at(name, padded, labels), at(name, logits()), rtol=0, atol=0)


@every_loss
def test_masked_positions_reach_neither_value_nor_gradient(name: str) -> None:
    x = logits()
    x[LABELS == IGNORED] = torch.nan
    x.requires_grad_()
    values = at(name, x)
    torch.testing.assert_close(values, at(name, logits()), rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(values.sum(), x)
    assert (gradient[LABELS == IGNORED] == 0).all()
    assert (gradient[LABELS != IGNORED] != 0).any()


@every_loss
def test_gradient_is_that_of_the_value(name: str) -> None:
    assert torch.autograd.gradcheck(partial(at, name), logits().requires_grad_())


@every_loss
def test_logits_are_known_up_to_a_constant(name: str) -> None:
    torch.testing.assert_close(at(name, logits() + 3.0), at(name, logits()))


@every_loss
def test_half_precision_logits_give_float32(name: str) -> None:
    batch = pack(logits().to(torch.bfloat16), LABELS, reference_nll=REFERENCE.float())
    assert value(name, batch).dtype == torch.float32
