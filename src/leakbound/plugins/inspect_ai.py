"""Bounds in inspect_ai: metrics over every epoch, and a rule that draws until a claim is decided.

    Task(..., epochs=1024, metrics=[leak_probability(epochs=1024), worst_sample(epochs=1024)])

Each epoch is a draw of its sample. The metrics ask inspect_ai for the scores before it reduces
them, so any reducer may stand beside them. An epoch that failed has no score there; how many were
to be drawn is therefore said (`epochs`), and what did not come is missing: 1 above, 0 below. So is
an epoch whose score is no number. What inspect_ai does not hand to a metric stays unknown to it: a
sample of which every epoch failed (say `samples`), and whether an output came out of a cache.

Bounds of a leak probability of one sample, the worst sample and stopped ones are those that
`leakbound import` gives for the log, to the digit. Bets meet the draws of a sample in a random
order, which is drawn once a process: means over samples differ from an import's in the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSpec
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import EarlyStop

from leakbound import stats
from leakbound.errors import InputError
from leakbound.formats.inspect_log import PLUGGED, number
from leakbound.plugins.draws import ToolDraws
from leakbound.scorers import make_scorer, score_texts


@scorer(metrics=[])
def scored_by(spec: str) -> Scorer:
    """A scorer of leakbound by its spec, "rouge-l-recall": 1 is a full leak, NaN undecided."""
    chosen = make_scorer(spec)

    async def score(state: TaskState, target: Target) -> Score:
        (value,) = score_texts(chosen, [state.output.completion], target.text)
        return Score(value=math.nan if value is None else value)

    return score


@metric(scores="unreduced")
def leak_probability(
    epochs: int,
    at_least: float = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    stopped: StopWhen | None = None,
) -> Metric:
    """The mean over samples of Pr[score >= at_least], with ends that hold at `confidence`."""
    return _metric("leak", ToolDraws.mean, _Asked(epochs, at_least, samples, confidence, stopped))


@metric(scores="unreduced")
def mean_leakage(
    epochs: int,
    samples: int | None = None,
    confidence: float = 0.99,
    stopped: StopWhen | None = None,
) -> Metric:
    """The mean over samples of the mean score in [0, 1], with ends that hold at `confidence`."""
    return _metric("mean", ToolDraws.mean, _Asked(epochs, None, samples, confidence, stopped))


@metric(scores="unreduced")
def worst_sample(
    epochs: int,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    stopped: StopWhen | None = None,
) -> Metric:
    """The largest leak probability of a sample, the choice counted; at_least=None: mean score."""
    return _metric("worst", ToolDraws.worst, _Asked(epochs, at_least, samples, confidence, stopped))


@metric(scores="unreduced")
def leak_at_k(
    k: int,
    epochs: int,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
) -> Metric:
    """The mean over samples of the largest of k scores, with ends that hold at `confidence`."""
    asked = _Asked(epochs, at_least, samples, confidence, None)
    return _metric(f"leak@{k}", lambda drawn: drawn.at_k(k), asked)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a metric was asked for."""

    epochs: int
    at_least: float | None
    samples: int | None
    confidence: float
    stopped: StopWhen | None

    def __post_init__(self) -> None:
        if self.stopped is not None and not isinstance(self.stopped, StopWhen):
            raise InputError(
                "which epochs count is known only while the task runs. Run `leakbound import` on "
                "the log, which says where each sample stopped."
            )

    def draws(self, scores: Sequence[SampleScore]) -> ToolDraws:
        """The epochs by sample; a sample without any has none but missing ones."""
        rows: dict[str, list[float]] = {}
        for one in scores:
            rows.setdefault(str(one.sample_id), []).append(_value(one, self.at_least))
        if self.stopped is not None:
            rows = self.stopped.counted
        rows |= {f"no epoch of it: {i}": [] for i in range(len(rows), self.samples or 0)}
        name = (scores[0].scorer or "").rpartition("/")[2]
        return ToolDraws.of(
            rows,
            self.epochs,
            tool="inspect_ai",
            scorer=f"logged:by={name}" + ("" if self.at_least is None else ",values=binary"),
            binary=self.at_least is not None,
            confidence=self.confidence,
            stopped=None if self.stopped is None else self.stopped.decided,
        )


