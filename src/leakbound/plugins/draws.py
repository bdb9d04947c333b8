"""Draws of a tool, as its plug-in hands them over: scores of every sample, and what is missing.

Bets meet the draws of a sample in a random order, which a seed keys as that of a run does: a log
that states it is bounded alike in the tool and by `leakbound import`. It is drawn once a process
unless it is given. Give one before anything was drawn, or that of a log to repeat its figures:
trying seeds until one pleases is choosing after looking, and voids the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from leakbound import stats
from leakbound.errors import InputError
from leakbound.scorers import readable, score_outputs
from leakbound.scoring.ordering import Order
from leakbound.stats import order
from leakbound.types import Prompt, Sample, Scorer

_BITS = 24  # of a seed: tools keep figures as floats, of 32 bits some


@cache
def _drawn() -> int:
    """This process's seed: under one that is always the same some tallies always miss."""
    return order.entropy() >> (order.BITS - _BITS)


def seed_of(seed: int | None) -> int:
    """The seed that was given, else this process's.

    Args:
        seed: a whole number from 0 to 16,777,215; None: this process's, drawn once.

    Returns:
        The seed, a whole number that tools can keep as a float.

    Raises:
        InputError: a seed outside that range.
    """
    if seed is not None and not 0 <= seed < 2**_BITS:
        raise InputError(
            f"`seed` must be a whole number from 0 to {2**_BITS - 1:,}, got {seed}: tools keep it "
            "as a float. Give a smaller one."
        )
    return _drawn() if seed is None else int(seed)


def scores_of(
    drawn: Iterable[object], scorer: Scorer, prompts: Mapping[str, Prompt]
) -> dict[str, list[float | None]]:
    """Score the draws of each prompt.

    Args:
        drawn: samples; what else an engine gives, such as a failure, is passed over.
        scorer: gives each distinct text its score.
        prompts: the prompts by their ids, those of the samples among them.

    Returns:
        A score a draw by the prompt's id, in [0, 1]; None where the scorer is undecided.

    Raises:
        InputError: a score that the scorer must not give.
    """
    scores: dict[str, list[float | None]] = {id: [] for id in prompts}
    for sample in (s for s in drawn if isinstance(s, Sample)):
        id, stop = sample.query.prompt_id, sample.decoding.stop
        outputs = [readable(completion, stop) for completion in sample.completions]
        values = score_outputs(scorer, outputs, [prompts[id]] * len(outputs))
        for completion, score in zip(sample.completions, values, strict=True):
            scores[id] += [score] * completion.count
    return scores


