"""Are an arm's draws independent of one another? Checked before any bound is made of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.store import Arm


def require_independent_draws(arm: Arm) -> None:
    """Refuse, naming the question, draws that can only be copies of one another.

    Of a greedy arm there is one draw, and of an engine that gives no probabilities nothing can be
    told; both pass. Draws of a remainder are held against the law given the remainder.
    """
    if arm.decoding.greedy:
        return
    remainders = arm.masses.remainders()
    for query_id, drawn in _draws(arm).items():
        within = remainders.get(query_id, 1.0)
        shift = math.log(within) if within else -math.inf  # then nothing can be checked
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
    names = ("query_id", "chunk", "text", "logprob", "count")
    for part in arm.parts:
        if not arm.has(part):
            continue
        table = arm.completions(part)
        columns = (table[name].to_pylist() for name in names)
        for ids, query_id, chunk, text, logprob, count in zip(
            _sequences(table["token_ids"]), *columns, strict=True
        ):
            if count:
                tally = found.setdefault(query_id, {})
                key = (chunk, text if ids is None else ids, logprob)
                tally[key] = tally.get(key, 0) + count
    return found


def _sequences(column: Any) -> Iterator[bytes | None]:
    """The bytes of each list of token ids: as distinct as the lists, and cheap."""
    for piece in column.chunks:
        flat, cuts = piece.values.to_numpy(), piece.offsets.to_numpy()
        for start, end, known in zip(cuts[:-1], cuts[1:], piece.is_valid(), strict=True):
            yield flat[start:end].tobytes() if known.as_py() else None
