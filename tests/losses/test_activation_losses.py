"""RMU and CEL: closed forms, what they come to in special cases, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses import (
    Activations,
    LossInputs,
    Site,
    cel,
    cel_retain,
    direction,
    pack_activations,
    rmu,
    rmu_retain,
)
from loss_cases import LAYER, ROWS, SIZE, build, leaves, references

ANSWER, QUESTION = Site(LAYER, "answer"), Site(LAYER, "question")


def batch(site: Site, **changes: Any) -> LossInputs:
    """The case's batch, its activations at one site changed."""
    plain = build(leaves())
    changed = replace(plain.activations[site], **changes)
    return replace(plain, activations={**plain.activations, site: changed})


def values_at(site: Site) -> Tensor:
    return build(leaves()).activations[site].values


def test_direction_is_a_unit_vector_without_negative_entries() -> None:
    u = direction(64, seed=5)
    assert float(u.norm()) == pytest.approx(1)
    assert (u >= 0).all()
    assert torch.equal(u, direction(64, seed=5))
    assert not torch.equal(u, direction(64, seed=6))
    raw = torch.rand(64, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(u, raw / raw.square().sum().sqrt())
    with pytest.raises(InputError, match="at least 1, got 0"):
        direction(0, seed=0)


def test_rmu_is_zero_at_its_target_and_its_square_beside_it() -> None:
    target = 3.0 * references()["direction"]
    there = target.expand_as(values_at(ANSWER))
    assert rmu(batch(ANSWER, values=there), layer=LAYER, c=3.0).tolist() == [0.0] * ROWS
    beside = rmu(batch(ANSWER, values=there + 0.5), layer=LAYER, c=3.0)
    assert beside.tolist() == pytest.approx([0.25] * ROWS)


def test_a_model_that_is_its_reference_has_moved_nowhere() -> None:
    for site, retain in ((ANSWER, rmu_retain), (QUESTION, cel_retain)):
        still = batch(site, reference=values_at(site))
        assert retain(still, layer=LAYER).tolist() == [0.0] * ROWS


@pytest.mark.parametrize("settings", [{"alpha": 0.0, "tau": 4.0}, {"alpha": 0.5, "tau": 0.0}])
def test_cel_without_its_push_is_rmu_on_the_question(settings: dict[str, float]) -> None:
    on_question = build(leaves())
    site = on_question.activations[QUESTION]
    as_answer = replace(on_question, activations={ANSWER: site})
    torch.testing.assert_close(
        cel(on_question, layer=LAYER, beta=1.0, s=2.5, **settings),
        rmu(as_answer, layer=LAYER, c=2.5),
    )


def test_the_push_ends_at_the_margin() -> None:
    def push(tau: float) -> Tensor:
        return cel(build(leaves()), layer=LAYER, tau=tau, alpha=1.0, beta=0.0)

    near = 100.0 - push(100.0)  # mean distance to the centres
    assert (push(float(near.min()) * 0.99) == 0).all()
    torch.testing.assert_close(push(50.0), 50.0 - near)


def test_one_hinge_a_question_around_the_mean() -> None:
    here = torch.zeros(1, SIZE, dtype=torch.float64)
    far, at = here + 2.0, here  # distances 4 and 0: their mean 2 is beyond a margin of 1.5
    one = Activations(
        values=here,
        row=torch.zeros(1, dtype=torch.long),
        centres=((far, at),),
        direction=here[0],
    )
    only = replace(build(leaves()), rows=1, activations={QUESTION: one})
    assert cel(only, layer=LAYER, tau=1.5, alpha=1.0).tolist() == [0.0]
    assert cel(only, layer=LAYER, tau=2.5, alpha=1.0).tolist() == [0.5]


def test_where_the_model_is_its_reference_the_question_itself_pushes_nowhere() -> None:
    given = leaves()
    given["question"].requires_grad_()
    own = tuple(
        (row.detach(),)
        for row in values_at(QUESTION).split([3, 1, 2])  # type: ignore[no-untyped-call]
    )
    still = build(given, references() | {"centres": own})
    cel(still, layer=LAYER, tau=1.0, alpha=1.0, beta=1e-300).sum().backward()
    assert given["question"].grad is not None
    assert (given["question"].grad.abs() < 1e-290).all()


def test_tokens_beyond_a_centre_stand_at_its_last_or_are_left_out() -> None:
    question = torch.tensor([[1.0], [2.0], [5.0]], dtype=torch.float64)
    centre = torch.tensor([[1.0], [4.0]], dtype=torch.float64)
    one = Activations(
        values=question,
        row=torch.zeros(3, dtype=torch.long),
        centres=((centre, centre),),
        direction=torch.ones(1, dtype=torch.float64),
    )
    only = replace(build(leaves()), rows=1, activations={QUESTION: one})

    def nearness(align: Any) -> float:
        return 10 - float(cel(only, layer=LAYER, tau=10, alpha=1, beta=0, align=align))

    assert nearness("clamp") == pytest.approx((0 + 4 + 1) / 3)
    assert nearness("truncate") == pytest.approx((0 + 4) / 2)


def test_sum_is_the_mean_times_the_dimensions() -> None:
    plain = build(leaves())
    mean = cel(plain, layer=LAYER, alpha=0.0)
    torch.testing.assert_close(cel(plain, layer=LAYER, alpha=0.0, distance="sum"), SIZE * mean)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"s": 0.0}, "`s` of cel must be positive"),
        ({"tau": -0.1}, "`tau` of cel must be 0 or more"),
        ({"alpha": math.nan}, "`alpha` of cel must be 0 or more"),
        ({"beta": -1.0}, "`beta` of cel must be 0 or more"),
        ({"alpha": 0.0, "beta": 0.0}, "not both 0"),
        ({"distance": "max"}, "`distance` of cel must be one of mean, sum, got 'max'"),
        ({"align": "wrap"}, "`align` of cel must be one of clamp, truncate, got 'wrap'"),
    ],
)
def test_cel_refuses_what_it_cannot_use(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cel(build(leaves()), layer=LAYER, **settings)


def test_other_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="`c` of rmu must be positive"):
        rmu(build(leaves()), layer=LAYER, c=0.0)
    with pytest.raises(InputError, match="`distance` of cel-retain must be one of"):
        cel_retain(build(leaves()), layer=LAYER, distance="max")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "beta", "works"),
    [
        ((2, 3, 2), 0.0, True),
        ((2, 1, 2), 0.0, False),
        ((2, 1, 2), 0.1, True),
        ((2, 0, 2), 0.1, False),
        ((2, 2), 0.1, False),
    ],
)
def test_a_push_alone_needs_two_centres(counts: tuple[int, ...], beta: float, works: bool) -> None:
    centre = torch.ones(2, SIZE, dtype=torch.float64)
    given = batch(QUESTION, centres=tuple((centre,) * n for n in counts))
    if works:
        assert cel(given, layer=LAYER, beta=beta).isfinite().all()
    else:
        with pytest.raises(InputError, match="more contrast centres for each of its 3 questions"):
            cel(given, layer=LAYER, beta=beta)


def test_a_row_without_a_token_is_refused() -> None:
    mask = torch.tensor([[True, False], [False, False]])
    with pytest.raises(InputError, match=r"needs a token, rows \[1\] have none"):
        pack_activations(torch.zeros(2, 2, 3), mask)
