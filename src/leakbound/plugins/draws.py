"""The scores of draws that another tool made, as evidence for bounds.

Betting bounds process the draws of a sample in a random order. A seed is the key of this order, as
in a run. So if a log of the tool states the seed, `leakbound import` computes the same bounds from
the log. If you pass no seed, a random seed is chosen once per process. Choose a seed before
anything is drawn. To repeat the bounds of a log, pass the seed of the log. If you try several seeds
and choose among the results, the bounds are not valid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial

import numpy as np

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.errors import InputError
from leakbound.scorers import readable, score_outputs
from leakbound.scoring.ordering import order_keys
from leakbound.stats import order
from leakbound.store.scores import tallied_rows
from leakbound.types import Prompt, Sample, Scorer

_BITS = 24  # the largest seed: some tools store numbers as floats of 32 bits


@cache
def _drawn() -> int:
    """Return this process's random seed; with a fixed seed, the same data would always fail."""
    return order.entropy() >> (order.BITS - _BITS)


def seed_of(seed: int | None) -> int:
    """Return the seed, or the seed of this process if it is None.

    Args:
        seed: a whole number from 0 to 16,777,215; None: the seed of this process, drawn once.

    Returns:
        The seed, which tools can store as a float.

    Raises:
        InputError: for a seed outside that range.
    """
    if seed is not None and not 0 <= seed < 2**_BITS:
        raise InputError(
            f"`seed` must be a whole number from 0 to {2**_BITS - 1:,}, got {seed}. Pass a smaller "
            "number, because tools store it as a float."
        )
    return _drawn() if seed is None else int(seed)


def scores_of(
    drawn: Iterable[object], scorer: Scorer, prompts: Mapping[str, Prompt]
) -> dict[str, list[float | None]]:
    """Return the scores of the draws of each prompt.

    Args:
        drawn: samples; other results of an engine, such as failures, are ignored.
        scorer: scores each distinct text.
        prompts: the prompts by their ids, including the prompts of the samples.

    Returns:
        One score per draw in [0, 1], by the prompt's id; None if the scorer is undecided.

    Raises:
        InputError: for a score outside the scorer's range.
    """
    scores: dict[str, list[float | None]] = {id: [] for id in prompts}
    for sample in (s for s in drawn if isinstance(s, Sample)):
        id, stop = sample.query.prompt_id, sample.decoding.stop
        outputs = [readable(completion, stop) for completion in sample.completions]
        values = score_outputs(scorer, outputs, [prompts[id]] * len(outputs))
        for completion, score in zip(sample.completions, values, strict=True):
            scores[id] += [score] * completion.count
    return scores


def drawn_by_tool(
    scores: Mapping[str, Sequence[float | None]],
    n: int,
    *,
    tool: str,
    scorer: str,
    binary: bool,
    stopped: Mapping[str, int] | None = None,
    seed: int | None = None,
) -> Drawn:
    """Return the evidence from draws with these scores; draws without a result are missing.

    Args:
        scores: by the sample's id, the scores of its draws; None or NaN for a draw without a score.
        n: the planned number of draws per sample; at least 2.
        tool: the name of the tool, for messages.
        scorer: the name of the scorer, which is part of the keys of the order.
        binary: whether scores are 0 or 1; else they are in [0, 1].
        stopped: the number of draws that count, for each sample that stopped before n because its
            claim was decided; None: no claim stopped samples, and n was fixed.
        seed: the seed of the order in which betting bounds process the draws; None: this process's
            seed.

    Returns:
        The evidence: one question for each sample, in the order of `scores`.

    Raises:
        InputError: for more than n draws of a sample, n below 2, scores outside the declared range,
            or a seed that tools cannot store.
    """
    if n < 2:
        raise InputError(
            f"a bound needs several draws of each sample, got {n}. Draw more, such as 1,024."
        )
    most = max(map(len, scores.values()), default=0)
    if most > n:
        raise InputError(
            f"expected {n:,} draws per sample, got {most:,}. Pass the number that {tool} draws."
        )
    undrawn = {id: (stopped or {}).get(id, n) - len(own) for id, own in scores.items()}
    tallies = {
        id: Counter(None if x is None or math.isnan(x) else x for x in own)
        for id, own in scores.items()
    }
    rows = tallied_rows(tallies, undrawn, binary=binary)
    order = partial(order_keys, seed_of(seed), scorer)
    return Drawn(rows if stopped is None else stats.Stopped(rows, n), order=order)


class Stopping:
    """Decides a claim about each sample while its draws arrive.

    Draws finish in any order, and draws with short outputs mostly finish first. So a draw is used
    only when all draws with smaller numbers have arrived. Draws after the decision do not count.
    NaN marks a draw without a score.

    Attributes:
        looks: the claim, the largest number of draws per sample, and the confidence.
        decided: for each sample that stopped, by its id, the number of draws that decided the
            claim.
    """

    def __init__(self, looks: stats.Looks, samples: Iterable[str]) -> None:
        self.looks = looks
        self._arrived: dict[str, dict[int, float]] = {id: {} for id in samples}
        self._next = dict.fromkeys(self._arrived, looks.first)
        self.decided: dict[str, int] = {}

    def n(self, id: str) -> int:
        """Return the number of draws of a sample that count."""
        return self.decided.get(id, self.looks.cap)

    @property
    def counted(self) -> dict[str, list[float]]:
        """Return the scores of the draws that count, by sample."""
        return {
            id: [arrived[i] for i in sorted(arrived) if i <= self.n(id)]
            for id, arrived in self._arrived.items()
        }

    def take(self, id: str, i: int, score: float) -> None:
        """Record draw i (counted from 1) of a sample; decide its claim if the draws suffice."""
        arrived = self._arrived[id]
        arrived[i] = score
        while id not in self.decided and (look := self._next[id]) < self.looks.cap:
            if any(j not in arrived for j in range(1, look + 1)):
                return
            drawn = np.array([arrived[j] for j in range(1, look + 1)])
            scores, missing = drawn[~np.isnan(drawn)], int(np.isnan(drawn).sum())
            rows = stats.Rows.of(scores, missing=missing)
            if self.looks.decide(rows, seed=0).item() != "open":
                self.decided[id] = look
            self._next[id] = int(self.looks.next_look(rows).item())
