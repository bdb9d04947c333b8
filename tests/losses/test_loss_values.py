"""Losses against plain loops in float64, and against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dense_losses import summed_nll
from leakbound.errors import InputError
from leakbound.losses import (
    IGNORED,
    LOSSES,
    LossInputs,
    dpo,
    entropy,
    idk,
    kl,
    nll,
    npo,
    pack,
    sequence_nll,
    simnpo,
)
from loss_cases import ALTERNATE, LABELS, ROWS, VOCAB, build, leaves

LENGTHS = [2, 3, 2]
LN2 = math.log(2)


def batch(**changes: Any) -> LossInputs:
    """The case's batch whose reference is the model itself, with changes."""
    plain = build(leaves())
    assert plain.alternate is not None
    other = replace(plain.alternate, reference_nll=sequence_nll(plain.alternate))
    return replace(plain, **{"reference_nll": sequence_nll(plain), "alternate": other} | changes)


@pytest.mark.parametrize("beta", [0.1, 4.0])
def test_at_the_reference_preference_losses_are_two_over_beta_ln_two(beta: float) -> None:
    expected = pytest.approx([2 / beta * LN2] * ROWS, rel=1e-12)
    assert npo(batch(), beta=beta).tolist() == expected
    assert dpo(batch(), beta=beta).tolist() == expected
    textbook = dpo(batch(), beta=beta, textbook=True)
    assert textbook.tolist() == pytest.approx([LN2] * ROWS, rel=1e-12)


def test_defaults_are_the_papers() -> None:
    torch.testing.assert_close(npo(batch()), npo(batch(), beta=0.1))
    torch.testing.assert_close(dpo(batch()), dpo(batch(), beta=0.1, textbook=False))
    torch.testing.assert_close(simnpo(batch()), simnpo(batch(), beta=4.5, delta=0.0))


def test_kl_is_zero_at_the_reference_and_above_it_elsewhere() -> None:
    same = replace(batch(), reference_logits=batch().logits + 2.0)
    assert kl(same).tolist() == pytest.approx([0.0] * ROWS, abs=1e-12)
    assert (kl(batch()) > 0).all()


def test_kl_from_uniform_to_uniform_and_from_a_point_is_known() -> None:
    flat = batch(logits=torch.zeros_like(batch().logits))
    assert flat.reference_logits is not None
    point = torch.full_like(flat.reference_logits, 0.0)
    point[:, 2] = 1e4
    values = kl(replace(flat, reference_logits=point))
    assert values.tolist() == pytest.approx([math.log(VOCAB)] * ROWS)


def test_idk_is_the_nll_of_the_alternate() -> None:
    assert batch().alternate is not None
    torch.testing.assert_close(idk(batch()), nll(batch().alternate))  # type: ignore[arg-type]


def test_simnpo_at_its_margin_is_two_over_beta_ln_two() -> None:
    own = float(nll(batch())[1])
    assert float(simnpo(batch(), beta=3.0, delta=own)[1]) == pytest.approx(2 / 3 * LN2)


def test_npo_falls_as_the_answer_becomes_unlikely() -> None:
    reference = torch.tensor([0.0, 1e4, 5.0])
    flat = pack(torch.zeros(*LABELS.shape, VOCAB), LABELS)
    flat = replace(flat, reference_nll=reference)
    forgotten, known, between = npo(flat).tolist()
    assert 0 < forgotten < between < known
    assert known == pytest.approx(2e4, rel=1e-2)  # and does not overflow


def test_npo_gradient_tends_to_gradient_ascent() -> None:
    x = leaves()["logits"].requires_grad_()
    own = sequence_nll(pack(x, LABELS))
    known = replace(pack(x, LABELS), reference_nll=own)
    (small_beta,) = torch.autograd.grad(npo(known, beta=1e-9).sum(), x)
    (ascent,) = torch.autograd.grad(-sequence_nll(pack(x, LABELS)).sum(), x)
    torch.testing.assert_close(small_beta, ascent)


@pytest.mark.parametrize("name", ["npo", "dpo", "simnpo"])
@pytest.mark.parametrize("beta", [0.0, -0.1, math.nan, math.inf])
def test_a_beta_that_is_not_positive_is_refused(name: str, beta: float) -> None:
    with pytest.raises(InputError, match=f"`beta` of {name} must be positive"):
        LOSSES[name].function(batch(), beta=beta)


@pytest.mark.parametrize("delta", [math.nan, -math.inf])
def test_a_margin_that_is_no_number_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="`delta` of simnpo must be finite"):
        simnpo(batch(), delta=delta)


def test_entropy_of_uniform_is_ln_v_and_of_a_point_is_zero() -> None:
    uniform = pack(torch.full((*LABELS.shape, 7), 2.5), LABELS)
    assert entropy(uniform).tolist() == pytest.approx([math.log(7)] * ROWS)
    point = torch.zeros(*LABELS.shape, 7)
    point[..., 2] = 1e4
    assert entropy(pack(point, LABELS)).tolist() == [0.0] * ROWS


def test_sequence_nll_is_the_sum() -> None:
    expected = summed_nll(leaves()["logits"], LABELS, "logits")
    assert sequence_nll(batch()).tolist() == pytest.approx(expected, rel=1e-12)


def test_half_precision_is_raised_before_the_softmax() -> None:
    half = leaves()["logits"].to(torch.bfloat16)
    assert nll(pack(half, LABELS)).dtype == torch.float32
    exact = nll(pack(half.double(), LABELS)).tolist()
    assert nll(pack(half, LABELS)).tolist() == pytest.approx(exact, rel=1e-5)


def test_pack_keeps_order_and_rows() -> None:
    packed, logits = batch(), leaves()["logits"]
    assert packed.labels.tolist() == [3, 1, 2, 0, 4, 1, 1]
    assert packed.row.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert packed.lengths.tolist() == LENGTHS
    assert torch.equal(packed.logits[2], logits[1, 0])


def test_row_without_label_is_refused() -> None:
    labels = ALTERNATE.clone()
    labels[1] = IGNORED
    with pytest.raises(InputError, match=r"a labelled token, rows \[1\] have none"):
        pack(leaves()["alternate"], labels)


def test_inputs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        batch().rows = 1  # type: ignore[misc]


def test_values_do_not_depend_on_the_batch_they_are_in() -> None:
    def one(x: Tensor, b: int) -> Tensor:
        return nll(pack(x[[b]], LABELS[[b]]))

    x = leaves()["logits"]
    torch.testing.assert_close(nll(pack(x, LABELS)), torch.cat([one(x, b) for b in range(ROWS)]))
