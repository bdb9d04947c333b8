"""From logits to drawn tokens under a decoding: temperature, top-k, top-p, adaptive temperature.

All probabilities are float64. A token of probability 0 is never drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from residua.types import Decoding

_BLOCK = 256  # inverse-CDF search in two levels: blocks of the vocabulary, then one block
# float64 values worked on at once: few enough to stay in a processor's cache, many for a GPU
_ELEMENTS = {"cpu": 1 << 18, "other": 1 << 26}
_NUCLEUS_TOLERANCE = 1e-12  # .5 + .3 reaches a top-p of .8 in spite of rounding


@dataclass(frozen=True, slots=True)
class Picks:
    """Tokens drawn from rows of logits, and what each row was.

    Per draw: `tokens`, and natural log-probabilities of them under the decoding (`logprob`) and
    under the untruncated T = 1 model (`model_logprob`). Per row: `p_max`, the largest T = 1
    probability, and `broken`, whether the logits were unusable (nothing is drawn there).
    """

    tokens: NDArray[np.int64]
    logprob: NDArray[np.float64]
    model_logprob: NDArray[np.float64]
    p_max: NDArray[np.float64]
    broken: NDArray[np.bool_]


@torch.inference_mode()
def pick(
    logits: torch.Tensor,
    decoding: Decoding,
    rows: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    confidence: tuple[NDArray[np.float64], NDArray[np.int64]],
) -> Picks:
    """Draw token i from row `rows[i]` of `logits` (rows × vocabulary) with `uniforms[i]`.

    `rows` is sorted. `confidence` holds for each row the sum of p_max over the tokens before
    this one and how many tokens there will be with it (adaptive temperature, `running`).
    """
    at_once = _ELEMENTS["cpu" if logits.device.type == "cpu" else "other"]
    height = max(1, at_once // logits.shape[1])
    starts = np.arange(0, logits.shape[0], height)
    cuts = np.searchsorted(rows, [*starts, logits.shape[0]])
    parts = [
        _pick_slice(
            logits[start : start + height],
            decoding,
            rows[cuts[i] : cuts[i + 1]] - start,
            uniforms[cuts[i] : cuts[i + 1]],
            (confidence[0][start : start + height], confidence[1][start : start + height]),
        )
        for i, start in enumerate(starts)
    ]
    fields = ("tokens", "logprob", "model_logprob", "p_max", "broken")
    return Picks(*(np.concatenate([getattr(p, name) for p in parts]) for name in fields))


def _pick_slice(
    logits: torch.Tensor,
    decoding: Decoding,
    rows: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    confidence: tuple[NDArray[np.float64], NDArray[np.int64]],
) -> Picks:
    logits = logits.double()
    top, best = logits.max(dim=-1)  # ties: the first, so the lowest id
    broken = ~torch.isfinite(top)
    if bool(broken.any()):
        logits = torch.where(broken[:, None], 0.0, logits)
        top = torch.where(broken, 0.0, top)
    weights = (logits - top[:, None]).exp_()
    log_total = torch.log(weights.sum(dim=-1))
    p_max = torch.exp(-log_total).cpu().numpy()

    greedy = np.full(len(p_max), decoding.greedy)
    if decoding.adaptive_temperature is not None and decoding.adaptive_mode == "running":
        greedy |= (confidence[0] + p_max) / confidence[1] > decoding.adaptive_temperature
    row = torch.from_numpy(rows).to(logits.device)
    u = torch.from_numpy(uniforms).to(logits.device)
    tokens = best[row]
    logprob = torch.zeros_like(u)
    drawn = torch.from_numpy(~greedy[rows]).to(logits.device)
    if bool(drawn.any()):
        if decoding.temperature != 1:
            weights = (logits - top[:, None]).div_(decoding.temperature).exp_()
        search = _search_nucleus if decoding.top_k or decoding.top_p < 1 else _search_all
        tokens[drawn], logprob[drawn] = search(weights, row[drawn], u[drawn], decoding)
    model_logprob = logits[row, tokens] - top[row] - log_total[row]
    return Picks(
        tokens.cpu().numpy(),
        logprob.cpu().numpy(),
        model_logprob.cpu().numpy(),
        p_max,
        broken.cpu().numpy(),
    )


def _search_all(
    weights: torch.Tensor, row: torch.Tensor, u: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse CDF over the whole vocabulary: tokens, and their log-probabilities."""
    padding = -weights.shape[1] % _BLOCK
    if padding:
        weights = torch.nn.functional.pad(weights, (0, padding))
    blocks = weights.view(len(weights), -1, _BLOCK)
    sums = blocks.sum(dim=-1)
    upto = sums.cumsum(dim=-1)
    target = u * upto[row, -1]
    block = (upto[row] <= target[:, None]).sum(dim=-1)
    block = torch.minimum(block, _last_positive(sums)[row])
    inside = blocks[row, block]
    below = upto[row, block] - sums[row, block]
    offset = (inside.cumsum(dim=-1) <= (target - below)[:, None]).sum(dim=-1)
    offset = torch.minimum(offset, _last_positive(inside))
    # rounding of `below` may point at the empty start of a block, where nothing has mass
    offset = torch.maximum(offset, (inside > 0).to(torch.int8).argmax(dim=-1))
    chosen = inside.gather(1, offset[:, None])[:, 0]
    return block * _BLOCK + offset, torch.log(chosen) - torch.log(upto[row, -1])


