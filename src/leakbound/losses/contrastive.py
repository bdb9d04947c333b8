"""Contrastive embedding loss: push away from rewritings, pull towards noise (Cheng et al. 2025).

Deviations: By default, the squared norms of eq. 1 are means over hidden dimensions, because sums
cannot reach the margins in the paper. The appendix of the paper uses the name s for the margin τ,
so the length `s` of the random vector has the default 1. If a centre is shorter than the question,
the centre's last token is repeated. The paper does not specify this case.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses.family import not_negative, positive, require
from leakbound.losses.inputs import LossInputs, Site, given, row_means
from leakbound.losses.steering import Distance, between, from_reference

Align = Literal["clamp", "truncate"]
Centres = tuple[Tensor, ...]


def cel(
    batch: LossInputs,
    *,
    layer: int,
    tau: float = 0.05,
    alpha: float = 0.5,
    beta: float = 1.0,
    s: float = 1.0,
    distance: Distance = "mean",
    align: Align = "clamp",
) -> Tensor:
    """Return the contrastive embedding loss of each question, [B] (Cheng et al., eq. 1).

    The loss is α max(0, τ - mean over x and t of d(h_t, h_t of x)) + β mean over t of d(h_t, s·u),
    with one hinge per question. Here h_t is the activation at the question's token t, and x is a
    centre (a rewriting of the question). The vector s·u has length s and a random direction u. The
    first term (push) moves activations away from the centres. The second term (pull) moves them
    towards s·u. With β = 0, a question needs at least two centres. A single centre is the question
    itself, and the push away from it has gradient 0 while the model equals its reference.

    Args:
        batch: the packed answers; uses the activations at the question, their `direction` u and
            their `centres`.
        layer: the block whose outputs are used, counted from 0.
        tau: τ, the margin of the push, 0 or more.
        alpha: α, the weight of the push, 0 or more.
        beta: β, the weight of the pull, 0 or more.
        s: the length of the vector towards which activations are pulled, above 0.
        distance: the definition of d: the "mean" or the "sum" of squared differences over hidden
            dimensions.
        align: the treatment of question tokens beyond the end of a centre: "clamp" compares them
            with the centre's last token, "truncate" leaves them out.

    Returns:
        One value per question, [B], in squared activations, at least 0.

    Raises:
        InputError: a setting out of its range; α = β = 0; a batch without activations at the
            question, their `direction` or `centres`; or a question without a centre, or with a
            single centre if β = 0.
    """
    positive("cel", s=s)
    not_negative("cel", tau=tau, alpha=alpha, beta=beta)
    require(alpha + beta > 0, "cel", "alpha and beta", (alpha, beta), "not both 0")
    _require_member("cel", "distance", distance, Distance)
    _require_member("cel", "align", align, Align)
    site = batch.site("cel", Site(layer, "question"))
    direction = given(site.direction, "direction", "cel")
    centres, fewest = given(site.centres, "centres", "cel"), 2 if beta == 0 else 1
    if len(centres) != batch.rows:
        raise InputError(
            f"`centres` must have one entry for each of {batch.rows} questions, got {len(centres)}."
        )
    if lacking := [row for row, group in enumerate(centres) if len(group) < fewest]:
        raise InputError(
            f"the loss `cel` with beta = {beta:g} needs {fewest} or more contrast centres for each "
            f"question, but {len(lacking)} of {batch.rows} questions have fewer (the first is in "
            f"row {lacking[0]} of the batch). Add rewritings, or raise beta."
        )
    lengths = torch.bincount(site.row, minlength=batch.rows).tolist()
    pairs = zip(torch.split(site.values, lengths), centres, strict=True)
    apart = [mean_distance(question, group, distance, align) for question, group in pairs]
    push = (tau - torch.stack(apart)).clamp(min=0)
    pull = row_means(between(site.values, s * direction, distance), site.row, batch.rows)
    return alpha * push + beta * pull


def cel_retain(batch: LossInputs, *, layer: int, distance: Distance = "mean") -> Tensor:
    """Return the mean of d(h, h_ref) over each question's tokens, [B] (Cheng et al., eq. 2).

    Args:
        batch: the packed answers; uses the activations at the question and their `reference`.
        layer: the block whose outputs are used, counted from 0.
        distance: the definition of d: the "mean" or the "sum" of squared differences over hidden
            dimensions.

    Returns:
        One value per question, [B], in squared activations, at least 0.

    Raises:
        InputError: an unknown `distance`, or a batch without activations at the question or their
            `reference`.
    """
    _require_member("cel-retain", "distance", distance, Distance)
    site = batch.site("cel-retain", Site(layer, "question"))
    return from_reference(site, "cel-retain", batch.rows, distance)


def mean_distance(
    question: Tensor, centres: Centres, distance: Distance = "mean", align: Align = "clamp"
) -> Tensor:
    """Return the mean distance of a question's activations to its centres, a scalar.

    Args:
        question: activations at the question's tokens, [T, d].
        centres: activations at each contrast centre's tokens, one or more centres.
        distance: as in `cel`.
        align: as in `cel`.

    Returns:
        The mean over centres and tokens, which `cel` compares with τ.
    """
    return torch.stack([_distance_to(x, question, distance, align) for x in centres]).mean()


def _distance_to(centre: Tensor, question: Tensor, distance: Distance, align: Align) -> Tensor:
    """Return the mean over the question's tokens of the distance to the centre's aligned token."""
    if align == "truncate":
        shared = min(len(question), len(centre))
        return between(question[:shared], centre[:shared], distance).mean()
    place = torch.arange(len(question), device=centre.device).clamp(max=len(centre) - 1)
    return between(question, centre[place], distance).mean()


def _require_member(loss: str, name: str, value: str, kind: Any) -> None:
    require(value in get_args(kind), loss, name, value, f"one of {', '.join(get_args(kind))}")
