"""Make the keys that order a run's draws for betting bounds, from facts fixed in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leakbound.stats import order_key
from leakbound.store import Arm, ImportedDraws
from leakbound.store.arm_key import QueryKind
from leakbound.types import Scorer

_WORDS: dict[QueryKind, str] = {
    "own words": "own words",
    "rewritings": "rewritings",
    "attack": "found",
    "search": "rewritings",
    "selection": "rewritings",
}  # keys depend on these words, so they must not change


Order: TypeAlias = Callable[[Sequence[str]], NDArray[np.int64]]
"""A function from question ids to keys. A key determines the order of a question's draws."""


def order_of(arm: Arm, scorer: Scorer) -> Order:
    """Return the function from question ids to the keys that order the draws of an arm."""
    return partial(order_keys, draws_key(arm), scorer.name)


def order_keys(draws: int, scorer: str, query_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the key of each question, [questions].

    A key is made from the arm's `draws_key`, the scorer's name and the question's id. So a repeated
    experiment has the same bounds. No two questions or experiments have the same order. The scores
    do not affect the order.
    """
    fixed = {"draws": draws, "scorer": scorer}
    made = [order_key({**fixed, "question": query_id}) for query_id in query_ids]
    return np.array(made, dtype=np.int64)


def draws_key(arm: Arm) -> int:
    """Return a digest of everything that was fixed before an arm was drawn.

    Imported draws have the key that the import stored. If leakbound exported the draws, this is the
    key of the original run, so the bounds are the same.
    """
    if isinstance(arm.spec.draws, ImportedDraws):
        return arm.spec.draws.order
    return order_key(
        {
            "model": arm.spec.fingerprint,
            "benchmark": arm.run_queries.benchmark,
            "decoding": arm.decoding.to_dict(),
            "draw seed": arm.spec.seed,
            "role": arm.key.model,
            "asked": _WORDS[arm.key.kind],
            **({"stress": arm.key.stress} if arm.key.stress else {}),
        }
    )


BY_QUESTION: Order = partial(order_keys, 0, "")  # for scores that belong to no run
