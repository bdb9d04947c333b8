"""Are an arm's draws independent of one another? Checked before any bound is made of them."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from residua import stats
from residua.store import Arm


def require_independent_draws(arm: Arm) -> None:
    """Refuse, naming the question, draws that can only be copies of one another.

    Of a greedy arm there is one draw, and of an engine that gives no probabilities nothing can be
    told; both pass. Draws of a remainder are held against the law given the remainder.
    """
    if arm.decoding.greedy:
        return
    remainders = {} if arm.exploring is None else arm.masses.remainders()
    for query_id, drawn in _draws(arm).items():
        shift = math.log(remainders[query_id]) if query_id in remainders else 0.0
        chunks = sorted({chunk for chunk, _, _ in drawn})
        texts: dict[Hashable, int] = {}
        for _, text, _ in drawn:
            texts.setdefault(text, len(texts))
        counts = np.zeros((len(chunks), len(texts)), dtype=np.int64)
        logprobs = np.full(len(texts), np.nan)
        for (chunk, text, logprob), count in drawn.items():
            counts[chunks.index(chunk), texts[text]] += count
            if logprob is not None:
                logprobs[texts[text]] = logprob - shift
        stats.require_independent(
            counts, logprobs, where=f"question {query_id!r} in arm {arm.name!r}"
        )


def _draws(arm: Arm) -> dict[str, dict[tuple[int, Hashable, float | None], int]]:
    """How often each chunk of each question drew which sequence, and its log-probability."""
    found: dict[str, dict[tuple[int, Hashable, float | None], int]] = {}
    names = ("query_id", "chunk", "token_ids", "text", "logprob", "count")
    for part in arm.parts:
        if not arm.has(part):
            continue
        table = arm.completions(part)
        columns = (table[name].to_pylist() for name in names)
        for query_id, chunk, ids, text, logprob, count in zip(*columns, strict=True):
            if count:
                sequence = text if ids is None else tuple(ids)
                tally = found.setdefault(query_id, {})
                key = (chunk, sequence, logprob)
                tally[key] = tally.get(key, 0) + count
    return found
