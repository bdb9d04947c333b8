"""Losses in closed form and at extreme values; `conformance` compares each with plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from leakbound.errors import InputError
from leakbound.losses import (
    IGNORED,
    LOSSES,
    LossInputs,
    Site,
    cel,
    ceu,
    direction,
    entropy,
    kl,
    margin,
    npo,
    pack_activations,
    satimp,
    sequence_nll,
    undial,
    wga,
)
from loss_cases import ALTERNATE, LABELS, LAYER, ROWS, SIZE, VOCAB, build, leaves, pack

QUESTION = Site(LAYER, "question")


def batch(**changes: Any) -> LossInputs:
    """Return the case's batch with the model as its reference, with changes."""
    plain = build(leaves())
    assert plain.alternate is not None
    other = replace(plain.alternate, reference_nll=sequence_nll(plain.alternate))
    return replace(plain, **{"reference_nll": sequence_nll(plain), "alternate": other} | changes)


def test_kl_from_uniform_to_uniform_and_from_a_point_is_known() -> None:
    flat = batch(logits=torch.zeros_like(batch().logits))
    assert flat.reference_logits is not None
    point = torch.full_like(flat.reference_logits, 0.0)
    point[:, 2] = 1e4
    values = kl(replace(flat, reference_logits=point))
    assert values.tolist() == pytest.approx([math.log(VOCAB)] * ROWS)


def test_npo_falls_as_the_answer_becomes_unlikely() -> None:
    reference = torch.tensor([0.0, 1e4, 5.0])
    flat = pack(torch.zeros(*LABELS.shape, VOCAB), LABELS)
    flat = replace(flat, reference_nll=reference)
    forgotten, known, between = npo(flat).tolist()
    assert 0 < forgotten < between < known
    assert known == pytest.approx(2e4, rel=1e-2)  # and does not overflow


