"""Representation misdirection: move or keep the activations of a layer (Li et al. 2024).

Deviation: the squared distance is the mean over hidden dimensions, as in the authors' code. The
loss covers every token of a forget text, without leaving out a prefix. For texts of unequal length,
OpenUnlearning's code averages sum / length over every pair of a row's sum and a row's length. A
term with `reduce` "pairs" does the same.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses.family import positive
from leakbound.losses.inputs import Activations, LossInputs, Site, given, precise, row_means

Distance = Literal["mean", "sum"]


def direction(size: int, seed: int) -> Tensor:
    """Return u = rand(d)/‖rand(d)‖, a random unit vector with no negative entry, float32.

    The same seed gives the same vector.

    Args:
        size: d, at least 1.
        seed: the seed of the random vector.

    Returns:
        u, [d].

    Raises:
        InputError: `size` is below 1.
    """
    if size < 1:
        raise InputError(f"`size` of a direction must be at least 1, got {size}.")
    values = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(values, dim=0)


def rmu(batch: LossInputs, *, layer: int, c: float = 2.0) -> Tensor:
    """Return the mean of (h - c·u)² over each answer's tokens and dimensions, [B] (Li et al. 2024).

    Args:
        batch: the packed answers; uses the activations at the answer and their `direction` u.
        layer: the block whose outputs are used, counted from 0.
        c: the length of the vector towards which activations are moved, above 0.

    Returns:
        One value per answer, [B], in squared activations, at least 0.

    Raises:
        InputError: `c` is not above 0 or not finite, or the batch has no activations at the answer
            or no `direction`.
    """
    positive("rmu", c=c)
    site = batch.site("rmu", Site(layer, "answer"))
    target = c * given(site.direction, "direction", "rmu")
    return row_means(between(site.values, target), site.row, batch.rows)


def rmu_retain(batch: LossInputs, *, layer: int) -> Tensor:
    """Return the mean of (h - h_ref)² over each answer's tokens and dimensions, [B] (Li et al.).

    Args:
        batch: the packed answers; uses the activations at the answer and their `reference`.
        layer: the block whose outputs are used, counted from 0.

    Returns:
        One value per answer, [B], in squared activations, at least 0.

    Raises:
        InputError: the batch has no activations at the answer, or they have no `reference`.
    """
    site = batch.site("rmu-retain", Site(layer, "answer"))
    return from_reference(site, "rmu-retain", batch.rows)


def from_reference(site: Activations, loss: str, rows: int, distance: Distance = "mean") -> Tensor:
    """Return the mean over each row's tokens of the distance to the reference activations, [B]."""
    reference = given(site.reference, "reference", loss)
    return row_means(between(site.values, reference, distance), site.row, rows)


def between(values: Tensor, fixed: Tensor, distance: Distance = "mean") -> Tensor:
    """Return the mean or sum of squared differences over the last axis; `fixed` is constant."""
    squares = (precise(values) - fixed.detach()).square()
    return squares.mean(dim=-1) if distance == "mean" else squares.sum(dim=-1)
