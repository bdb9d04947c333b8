"""Losses against plain loops in float64, and against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from residua.errors import InputError
from residua.losses import IGNORED, LossInputs, entropy, ga, nll, npo, pack, sequence_nll

LABELS = torch.tensor([[IGNORED, 3, 1, IGNORED], [2, IGNORED, 0, 4], [IGNORED, IGNORED, 1, 1]])


def logits() -> Tensor:
    return torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def probabilities(row: Tensor) -> list[float]:
    total = sum(math.exp(x) for x in row.tolist())
    return [math.exp(x) / total for x in row.tolist()]


def summed_nll(batch: Tensor, labels: Tensor) -> list[float]:
    """Σ_t -log p(y_t) of every row, by hand."""
    return [
        sum(
            -math.log(probabilities(batch[b, t])[labels[b, t]])
            for t in range(labels.shape[1])
            if labels[b, t] != IGNORED
        )
        for b in range(len(labels))
    ]


def mean_entropy(batch: Tensor, labels: Tensor) -> list[float]:
    rows = []
    for b in range(len(labels)):
        at = [t for t in range(labels.shape[1]) if labels[b, t] != IGNORED]
        steps = [-sum(p * math.log(p) for p in probabilities(batch[b, t])) for t in at]
        rows.append(sum(steps) / len(at))
    return rows


LENGTHS = [2, 3, 2]


def test_nll_is_the_mean_over_the_answer() -> None:
    expected = [s / n for s, n in zip(summed_nll(logits(), LABELS), LENGTHS, strict=True)]
    batch = pack(logits(), LABELS)
    assert nll(batch).tolist() == pytest.approx(expected, rel=1e-12)
    assert ga(batch).tolist() == pytest.approx([-x for x in expected], rel=1e-12)


def test_sequence_nll_is_the_sum() -> None:
    expected = summed_nll(logits(), LABELS)
    assert sequence_nll(pack(logits(), LABELS)).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("beta", [0.05, 0.1, 2.0])
def test_npo_by_hand(beta: float) -> None:
    reference = [0.5, 9.0, 3.0]
    expected = [
        -(2 / beta) * math.log(1 / (1 + math.exp(-beta * (theta - ref))))
        for theta, ref in zip(summed_nll(logits(), LABELS), reference, strict=True)
    ]
    batch = pack(logits(), LABELS, reference_nll=torch.tensor(reference, dtype=torch.float64))
    assert npo(batch, beta=beta).tolist() == pytest.approx(expected, rel=1e-12)


def test_npo_at_the_reference_is_two_over_beta_ln_two() -> None:
    own = sequence_nll(pack(logits(), LABELS))
    values = npo(pack(logits(), LABELS, reference_nll=own), beta=0.1)
    assert values.tolist() == pytest.approx([20 * math.log(2)] * 3, rel=1e-12)


def test_npo_falls_as_the_answer_becomes_unlikely() -> None:
    reference = torch.tensor([0.0, 1e4, 5.0])
    batch = pack(torch.zeros(3, 4, 5), LABELS, reference_nll=reference)
    forgotten, known, between = npo(batch).tolist()
    assert 0 < forgotten < between < known
    assert known == pytest.approx(2e4, rel=1e-2)  # and does not overflow


def test_npo_gradient_tends_to_gradient_ascent() -> None:
    x = logits().requires_grad_()
    own = sequence_nll(pack(x, LABELS))
    (small_beta,) = torch.autograd.grad(npo(pack(x, LABELS, reference_nll=own), beta=1e-9).sum(), x)
    (ascent,) = torch.autograd.grad(-sequence_nll(pack(x, LABELS)).sum(), x)
    torch.testing.assert_close(small_beta, ascent)


def test_npo_refuses_what_it_cannot_use() -> None:
    with pytest.raises(InputError, match="needs `reference_nll`"):
        npo(pack(logits(), LABELS))
    with pytest.raises(InputError, match="must be positive"):
        npo(pack(logits(), LABELS, reference_nll=torch.zeros(3)), beta=0.0)


def test_entropy_by_hand() -> None:
    expected = mean_entropy(logits(), LABELS)
    assert entropy(pack(logits(), LABELS)).tolist() == pytest.approx(expected, rel=1e-12)


def test_entropy_of_uniform_is_ln_v_and_of_a_point_is_zero() -> None:
    uniform = pack(torch.full((3, 4, 7), 2.5), LABELS)
    assert entropy(uniform).tolist() == pytest.approx([math.log(7)] * 3)
    point = torch.zeros(3, 4, 7)
    point[..., 2] = 1e4
    assert entropy(pack(point, LABELS)).tolist() == [0.0] * 3


def test_half_precision_is_raised_before_the_softmax() -> None:
    half = logits().to(torch.bfloat16)
    batch = pack(half, LABELS)
    assert nll(batch).dtype == torch.float32
    assert nll(batch).tolist() == pytest.approx(nll(pack(half.double(), LABELS)).tolist(), rel=1e-5)


def test_pack_keeps_order_and_rows() -> None:
    batch = pack(logits(), LABELS)
    assert batch.labels.tolist() == [3, 1, 2, 0, 4, 1, 1]
    assert batch.row.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert batch.lengths.tolist() == LENGTHS
    assert torch.equal(batch.logits[2], logits()[1, 0])


def test_row_without_label_is_refused() -> None:
    labels = LABELS.clone()
    labels[1] = IGNORED
    with pytest.raises(InputError, match=r"rows \[1\] have none"):
        pack(logits(), labels)


def test_inputs_are_frozen() -> None:
    batch = pack(logits(), LABELS)
    with pytest.raises(AttributeError):
        batch.rows = 1  # type: ignore[misc]
    assert isinstance(batch, LossInputs)