@dataclass(frozen=True, slots=True)
class ToolDraws:
    """Draws of Q samples, n of each or fewer: the evidence of each sample.

    Attributes:
        rows: scores with counts, and the number of missing draws.
        keys: what keys the order of each sample's draws, [Q].
        seed: made the keys, with the samples' ids and the scorer's name.
        confidence: the probability with which `mean`, `worst` and `at_k` are valid, in (0, 1).
        cap: the n fixed in advance, where drawing may have stopped before; else None.
    """

    rows: stats.Rows
    keys: NDArray[np.int64]
    seed: int
    confidence: float = 0.99
    cap: int | None = None

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Sequence[float | None]],
        n: int,
        *,
        tool: str,
        scorer: str,
        binary: bool,
        confidence: float = 0.99,
        stopped: Mapping[str, int] | None = None,
        seed: int | None = None,
    ) -> ToolDraws:
        """The draws whose scores these are; those that did not come are missing.

        Args:
            scores: the scores of each sample's draws by its id; None or NaN where a draw has none.
            n: draws of each sample that were announced; at least 2.
            tool: what drew, for messages.
            scorer: the name of the scorer, which keys the order of the draws too.
            binary: whether scores are 0 or 1; else they are in [0, 1].
            confidence: with which probability bounds hold, in (0, 1).
            stopped: how many draws count of each sample that a claim stopped before n; None: there
                was no claim, n was fixed.
            seed: of the order in which bets meet the draws; None: this process's.

        Returns:
            The draws, a row a sample in the order of `scores`.

        Raises:
            InputError: more than n draws of a sample, n below 2, scores that are not in the
                declared range, or a seed that tools cannot keep.
        """
        if n < 2:
            raise InputError(
                f"a bound needs several draws of each sample, got {n}. Draw more, such as 1,024."
            )
        most = max(map(len, scores.values()), default=0)
        if most > n:
            raise InputError(
                f"{n:,} draws of a sample were announced and {most:,} came. Announce the number "
                f"that {tool} draws."
            )
        rows = [[*own, *[None] * (n - len(own))] for own in scores.values()]
        values = np.array(rows, dtype=np.float64)
        scored = ~np.isnan(values)
        sizes = np.array([(stopped or {}).get(id, n) for id in scores])
        seed = seed_of(seed)
        return cls(
            stats.Rows.of(
                np.where(scored, values, 0.0),
                scored.astype(np.int64),
                sizes - scored.sum(axis=1),
                binary=binary,
            ),
            Order(seed, scorer).keys(list(scores)),
            seed,
            confidence,
            n if stopped is not None else None,
        )

    @property
    def missing(self) -> NDArray[np.int64]:
        """The draws of each sample without a score, [Q]."""
        return self.rows.missing

    @property
    def n(self) -> NDArray[np.int64]:
        """The draws of each sample, those without a score among them, [Q]."""
        return self.rows.n

    def _bound(self, quantity: stats.Quantity) -> stats.Estimate:
        evidence = self.rows if self.cap is None else stats.Stopped(self.rows, self.cap)
        return stats.bound(evidence, quantity, confidence=self.confidence, seed=self.keys)

    def each(self) -> stats.Estimate:
        """Bound every sample's leak probability, or its mean score, both ends, [Q]."""
        return self._bound(stats.LEAKAGE)

    def mean(self) -> stats.Estimate:
        """Bound the mean over the samples, both ends."""
        return self._bound(stats.LEAKAGE.mean())

    def worst(self) -> stats.Estimate:
        """Bound the largest of any sample, the choice counted, both ends."""
        return self._bound(stats.LEAKAGE.worst())

    def at_k(self, k: int) -> stats.Estimate:
        """Bound the mean over the samples of the largest of k scores, both ends.

        InputError where a claim may have stopped the draws, or k is not from 1 to n.
        """
        if self.cap is not None or not 1 <= k <= self.n.min():
            raise InputError(
                f"leak@k needs k of 1 to {self.n.min()} draws, all of a fixed number, got k={k}. "
                "Draw more, and stop at no claim."
            )
        return self._bound(stats.leak_at(k).mean())


class Stopping:
    """Draws of samples as they come, each sample until a claim about it is decided.

    They come in any order, short outputs first, so only those are read that have no gap before
    them, and of a sample that is decided later ones do not count. NaN is a draw without a score.

    Attributes:
        looks: the claim, the most draws of a sample, and the confidence.
        decided: how many draws decided each sample that stopped, by its id.
    """

    def __init__(self, looks: stats.Looks, samples: Iterable[str]) -> None:
        self.looks = looks
        self._came: dict[str, dict[int, float]] = {id: {} for id in samples}
        self._next = dict.fromkeys(self._came, looks.first)
        self.decided: dict[str, int] = {}

    def n(self, id: str) -> int:
        """How many draws of a sample count."""
        return self.decided.get(id, self.looks.cap)

    @property
    def counted(self) -> dict[str, list[float]]:
        """The scores of the draws that count, by sample."""
        return {
            id: [came[i] for i in sorted(came) if i <= self.n(id)]
            for id, came in self._came.items()
        }

    def take(self, id: str, i: int, score: float) -> None:
        """Take the i-th draw of a sample, from 1 on, and look whether the sample is decided."""
        came = self._came[id]
        came[i] = score
        while id not in self.decided and (look := self._next[id]) < self.looks.cap:
            if any(j not in came for j in range(1, look + 1)):
                return
            drawn = np.array([came[j] for j in range(1, look + 1)])
            scores, missing = drawn[~np.isnan(drawn)], int(np.isnan(drawn).sum())
            rows = stats.Rows.of(scores, missing=missing)
            if self.looks.decide(rows, seed=0).item() != "open":
                self.decided[id] = look
            self._next[id] = int(self.looks.next_look(rows).item())
