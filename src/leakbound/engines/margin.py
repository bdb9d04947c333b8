"""How far a model's log-probabilities move with the shape of the batch they are computed in.

The same prefix gets slightly different logits in a row, in a batch, or read at once: other shapes,
other orders of summation. A mass computed in one shape bounds the model's in any other only
after each of its tokens has paid for that.
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

LEAST_MARGIN = 4e-6  # nats a token: a few prefixes do not show every rounding
_WIDER = 8
_ROWS = (64, 7, 2, 1)
_STEPS = 4  # tokens after a prompt
_OWN_PROMPTS = 8
_MADE_UP_LENGTHS = (4, 12)
_STRIDE = 7919  # a prime, to spread few token ids over a large vocabulary

Ids: TypeAlias = tuple[int, ...]
Seen: TypeAlias = dict[Ids, list[torch.Tensor]]
"""The logits after each prefix, one vector for each time that it was computed."""


def probed_prompts(prompts: Iterable[Ids], context: int | None = None) -> tuple[Ids, ...]:
    """Return the few of a run's prompts to measure at: by length, from the shortest to the longest.

    Depends on which prompts there are, not on their order. Where the probe's own steps would pass
    the model's `context`, a prompt loses its first tokens.
    """
    ordered = sorted(set(prompts), key=lambda ids: (len(ids), ids))
    spread = np.linspace(0, len(ordered) - 1, min(_OWN_PROMPTS, len(ordered))).round()
    most = max(1, sys.maxsize if context is None else context - _STEPS)
    return tuple(ordered[int(i)][-most:] for i in spread)


@torch.inference_mode()
def shape_margin(model: PrefixModel, prompts: Sequence[Ids] = ()) -> float:
    """δ: by how much a log-probability of `model` may differ between batch shapes, in nats.

    Eight times the largest difference of a logit after the same prefix; at least 4e-6. Measured
    after `prompts` (see `probed_prompts`) and two that are made up, and four tokens on along
    likely continuations: in batches of 64, 7, 2 and 1 rows, short prompts with long ones, where
    long enough also read once for all of their rows; read singly, and in pieces together. A
    maximum that was seen and widened, not one proved for every prefix. Infinite, so that nothing is
    exact, for weights of fewer than 32 bits and where logits are NaN in one shape but not in
    another, or everywhere. (A prompt after which they are NaN in every shape is a question that
    fails on its own.)

    Why eight times: where no logit moves by more than ε, neither does their logsumexp, and a
    log-probability is a difference of the two; and the prefixes of a whole run move further than
    the few that are tried. On small trained models log-probabilities moved by up to 2.2 times
    the largest ε seen. A path pays for each of its tokens as if all moved one way.
    """
    if isinstance(model, CachedModel | RecomputedModel) and torch.finfo(model.dtype).bits < 32:
        return math.inf
    # tokens from everywhere in the vocabulary, that need make no sense
    ids = np.arange(1, sum(_MADE_UP_LENGTHS) + 1) * _STRIDE % model.vocab_size
    made_up = (tuple(part.tolist()) for part in np.split(ids, _MADE_UP_LENGTHS[:1]))
    probes = [*prompts, *made_up]
    seen: Seen = defaultdict(list)
    paths = _walk_together(model, probes, seen)
    _read(model, [*probes, *paths[: len(probes)]], seen)
    return max(LEAST_MARGIN, _WIDER * _largest(seen))


def _walk_together(model: PrefixModel, prompts: Sequence[Ids], seen: Seen) -> list[Ids]:
    """Note the logits after the prompts and on from them, in batches of rows that take turns.

    The widest batch finds the paths, which are returned: rows of one prompt begin with its
    likeliest token, its second likeliest and so on, and then go the likeliest way.
    """
    roots, logits = model.prefill(prompts)
    for prompt, row in zip(prompts, logits, strict=True):
        seen[prompt].append(row)
    widest, *narrower = _ROWS
    handles = np.resize(roots, widest)
    starts = [prompts[row % len(prompts)] for row in range(widest)]
    row, count = np.arange(widest), len(logits)
    ranked = _going_on(model, logits).argsort(dim=-1, descending=True, stable=True)
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


def _going_on(model: PrefixModel, logits: torch.Tensor) -> torch.Tensor:
    """Return the logits, without the tokens that end an output."""
    ends = torch.tensor(sorted(model.eos_token_ids), dtype=torch.long, device=logits.device)
    return logits.index_fill(-1, ends, -math.inf)


def _walk(
    model: PrefixModel,
    handles: Handles,
    prefixes: Sequence[Ids],
    steps: NDArray[np.int64],
    seen: Seen,
) -> list[Ids]:
    """Note the logits after each step of rows that advance together; return where they got.

    `steps` × rows are the tokens of the first steps; after them each row takes its likeliest.
    """
    reached, logits = list(prefixes), torch.empty(0)
    for step in range(_STEPS):
        fixed = step < len(steps)
        tokens = steps[step] if fixed else _going_on(model, logits).argmax(dim=-1).cpu().numpy()
        handles, logits = model.extend(handles, tokens, np.full(len(tokens), step > 0))
        reached = [(*ids, int(token)) for ids, token in zip(reached, tokens, strict=True)]
        for ids, row in zip(reached, logits, strict=True):
            seen[ids].append(row)
    model.release(handles)
    return reached


def _read(model: PrefixModel, prefixes: Sequence[Ids], seen: Seen) -> None:
    """Note the logits after these, each singly, and together where their first halves are held."""
    for ids in prefixes:
        alone, at_once = model.prefill([ids])
        model.release(alone)
        seen[ids].append(at_once[0])
    halves, _ = model.prefill([ids[: max(1, len(ids) // 2)] for ids in prefixes])
    wholes, in_pieces = model.prefill(prefixes)
    model.release(np.concatenate([halves, wholes]))
    for ids, row in zip(prefixes, in_pieces, strict=True):
        seen[ids].append(row)


def _largest(seen: Seen) -> float:
    """Return the largest difference of a logit after one prefix; infinite where one shape gives NaN.

    Equal infinities do not differ: they are tokens of probability 0 in both.
    """
    stacks = map(torch.stack, seen.values())
    usable = [logits for logits in stacks if not logits.isnan().any(dim=-1).all()]
    return max(map(_range, usable), default=math.inf)


def _range(logits: torch.Tensor) -> float:
    most, least = logits.amax(dim=0), logits.amin(dim=0)  # NaN where one is
    gaps = (most - least)[most != least].nan_to_num(nan=math.inf)
    return float(gaps.max()) if len(gaps) else 0.0