OUT_OF_RANGE = [
    *((name, {"beta": beta}, f"`beta` of {name} must be positive")
      for name in ("npo", "dpo", "altpo", "simnpo") for beta in (0.0, -0.1, math.nan, math.inf)),
    *(("simnpo", {"delta": delta}, f"`delta` of simnpo must be finite, got {delta}")
      for delta in (math.nan, -math.inf)),
    *((name, {setting: value}, f"`{setting}` of {name} must be 0 or more, got {value}")
      for name, setting in (("wga", "beta"), ("satimp", "beta1"), ("satimp", "beta2"),
                            ("undial", "beta"))
      for value in (-0.1, math.nan, math.inf)),
    *((name, {"over": "half"}, f"`over` of {name} must be answer or {other}, got 'half'")
      for name, other in (("ceu", "rest"), ("entropy", "all"), ("kl", "all"), ("margin", "read"),
                          ("undial", "all"))),
    ("cel-retain", {"layer": LAYER, "distance": "max"}, "`distance` of cel-retain must be one of"),
    *(("cel", {"layer": LAYER, **settings}, message) for settings, message in (
        ({"tau": -0.1}, "`tau` of cel must be 0 or more"),
        ({"beta": -1.0}, "`beta` of cel must be 0 or more"),
        ({"alpha": 0.0, "beta": 0.0}, "not both 0"),
        ({"align": "wrap"}, "`align` of cel must be one of clamp, truncate, got 'wrap'"),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "message"), OUT_OF_RANGE)
def test_bad_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LOSSES[name].function(batch(), **settings)


def test_what_another_answer_lacks_is_named_with_its_loss() -> None:
    for name, part in (("dpo", "alternate"), ("altpo", "invented")):
        without = replace(getattr(batch(), part), reference_nll=None)
        with pytest.raises(InputError, match=f"{name} needs `reference_nll`"):
            LOSSES[name].function(batch(**{part: without}))


def test_tokens_are_counted_as_a_mean_over_them_does() -> None:
    given = batch()
    lengths = {"answer": [2, 3, 2], "rest": [1, 2, 1], "alternate": [1, 4, 2]}
    lengths |= {"invented": [2, 1, 3], "whole": [4, 5, 6], "read": [3, 4, 5]}
    for over, each in lengths.items():
        assert given.lengths_over(over).tolist() == each
        assert given.mean_length(over) == pytest.approx(sum(each) / 3)
    of_step = replace(given, step_lengths={"answer": [2, 3, 7], "whole": [6]})
    assert of_step.mean_length("answer") == 4
    assert of_step.mean_length("rest") == 3
    assert of_step.mean_length("rest", max) == 6
    assert of_step.mean_length("read", max) == 5
    assert of_step.mean_length("alternate", max) == 4
    assert of_step.lengths_over("answer").tolist() == [2, 3, 2]
    with pytest.raises(InputError, match="a mean needs `whole`, got None"):
        replace(given, whole=None).lengths_over("read")


def test_targets_at_extreme_values() -> None:
    """A flat model has no margin; weights ignore forgotten answers."""
    flat = torch.zeros_like(leaves()["logits"])
    assert margin(pack(flat, LABELS)).tolist() == [0.0] * ROWS
    sure = flat.clone()
    sure[..., 0] = 1e4  # labels other than 0 have no mass
    for loss in (wga, satimp):
        values = loss(pack(sure.requires_grad_(), torch.where(LABELS == 0, 1, LABELS)))
        values.sum().backward()
        assert values.tolist() == [0.0] * ROWS
        assert (sure.grad == 0).all()
    nothing = undial(batch(reference_logits=batch().logits), beta=0.0)
    torch.testing.assert_close(nothing, entropy(batch()))


def test_an_answer_of_one_token_has_no_rest() -> None:
    x = torch.randn(2, 3, VOCAB, generator=torch.Generator().manual_seed(0)).requires_grad_()
    given = pack(x, torch.tensor([[IGNORED, 2, IGNORED], [1, 0, 3]]))
    values = ceu(given, over="rest")
    values.sum().backward()
    assert float(values[0].detach()) == 0
    assert x.grad is not None
    assert (x.grad[0] == 0).all()
    assert given.lengths_over("rest").tolist() == [0, 2]


def test_entropy_of_uniform_is_ln_v_and_of_a_point_is_zero() -> None:
    uniform = pack(torch.full((*LABELS.shape, 7), 2.5), LABELS)
    assert entropy(uniform).tolist() == pytest.approx([math.log(7)] * ROWS)
    point = torch.zeros(*LABELS.shape, 7)
    point[..., 2] = 1e4
    assert entropy(pack(point, LABELS)).tolist() == [0.0] * ROWS


def test_log_probabilities_are_made_once() -> None:
    row = torch.zeros(2, dtype=torch.long)
    shared = LossInputs(logits=torch.ones(2, 3), labels=row, row=row, rows=1)
    assert shared.log_probs is shared.log_probs


def test_direction_is_a_unit_vector_without_negative_entries() -> None:
    u = direction(64, seed=5)
    assert float(u.norm()) == pytest.approx(1)
    assert (u >= 0).all()
    assert torch.equal(u, direction(64, seed=5))
    assert not torch.equal(u, direction(64, seed=6))
    raw = torch.rand(64, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(u, raw / raw.square().sum().sqrt())


def test_rows_and_directions_of_nothing_are_refused() -> None:
    labels = ALTERNATE.clone()
    labels[1] = IGNORED
    with pytest.raises(InputError, match=r"a labelled token, but rows \[1\] have none"):
        pack(leaves()["alternate"], labels)
    with pytest.raises(InputError, match=r"needs a token, but rows \[1\] have none"):
        pack_activations(torch.zeros(2, 2, 3), torch.tensor([[True, False], [False, False]]))
    with pytest.raises(InputError, match="at least 1, got 0"):
        direction(0, seed=0)


@pytest.mark.parametrize(
    ("counts", "beta", "wrong"),
    [
        ((2, 3, 2), 0.0, ""),
        ((2, 1, 2), 0.0, "2 or more contrast centres .*, but 1 of 3 questions have fewer .*row 1 "),
        ((2, 1, 2), 0.1, ""),
        ((2, 0, 2), 0.1, "1 or more contrast centres .*, but 1 of 3 questions have fewer .*row 1 "),
        ((2, 2), 0.1, "one entry for each of 3 questions, got 2"),
    ],
)
def test_a_push_without_a_pull_needs_two_centres(
    counts: tuple[int, ...], beta: float, wrong: str
) -> None:
    centre = torch.ones(2, SIZE, dtype=torch.float64)
    given = build(leaves())
    moved = replace(given.activations[QUESTION], centres=tuple((centre,) * n for n in counts))
    given = replace(given, activations={**given.activations, QUESTION: moved})
    if not wrong:
        assert cel(given, layer=LAYER, beta=beta).isfinite().all()
    else:
        with pytest.raises(InputError, match=wrong):
            cel(given, layer=LAYER, beta=beta)
