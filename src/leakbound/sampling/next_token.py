"""From logits to drawn tokens, by inverse CDF under the law of a decoding.

All probabilities are float64. A token of probability 0 is never drawn. On a GPU the logits stay
there: what was drawn comes back, a few transfers a step however many rows and draws there are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.law import Step, certain_law, greedy_steps, read, rows_at_once, truncations
from leakbound.types import Decoding

_BLOCK = 256  # inverse-CDF search in two levels: blocks of the vocabulary, then one block


@dataclass(frozen=True, slots=True)
class Picks:
    """Tokens drawn from rows of logits, and what each row was.

    Per draw: `tokens`, and natural log-probabilities of them under the decoding (`logprob`, at
    least `floor` for any logits within the margin) and under the untruncated T = 1 model
    (`model_logprob`). Per row: `p_max`, the largest T = 1 probability, and `broken`, whether the
    logits were unusable (what is drawn there means nothing).
    """

    tokens: NDArray[np.int64]
    logprob: NDArray[np.float64]
    floor: NDArray[np.float64]
    model_logprob: NDArray[np.float64]
    p_max: NDArray[np.float64]
    broken: NDArray[np.bool_]

    def steps(self, draws: NDArray[np.int64], rows: NDArray[np.int64]) -> list[Step]:
        """What it is to take the tokens of these draws, each of them from this row."""
        columns = (self.logprob[draws], self.floor[draws], self.model_logprob[draws])
        values = (column.tolist() for column in (*columns, self.p_max[rows]))
        return [Step(*each) for each in zip(*values, strict=True)]


@torch.inference_mode()
def pick(
    logits: torch.Tensor,
    decoding: Decoding,
    rows: NDArray[np.int64],
    uniforms: NDArray[np.float64],
    confidence: tuple[NDArray[np.float64], NDArray[np.int64]],
    margin: float = 0.0,
) -> Picks:
    """Draw token i from row `rows[i]` of `logits` (rows × vocabulary) with `uniforms[i]`.

    `rows` is sorted. `confidence` holds for each row the sum of p_max over the tokens before
    this one and how many tokens there will be with it (adaptive temperature, `running`).
    """
    height = rows_at_once(logits)
    if len(logits) > height:
        starts = np.arange(0, len(logits), height)
        cuts = np.searchsorted(rows, [*starts, len(logits)])
        sums, depth = confidence
        parts = [
            pick(
                logits[start : start + height],
                decoding,
                rows[low:high] - start,
                uniforms[low:high],
                (sums[start : start + height], depth[start : start + height]),
                margin,
            )
            for start, low, high in zip(starts, cuts, cuts[1:], strict=False)
        ]
        columns = ([getattr(part, field.name) for part in parts] for field in fields(Picks))
        return Picks(*map(np.concatenate, columns))
    at_one = read(logits)
    greedy, doubtful = greedy_steps(at_one.p_max, decoding, *confidence, margin)
    row = torch.from_numpy(rows).to(logits.device)
    u = torch.from_numpy(uniforms).to(logits.device)
    tokens = at_one.best[row]
    logprob = torch.zeros_like(u)
    drawn = np.flatnonzero(~greedy[rows])
    if len(drawn):
        weights = at_one.tempered(decoding.temperature)
        search = _search_nucleus if decoding.truncated else _search_all
        mine = torch.from_numpy(drawn).to(logits.device)
        tokens[mine], logprob[mine] = search(weights, row[mine], u[mine], decoding)
    model_logprob = at_one.logits[row, tokens] - at_one.top[row] - at_one.log_total[row]
    if not margin:
        floor = logprob
    elif decoding.truncated or greedy.any() or doubtful.any():
        floor = certain_law(logits, decoding, *confidence, margin).floor[row, tokens]
    else:
        floor = logprob - margin / decoding.temperature
    # float64 holds every token's id exactly
    found = torch.stack([tokens.double(), logprob, floor, model_logprob]).cpu().numpy()
    values = (found[1], found[2], found[3], at_one.p_max, at_one.broken)
    return Picks(found[0].astype(np.int64), *values)


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
    for done, part in truncations(weights, decoding):
        where = torch.full((weights.shape[0],), -1, dtype=torch.long, device=row.device)
        where[done] = torch.arange(len(done), device=row.device)
        mine = torch.nonzero(where[row] >= 0)[:, 0]
        slot = where[row[mine]]
        upto, last = part.mass.cumsum(dim=-1), part.kept - 1
        total = upto.gather(1, last[:, None])[:, 0]
        index = (upto[slot] <= (u[mine] * total[slot])[:, None]).sum(dim=-1)
        index = torch.minimum(index, last[slot])
        tokens[mine] = part.ids[slot, index]
        logprob[mine] = torch.log(part.mass[slot, index]) - torch.log(total[slot])
    return tokens, logprob


def _last_positive(values: torch.Tensor) -> torch.Tensor:
    """Index of the last entry above 0 along the last axis."""
    flipped = (values > 0).to(torch.int8).flip(-1)
    return values.shape[-1] - 1 - flipped.argmax(dim=-1)
