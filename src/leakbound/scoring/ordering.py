"""Keys of the order of a run's draws, for bounds that need one: all that was fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound.stats import order_key
from leakbound.store import Arm, ImportedDraws
from leakbound.store.arm_key import Asks
from leakbound.types import Scorer

_WORDS: dict[Asks, str] = {
    "own words": "own words",
    "rewritings": "rewritings",
    "attack": "found",
    "search": "rewritings",
    "selection": "rewritings",
}  # words that stay the same


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which bets meet the draws of an arm, known by their counts alone.

    Keyed by `draws`, the arm's `draws_key`, the scorer's name and the question's id: the same
    experiment has the same bounds, and no two questions or experiments share an order, whatever
    they scored.
    """

    draws: int = 0
    scorer: str = ""

    @classmethod
    def of(cls, arm: Arm, scorer: Scorer) -> Order:
        """The order of an arm's draws as this scorer scores them."""
        return cls(draws_key(arm), scorer.name)

    def keys(self, query_ids: Sequence[str]) -> NDArray[np.int64]:
        """The key of each of these questions: (Q,)."""
        fixed = {"draws": self.draws, "scorer": self.scorer}
        made = [order_key({**fixed, "question": query_id}) for query_id in query_ids]
        return np.array(made, dtype=np.int64)


def draws_key(arm: Arm) -> int:
    """A digest of what was fixed before an arm was drawn, by words that stay the same.

    Draws that were exported keep the key of the run that drew them, and so its bounds. Others that
    were imported have one that was drawn when they were: nothing else of them is known to have been
    fixed before.
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
            "asked": _WORDS[arm.key.asks],
            **({"stress": arm.key.stress} if arm.key.stress else {}),
        }
    )


BY_QUESTION = Order()  # of scores that belong to no run
