"""How far a model's log-probabilities move with the shape of the batch they are computed in.

The same prefix gets slightly different logits alone, in company, or read at once: other shapes,
other orders of summation. A mass computed in one shape bounds the model's in any other only
after each of its tokens has paid for that.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import torch

from residua.engines.prefix_cache import CachedModel, RecomputedModel
from residua.sampling.model import PrefixModel

LEAST_MARGIN = 4e-6  # nats a token: a few prefixes do not show every rounding
_ROWS = (64, 7, 2, 1)
_PROMPT_LENGTHS = (4, 12)
_STRIDE = 7919  # a prime, to spread few token ids over a large vocabulary


@torch.inference_mode()
def shape_margin(model: PrefixModel) -> float:
    """δ: by how much a log-probability of `model` may differ between batch shapes, in nats.

    Four times the largest difference of a logit after the same prefix; at least 4e-6. Measured on
    a few prefixes, in batches of 64, 7, 2 and 1 rows beside shorter and longer ones, and read as a
    prompt, at once and in two pieces: a maximum that was seen, not one proved for every prefix.
    Infinite, so that nothing is exact, for weights of fewer than 32 bits and where logits are NaN.

    Why four times: where no logit moves by more than ε, neither does their logsumexp, and a
    log-probability is a difference of the two; and other prefixes move up to twice as far as the
    few that are tried (measured; a path pays for each of its tokens as if all moved one way).
    """
    if isinstance(model, CachedModel | RecomputedModel) and torch.finfo(model.dtype).bits < 32:
        return math.inf
    ids = np.arange(1, sum(_PROMPT_LENGTHS) + max(_ROWS) + 1) * _STRIDE % model.vocab_size
    *prompts, tokens = np.split(ids, np.cumsum(_PROMPT_LENGTHS))
    shapes = _as_prompt(model, [*prompts[0].tolist(), int(tokens[0])])  # while nothing is held
    roots = np.array([model.prefill(prompt.tolist())[0] for prompt in prompts])
    parents = np.resize(roots, max(_ROWS))  # in turn, so that short rows stand beside long ones

    for rows in _ROWS:
        handles, logits = model.extend(parents[:rows], tokens[:rows], np.zeros(rows, dtype=bool))
        model.release(handles)
        shapes.append(logits)
    model.release(roots)
    return max(LEAST_MARGIN, 4 * max(_difference(a, b) for a, b in combinations(shapes, 2)))


def _as_prompt(model: PrefixModel, ids: list[int]) -> list[torch.Tensor]:
    """Logits after these ids, read at once, and where their first half is held already."""
    alone, at_once = model.prefill(ids)
    model.release(np.array([alone]))
    half, _ = model.prefill(ids[: len(ids) // 2])
    whole, in_pieces = model.prefill(ids)
    model.release(np.array([half, whole]))
    return [at_once, in_pieces]


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest |a − b| over the prefixes (rows) that both have; infinite where either is NaN.

    Equal infinities do not differ: they are tokens of probability 0 in both.
    """
    shared = min(len(a), len(b))
    a, b = a[:shared], b[:shared]
    gaps = (a - b)[a != b].abs().nan_to_num(nan=math.inf)
    return float(gaps.max()) if len(gaps) else 0.0