def _search_nucleus(
    weights: torch.Tensor, row: torch.Tensor, u: torch.Tensor, decoding: Decoding
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse CDF over the tokens that top-k and then top-p keep."""
    tokens = torch.empty_like(row)
    logprob = torch.empty_like(u)
    todo = torch.unique(row)
    width = min(64, weights.shape[1])
    while len(todo):
        mass, ids, kept = kept_tokens(weights[todo], decoding, width)
        done = kept > 0
        where = torch.full((weights.shape[0],), -1, dtype=torch.long, device=row.device)
        where[todo[done]] = torch.arange(int(done.sum()), device=row.device)
        mine = where[row] >= 0
        slot = where[row[mine]]
        upto, last = mass[done].cumsum(dim=-1), kept[done] - 1
        total = upto.gather(1, last[:, None])[:, 0]
        index = (upto[slot] <= (u[mine] * total[slot])[:, None]).sum(dim=-1)
        index = torch.minimum(index, last[slot])
        tokens[mine] = ids[done][slot, index]
        logprob[mine] = torch.log(mass[done][slot, index]) - torch.log(total[slot])
        todo, width = todo[~done], min(16 * width, weights.shape[1])
    return tokens, logprob


def kept_tokens(
    weights: torch.Tensor, decoding: Decoding, width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The `width` heaviest tokens of each row, descending, ties by id, and how many are kept.

    `weights` (rows × vocabulary) need not sum to 1. Returns masses, ids, and the number of
    leading ones that top-k and then top-p keep; 0 where `width` is too small to tell.
    """
    size = weights.shape[1]
    mass, ids = torch.topk(weights, width, dim=-1)
    ids, order = ids.sort(dim=-1)
    mass, again = mass.gather(1, order).sort(dim=-1, descending=True, stable=True)
    ids = ids.gather(1, again)
    # beyond the tokens heavier than the last one seen, an unseen tie could come first
    certain = (mass > mass[:, -1:]).sum(dim=-1) if width < size else (mass > 0).sum(dim=-1)
    limit = decoding.top_k or size
    upto = mass.cumsum(dim=-1)
    total = upto[:, min(limit, width) - 1] if limit <= width else weights.sum(dim=-1)
    reach = (decoding.top_p - _NUCLEUS_TOLERANCE) * total
    kept = ((upto < reach[:, None]).sum(dim=-1) + 1).clamp(max=limit)
    if decoding.top_p == 1:
        kept = torch.full_like(kept, limit)
    if width == size:
        return mass, ids, torch.minimum(kept, certain)
    return (
        mass,
        ids,
        torch.where((kept <= certain) & (limit <= width or not decoding.top_k), kept, 0),
    )


def _last_positive(values: torch.Tensor) -> torch.Tensor:
    """Index of the last entry above 0 along the last axis."""
    flipped = (values > 0).to(torch.int8).flip(-1)
    return values.shape[-1] - 1 - flipped.argmax(dim=-1)