def _metric(name: str, bound: Callable[[ToolDraws], stats.Estimate], asked: _Asked) -> Metric:
    def ends(scores: list[SampleScore]) -> dict[str, float]:
        drawn = asked.draws(scores)
        made, missing = bound(drawn), drawn.missing.sum() / drawn.n.sum()
        found = {name: made.value, f"{name} lower": made.lower, f"{name} upper": made.upper}
        return {k: float(v) for k, v in (found | ({"missing": missing} if missing else {})).items()}

    return ends


def _value(one: SampleScore, at_least: float | None) -> float:
    """A score as a number, NaN where it is none; with a limit 1 from there on, else 0."""
    found = number(one.score.value)
    if found is None:
        return math.nan
    return found if at_least is None else float(found >= at_least)


class StopWhen:
    """Draw each sample until a claim about it is decided: `Task(early_stopping=StopWhen(...))`.

    claim: "p<=0.02" (of scores of 0 and 1, or of those `at_least` so large) or "mean<=0.1".
    most: the epochs of the task, all of which a sample gets that stays undecided.
    scorer: whose scores decide; None where there is one.

    Epochs finish in any order, short outputs first, so only those are read that have no gap before
    them, and of a sample that is decided later ones are dropped. An epoch that failed is a gap: its
    sample is drawn to the end, and the epoch is missing. Metrics that are given this rule as
    `stopped` have bounds that hold for it; others do not.
    """

    def __init__(
        self,
        claim: str,
        most: int,
        *,
        at_least: float | None = None,
        scorer: str | None = None,
        confidence: float = 0.99,
    ) -> None:
        self.looks = stats.Looks(stats.parse_claim(claim), most, confidence)
        self.at_least, self.scorer = at_least, scorer
        self._came: dict[str, dict[int, float]] = {}
        self._look: dict[str, int] = {}
        self.decided: dict[str, int] = {}

    def n(self, id: str) -> int:
        """How many epochs of a sample count."""
        return self.decided.get(id, self.looks.cap)

    @property
    def counted(self) -> dict[str, list[float]]:
        """The scores of the epochs that count, by sample."""
        return {
            id: [came[epoch] for epoch in sorted(came) if epoch <= self.n(id)]
            for id, came in self._came.items()
        }

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:
        if epochs != self.looks.cap:
            raise InputError(
                f"StopWhen draws at most {self.looks.cap:,} epochs, the task has {epochs:,}. Give "
                "both the same number."
            )
        self._came = {str(sample.id): {} for sample in samples}
        self._look = dict.fromkeys(self._came, self.looks.first)
        self.decided = {}
        return PLUGGED

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        if epoch <= self.n(str(id)):
            return None
        return EarlyStop(id=id, epoch=epoch, reason=f"decided after {self.n(str(id))} epochs")

    async def complete_sample(
        self, id: str | int, epoch: int, scores: Mapping[str, SampleScore]
    ) -> None:
        if self.scorer is None and len(scores) > 1:
            raise InputError(
                f"StopWhen follows one scorer, the task has {', '.join(scores)}. Name it: "
                "StopWhen(..., scorer=NAME)."
            )
        name = self.scorer or next(iter(scores), "")
        if name in scores:
            self._came[str(id)][epoch] = _value(scores[name], self.at_least)
            self._decide(str(id))

    def _decide(self, id: str) -> None:
        came = self._came[id]
        while id not in self.decided and (look := self._look[id]) < self.looks.cap:
            if any(epoch not in came for epoch in range(1, look + 1)):
                return
            drawn = np.array([came[epoch] for epoch in range(1, look + 1)])
            known, missing = drawn[~np.isnan(drawn)], int(np.isnan(drawn).sum())
            if self.looks.decide(known, missing=missing, seed=0).item() != "open":
                self.decided[id] = look
            self._look[id] = int(self.looks.next_look(known, missing=missing).item())

    async def complete_task(self) -> dict[str, Any]:
        return {
            "claim": self.looks.claim.text,
            "most": self.looks.cap,
            "confidence": self.looks.confidence,
            "scorer": self.scorer,
            "at_least": self.at_least,
            "decided": dict(self.decided),
        }
