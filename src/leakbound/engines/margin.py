"""Measure how much a model's log-probabilities change with the shape of the batch.

The order of summation in a forward pass depends on the shape of the batch. For
example, a prefix may be a single row or one of several rows, and its tokens may
be processed in one pass or in several. The logits after the prefix then differ
slightly. The margin is a limit on this difference. To get a lower bound that is
valid in every shape, the log-probability of each token is lowered by the
margin.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.engines.prefix_cache import ALWAYS, CachedModel, RecomputedModel
from leakbound.sampling.model import Handles, PrefixModel

LEAST_MARGIN = 4e-6  # nats per token, because a few prefixes do not show every rounding
_WIDER = 8
_ROWS = (64, 7, 2, 1)
_STEPS = 4  # tokens after a prompt
_OWN_PROMPTS = 8
_MADE_UP_LENGTHS = (4, 12)
_STRIDE = 7919  # a prime that spreads a few token ids over a large vocabulary

Ids: TypeAlias = tuple[int, ...]
Seen: TypeAlias = dict[Ids, list[torch.Tensor]]
"""The logits after each prefix, one vector for each time that it was computed."""


def probed_prompts(prompts: Iterable[Ids], context: int | None = None) -> tuple[Ids, ...]:
    """Select a few of a run's prompts for measuring the margin, from the shortest to the longest.

    The order of the prompts does not matter. The first tokens of a prompt are removed if the prompt
    and the measured steps would exceed the model's `context`.
    """
    ordered = sorted(set(prompts), key=lambda ids: (len(ids), ids))
    spread = np.linspace(0, len(ordered) - 1, min(_OWN_PROMPTS, len(ordered))).round()
    most = max(1, sys.maxsize if context is None else context - _STEPS)
    return tuple(ordered[int(i)][-most:] for i in spread)


@torch.inference_mode()
def shape_margin(model: PrefixModel, prompts: Sequence[Ids] = ()) -> float:
    """Return δ: a limit on how much a log-probability differs between batch shapes, in nats.

    δ is eight times the largest observed difference of a logit after the same prefix, and at least
    4e-6. The tested prefixes are `prompts` (see `probed_prompts`), two made-up prompts, and four
    more tokens along likely continuations. The tested shapes are

    - batches of 64, 7, 2 and 1 rows with short and long prompts,
    - prompts whose keys are read once for all rows, if the prompts are long enough,
    - single prompts, and prompts in two pieces.

    So δ is a multiple of an observed maximum, and is not proved for every prefix.

    δ is infinite in three cases, so that no mass is exact. The cases are: the weights have fewer
    than 32 bits, the logits are NaN in one shape but not in another, or the logits are NaN after
    every prompt. (If the logits are NaN after one prompt in every shape, only that question fails.)

    The factor of eight has two reasons. If no logit changes by more than ε, the logsumexp of the
    logits changes by at most ε. A log-probability is a logit minus the logsumexp, so it changes by
    at most 2 ε. Moreover, some prefixes of a run have larger changes than the few tested prefixes.
    On small trained models, log-probabilities changed by up to 2.2 times the largest observed ε.
    The correction of a path adds δ for each token, as if all tokens changed in the same direction.
    """
    if isinstance(model, CachedModel | RecomputedModel) and torch.finfo(model.dtype).bits < 32:
        return math.inf
    # meaningless tokens from the whole vocabulary
    ids = np.arange(1, sum(_MADE_UP_LENGTHS) + 1) * _STRIDE % model.vocab_size
    made_up = (tuple(part.tolist()) for part in np.split(ids, _MADE_UP_LENGTHS[:1]))
    probes = [*prompts, *made_up]
    seen: Seen = defaultdict(list)
    paths = _walk_together(model, probes, seen)
    _read(model, [*probes, *paths[: len(probes)]], seen)
    return max(LEAST_MARGIN, _WIDER * _largest(seen))


def _walk_together(model: PrefixModel, prompts: Sequence[Ids], seen: Seen) -> list[Ids]:
    """Record the logits after the prompts and their continuations, in batches of each size.

    The paths are chosen in the largest batch, and returned. The rows of one prompt begin with its
    likeliest next token, its second likeliest next token, and so on. Each row then continues with
    its likeliest tokens.
    """
    roots, logits = model.prefill(prompts)
    for prompt, row in zip(prompts, logits, strict=True):
        seen[prompt].append(row)
    widest, *narrower = _ROWS
    handles = np.resize(roots, widest)
    starts = [prompts[row % len(prompts)] for row in range(widest)]
    row, count = np.arange(widest), len(logits)
    ranked = _without_ends(model, logits).argsort(dim=-1, descending=True, stable=True)
    rank = row // count % (model.vocab_size - len(model.eos_token_ids))
    likely = np.asarray(ranked.cpu().numpy()[row % count, rank])[None]
    paths = _walk(model, handles, starts, likely, seen)
    onward = np.array([path[-_STEPS:] for path in paths]).T
    for rows in narrower:
        for first in range(0, max(len(prompts), rows), rows):
            some = slice(first, first + rows)
            _walk(model, handles[some], starts[some], onward[:, some], seen)
    if (
        isinstance(model, CachedModel)
        and (usual := model.cascade)
        and max(map(len, prompts)) >= usual.tokens
    ):
        model.cascade = ALWAYS
        _walk(model, handles, starts, onward, seen)
        model.cascade = usual
    model.release(roots)
    return paths


def _without_ends(model: PrefixModel, logits: torch.Tensor) -> torch.Tensor:
    """Return the logits; the logits of tokens that end an output are removed."""
    ends = torch.tensor(sorted(model.eos_token_ids), dtype=torch.long, device=logits.device)
    return logits.index_fill(-1, ends, -math.inf)


def _walk(
    model: PrefixModel,
    handles: Handles,
    prefixes: Sequence[Ids],
    steps: NDArray[np.int64],
    seen: Seen,
) -> list[Ids]:
    """Record the logits after each step of rows that advance together; return their prefixes.

    `steps` has the tokens of the first steps, [steps, rows]. In later steps, each row is extended
    by its likeliest token.
    """
    reached, logits = list(prefixes), torch.empty(0)
    for step in range(_STEPS):
        fixed = step < len(steps)
        tokens = steps[step] if fixed else _without_ends(model, logits).argmax(dim=-1).cpu().numpy()
        handles, logits = model.extend(handles, tokens, np.full(len(tokens), step > 0))
        reached = [(*ids, int(token)) for ids, token in zip(reached, tokens, strict=True)]
        for ids, row in zip(reached, logits, strict=True):
            seen[ids].append(row)
    model.release(handles)
    return reached


def _read(model: PrefixModel, prefixes: Sequence[Ids], seen: Seen) -> None:
    """Record the logits after each prefix, processed as a single row and in two halves."""
    for ids in prefixes:
        handle, logits = model.prefill([ids])
        model.release(handle)
        seen[ids].append(logits[0])
    halves, _ = model.prefill([ids[: max(1, len(ids) // 2)] for ids in prefixes])
    wholes, in_pieces = model.prefill(prefixes)
    model.release(np.concatenate([halves, wholes]))
    for ids, row in zip(prefixes, in_pieces, strict=True):
        seen[ids].append(row)


def _largest(seen: Seen) -> float:
    """Return the largest difference of a logit after one prefix; infinite for NaN in one shape.

    Equal infinities count as no difference, because the token has probability 0 in both shapes.
    """
    stacks = map(torch.stack, seen.values())
    usable = [logits for logits in stacks if not logits.isnan().any(dim=-1).all()]
    return max(map(_range, usable), default=math.inf)


def _range(logits: torch.Tensor) -> float:
    most, least = logits.amax(dim=0), logits.amin(dim=0)  # NaN if one of the logits is NaN
    gaps = (most - least)[most != least].nan_to_num(nan=math.inf)
    return float(gaps.max()) if len(gaps) else 0.0
