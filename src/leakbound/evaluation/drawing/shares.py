"""How many of a question's outputs each of its queries gets, in each of the three designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np

from leakbound.errors import InputError
from leakbound.stats import Design
from leakbound.store import QueryShares
from leakbound.types import Query


def share(queries: Sequence[Query], design: Design, n: int, seed: int) -> QueryShares:
    """n outputs a question among its queries.

    `allocated`: the query of each output drawn uniformly, the question itself among them; keyed
    by seed and prompt, so all arms of a run share alike. `fixed`: as many for each as n allows,
    and what is left of n over is not drawn. `fresh`: one for each rewriting.

    Raises InputError where n does not reach for every query of a `fixed` design, and where no
    question has a rewriting for a `fresh` one.
    """
    of_prompt: dict[str, list[Query]] = {}
    for query in queries:
        of_prompt.setdefault(query.prompt_id, []).append(query)
    draws: dict[str, int] = {}
    for prompt_id, own in of_prompt.items():
        draws |= _RULES[design](prompt_id, own, n, seed)
    if not draws:
        raise InputError(
            "no rewriting of any question was accepted, and design 'fresh' asks nothing else. See "
            "selection/inputs.json for the reasons; use another rewriter, or design 'allocated'."
        )
    return QueryShares(design, draws)


def _allocated(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    key = blake2b(f"{seed}:allocation:{prompt_id}".encode(), digest_size=16).digest()
    generator = np.random.default_rng(int.from_bytes(key, "little"))
    counts = generator.multinomial(n, np.full(len(own), 1 / len(own))).tolist()
    return {query.id: count for query, count in zip(own, counts, strict=True)}


def _fixed(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    if n < len(own):
        raise InputError(
            f"`n` is shared among the queries of a question, got {n} for the {len(own)} of "
            f"{prompt_id!r}. Raise it, lower the number of queries, or use design 'allocated'."
        )
    return dict.fromkeys((query.id for query in own), n // len(own))


def _fresh(prompt_id: str, own: Sequence[Query], n: int, seed: int) -> Mapping[str, int]:
    return {query.id: 1 for query in own if query.source != "original"}


_RULES = {"allocated": _allocated, "fixed": _fixed, "fresh": _fresh}
