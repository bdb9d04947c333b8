"""Every loss keeps the promises of its family; a new one adds a row to `dense_losses.CASES`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from dense_losses import CASES
from leakbound.errors import InputError
from leakbound.losses import LOSSES, PARTS, Loss, LossInputs, Needs, Site
from loss_cases import LAYER, MASKS, ROWS, Tensors, build, leaves, only, references, rows

every_loss = pytest.mark.parametrize("name", CASES)
of_logits = pytest.mark.parametrize(
    "name", [n for n in CASES if not LOSSES[n.partition(":")[0]].tokens]
)
exactly = partial(torch.testing.assert_close, rtol=0, atol=0)


def loss_of(name: str) -> Loss:
    """Return the loss of a row, whose name may have a value of `over` after a colon."""
    return LOSSES[name.partition(":")[0]]


def needs_of(name: str) -> Needs:
    return loss_of(name).needed(CASES[name].settings)


def value(name: str, batch: LossInputs) -> Tensor:
    """Return the values of a loss under the settings of its row."""
    return loss_of(name).function(batch, **CASES[name].settings)


def used(name: str) -> list[str]:
    """Return the leaves that a loss reads."""
    tokens = [loss_of(name).tokens]
    return [leaf for leaf in MASKS if leaf in needs_of(name).parts or leaf in tokens]


def test_every_loss_has_a_row() -> None:
    assert {name.partition(":")[0] for name in CASES} == set(LOSSES)
    overs = {f"{name}:{over}" for name, loss in LOSSES.items() for over in loss.others}
    assert overs == {name for name in CASES if ":" in name}


@every_loss
@pytest.mark.parametrize("seed", [1, 11])
def test_values_are_those_by_hand(name: str, seed: int) -> None:
    case, given, fixed = CASES[name], leaves(seed), references(seed + 1)
    for settings in (case.settings, *case.others):
        expected = case.twin(given, fixed, **settings)
        values = loss_of(name).function(build(given, fixed), **settings)
        assert values.shape == (ROWS,)
        assert values.tolist() == pytest.approx(expected, rel=1e-12)


@every_loss
def test_rows_do_not_mix(name: str) -> None:
    batch = build(leaves())
    together = value(name, batch)
    alone = torch.cat([value(name, rows(batch, [i])) for i in range(ROWS)])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(value(name, rows(batch, [2, 0, 1])), together[[2, 0, 1]])


@every_loss
@pytest.mark.parametrize("pad", [-2, 3], ids=["left", "right"])
def test_padding_changes_nothing(name: str, pad: int) -> None:
    exactly(value(name, build(leaves(), pad=pad)), value(name, build(leaves())))


@every_loss
def test_masked_positions_reach_neither_value_nor_gradient(name: str) -> None:
    given = leaves()
    for leaf, mask in MASKS.items():
        given[leaf][~mask] = torch.nan
        given[leaf].requires_grad_()
    values = value(name, build(given))
    exactly(values.detach(), value(name, build(leaves())))
    values.sum().backward()
    for leaf in used(name):
        gradient = given[leaf].grad
        assert gradient is not None
        assert (gradient[~MASKS[leaf]] == 0).all()
        assert (gradient[MASKS[leaf]] != 0).any()


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].holds])
def test_gradient_is_that_of_the_value_by_hand_with_the_rest_constant(name: str) -> None:
    case, given, fixed, gap = CASES[name], leaves(), references(), 1e-6
    logits = given["logits"].requires_grad_()
    value(name, build(given, fixed)).sum().backward()
    assert logits.grad is not None
    kept = {"logits": logits.detach().clone()}
    for at in MASKS["logits"].nonzero().tolist():
        for token in range(logits.shape[-1]):
            sides = []
            for step in (gap, -gap):
                moved = kept["logits"].clone()
                moved[(*at, token)] += step
                sides.append(sum(case.twin({"logits": moved}, fixed, **case.settings, kept=kept)))
            slope = (sides[0] - sides[1]) / (2 * gap)
            assert float(logits.grad[(*at, token)]) == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].holds])
def test_gradient_is_that_of_the_value(name: str) -> None:
    wanted = used(name)

    def at(*given: Tensor) -> Tensor:
        return value(name, build(leaves() | dict(zip(wanted, given, strict=True))))

    assert torch.autograd.gradcheck(
        at, [leaves()[leaf].requires_grad_() for leaf in wanted], fast_mode=True
    )


@every_loss
def test_the_reference_is_frozen(name: str) -> None:
    given = {leaf: each.requires_grad_() for leaf, each in leaves().items()}
    fixed = references()
    frozen = [fixed[key] for key in fixed if key != "centres"]
    frozen += [centre for row in fixed["centres"] for centre in row]
    for each in frozen:
        each.requires_grad_()
    value(name, build(given, fixed)).sum().backward()
    assert all(each.grad is None for each in frozen)


@of_logits
def test_logits_are_known_up_to_a_constant(name: str) -> None:
    moved: Tensors = {leaf: each + 3.0 for leaf, each in leaves().items()}
    torch.testing.assert_close(value(name, build(moved)), value(name, build(leaves())))


@every_loss
def test_half_precision_gives_float32(name: str) -> None:
    half = {leaf: each.to(torch.bfloat16) for leaf, each in leaves().items()}
    fixed = {k: v if k == "centres" else v.float() for k, v in references().items()}
    fixed["centres"] = tuple(tuple(c.to(torch.bfloat16) for c in row) for row in fixed["centres"])
    values = value(name, build(half, fixed))
    assert values.dtype == torch.float32
    exact = value(name, build({leaf: each.double() for leaf, each in half.items()}, fixed))
    torch.testing.assert_close(values, exact.float(), rtol=2e-5, atol=1e-5)


@every_loss
def test_what_it_names_is_all_it_needs(name: str) -> None:
    assert needs_of(name).parts <= set(PARTS)
    batch = build(leaves())
    exactly(value(name, only(batch, needs_of(name))), value(name, batch))


@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name in CASES for part in sorted(needs_of(name).parts) if part != "logits"],
)
def test_a_part_that_is_missing_is_named(name: str, part: str) -> None:
    needs = needs_of(name)
    without = Needs(needs.parts - {part}, needs.sites)
    with pytest.raises(InputError, match=f"{name.partition(':')[0]} needs `{part}`"):
        value(name, only(build(leaves()), without))


@pytest.mark.parametrize("name", [name for name in CASES if loss_of(name).tokens])
def test_a_site_that_is_missing_is_named(name: str) -> None:
    assert needs_of(name).sites == {Site(LAYER, loss_of(name).tokens or "answer")}
    batch = replace(build(leaves()), activations={})
    with pytest.raises(InputError, match=rf"{name} needs `activations\[{LAYER}, "):
        value(name, batch)


@every_loss
def test_settings_are_checked_before_any_batch(name: str) -> None:
    loss_of(name).check(name, CASES[name].settings)
    with pytest.raises(InputError, match=f"loss '{name}' has no setting 'colour'"):
        loss_of(name).check(name, {**CASES[name].settings, "colour": 1.0})
