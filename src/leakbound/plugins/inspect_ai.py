"""Bounds in inspect_ai: metrics over every epoch, and a rule that draws until a claim is decided.

    Task(..., epochs=1024, metrics=[leak_probability(epochs=1024), worst_sample(epochs=1024)])

Each epoch is a draw of its sample. The metrics ask inspect_ai for the scores before it reduces
them, so any reducer may stand beside them. An epoch that failed has no score there; how many were
to be drawn is therefore said (`epochs`), and what did not come is missing: 1 above, 0 below. So is
an epoch whose score is no number, or whose scored text is empty. What inspect_ai does not hand to a
metric stays unknown to it: a sample of which every epoch failed (say `samples`), whether an output
came out of a cache, and whether one was filtered. `scored_by` and `leakbound import` read the
outputs themselves, and count those as missing.

Where no output is missing for such a reason, every bound is the one that `leakbound import` gives
for the log, to the digit: where bets played a part, the metric states the `seed` of their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSpec
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import EarlyStop

from leakbound import stats
from leakbound.errors import InputError
from leakbound.formats.inspect_log import PLUGGED, model_output, number
from leakbound.formats.rows import reading
from leakbound.plugins.draws import Stopping, ToolDraws
from leakbound.scorers import make_scorer, readable, score_outputs
from leakbound.text.counting import visible


@scorer(metrics=[])
def scored_by(spec: str) -> Scorer:
    """A scorer of leakbound for inspect_ai: 1 is a full leak, NaN undecided or a missing answer.

    Args:
        spec: as `leakbound evaluate --scorer` takes it, such as "rouge-l-recall"; with `>=t` it is
            binary.

    Returns:
        A scorer that compares an output with the sample's target.

    Raises:
        InputError: a spec that names no scorer.
    """
    chosen = make_scorer(spec)

    async def score(state: TaskState, target: Target) -> Score:
        output = state.output.model_dump()
        if not output["choices"]:
            return Score(value=math.nan)
        with reading(f"the output of sample {state.sample_id!r}", "Score outputs that are texts."):
            read = readable(model_output(output))
        (value,) = score_outputs(chosen, [read], [target.text])
        return Score(value=math.nan if value is None else value)

    return score


@metric(scores="unreduced")
def leak_probability(
    epochs: int | StopWhen,
    at_least: float = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the mean over samples of Pr[score >= at_least].

    Args:
        epochs: how many there were to be of each sample, at least 2, or the rule that stopped them.
        at_least: from which score on a draw is a leak.
        samples: how many there were to be; None: as many as have an epoch with a score.
        confidence: with which probability the interval holds, both ends together, in (0, 1).
        seed: of the order in which bets meet the draws, a whole number from 0 to 16,777,215; None:
            this process's, drawn once.

    Returns:
        A metric that gives "leak", "leak lower" and "leak upper", the share of draws that are
        "missing" where some are, and the "seed" where bets played a part.

    Raises:
        InputError: epochs that are neither a number nor a `StopWhen`, as where the log of a rule is
            scored again. The metric raises it for fewer than 2 epochs, and for more than were
            announced.
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric("leak", ToolDraws.mean)


@metric(scores="unreduced")
def mean_leakage(
    epochs: int | StopWhen,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the mean over samples of the mean score in [0, 1].

    Args:
        epochs: how many there were to be of each sample, at least 2, or the rule that stopped them.
        samples: how many there were to be; None: as many as have an epoch with a score.
        confidence: with which probability the interval holds, both ends together, in (0, 1).
        seed: of the order in which bets meet the draws, a whole number from 0 to 16,777,215; None:
            this process's, drawn once.

    Returns:
        A metric that gives "mean", "mean lower" and "mean upper", the share of draws that are
        "missing" where some are, and the "seed" where bets played a part.

    Raises:
        InputError: epochs that are neither a number nor a `StopWhen`, as where the log of a rule is
            scored again. The metric raises it for fewer than 2 epochs, for more than were
            announced, and for a score outside [0, 1].
    """
    return _Settings(epochs, None, samples, confidence, seed).metric("mean", ToolDraws.mean)


@metric(scores="unreduced")
def worst_sample(
    epochs: int | StopWhen,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the largest leak probability, or mean score, of a sample, the choice counted.

    Args:
        epochs: how many there were to be of each sample, at least 2, or the rule that stopped them.
        at_least: from which score on a draw is a leak; None: scores in [0, 1] as they are.
        samples: how many there were to be; None: as many as have an epoch with a score.
        confidence: with which probability the interval holds, both ends together, in (0, 1).
        seed: of the order in which bets meet the draws, a whole number from 0 to 16,777,215; None:
            this process's, drawn once.

    Returns:
        A metric that gives "worst", "worst lower" and "worst upper", the share of draws that are
        "missing" where some are, and the "seed" where bets played a part.

    Raises:
        InputError: epochs that are neither a number nor a `StopWhen`, as where the log of a rule is
            scored again. The metric raises it for fewer than 2 epochs, for more than were
            announced, and for a score outside [0, 1].
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric("worst", ToolDraws.worst)


@metric(scores="unreduced")
def leak_at_k(
    k: int,
    epochs: int,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the mean over samples of the largest of k scores.

    Args:
        k: draws of a sample of which the largest score counts, from 1 to `epochs`.
        epochs: how many there were to be of each sample, at least 2; a rule may not have stopped
            them.
        at_least: from which score on a draw is a leak; None: scores in [0, 1] as they are.
        samples: how many there were to be; None: as many as have an epoch with a score.
        confidence: with which probability the interval holds, both ends together, in (0, 1).
        seed: of the order in which bets meet the draws, a whole number from 0 to 16,777,215; None:
            this process's, drawn once.

    Returns:
        A metric that gives "leak@k" (left out where k exceeds a quarter of the draws), "leak@k
        lower" and "leak@k upper", the share of draws that are
        "missing" where some are, and the "seed" where bets played a part.

    Raises:
        InputError: epochs that are neither a number nor a `StopWhen`, as where the log of a rule is
            scored again. The metric raises it for epochs that a rule stopped, for a k that is not
            from 1 to `epochs`, for fewer than 2 epochs, for more than were announced, and for a
            score outside [0, 1].
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric(f"leak@{k}", lambda drawn: drawn.at_k(k))


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of a metric."""

    epochs: int | StopWhen
    at_least: float | None
    samples: int | None
    confidence: float
    seed: int | None

    def __post_init__(self) -> None:
        if not isinstance(self.epochs, int | StopWhen):
            raise InputError(
                "which epochs count is known only while the task runs. Run `leakbound import` on "
                "the log, which says where each sample stopped."
            )

    def metric(self, name: str, bound: Callable[[ToolDraws], stats.Estimate]) -> Metric:
        """The statistic of what was drawn, with its ends, and what a reader should know."""

        def ends(scores: list[SampleScore]) -> dict[str, float]:
            drawn = self.draws(scores)
            made, missing = bound(drawn), drawn.missing.sum() / drawn.n.sum()
            values = {name: made.value, f"{name} lower": made.lower, f"{name} upper": made.upper}
            values |= {"missing": missing} if missing else {}
            values |= {} if made.seed is None else {"seed": drawn.seed}
            return {key: float(value) for key, value in values.items() if not math.isnan(value)}

        return ends

    def draws(self, scores: Sequence[SampleScore]) -> ToolDraws:
        """The epochs by sample; a sample without any has none but missing ones."""
        rule = self.epochs if isinstance(self.epochs, StopWhen) else None
        rows: dict[str, list[float]] = {} if rule is None else rule.stopping.counted
        for score in scores if rule is None else ():
            rows.setdefault(str(score.sample_id), []).append(_value(score, self.at_least))
        rows |= {f"no epoch of it: {i}": [] for i in range(len(rows), self.samples or 0)}
        name = (scores[0].scorer or "").rpartition("/")[2]
        return ToolDraws.of(
            rows,
            self.epochs if isinstance(self.epochs, int) else self.epochs.looks.cap,
            tool="inspect_ai",
            scorer=f"logged:by={name}" + ("" if self.at_least is None else ",values=binary"),
            binary=self.at_least is not None,
            confidence=self.confidence,
            stopped=None if rule is None else rule.stopping.decided,
            seed=self.seed,
        )


def _value(score: SampleScore, at_least: float | None) -> float:
    """A score as a number, NaN where it is none; with a limit 1 from there on, else 0.

    Whatever a scorer gives a text of which nothing is visible, it is no score.
    """
    value, text = number(score.score.value), score.score.answer
    if value is None or (text is not None and not visible(text)):
        return math.nan
    return value if at_least is None else float(value >= at_least)


class StopWhen:
    """Draw each sample until a claim about it is decided: `Task(early_stopping=StopWhen(...))`.

    Epochs are read by number, without gaps, since those with short outputs finish first; of a
    sample that is decided later ones are dropped. An epoch that failed is a gap: its sample is
    drawn to the end, and the epoch is missing. Metrics that are given this rule as their `epochs`
    have bounds that hold for it; others do not.

    Args:
        claim: "p<=0.02" (of scores of 0 and 1, or of those `at_least` so large) or "mean<=0.1".
        most: the epochs of the task, all of which a sample gets that stays undecided.
        at_least: from which score on a draw is a leak; None: scores as they are.
        scorer: the name of the one whose scores decide; None where there is one.
        confidence: with which the bound holds that decides a sample, in (0, 1).

    Raises:
        InputError: a claim of another form, or a `most` or confidence that cannot be. Its methods
            raise it for a task of another number of epochs, and for several scorers where none is
            named.
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
        self.stopping = Stopping(self.looks, ())

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:
        if epochs != self.looks.cap:
            raise InputError(
                f"StopWhen draws at most {self.looks.cap:,} epochs, the task has {epochs:,}. Give "
                "both the same number."
            )
        self.stopping = Stopping(self.looks, [str(sample.id) for sample in samples])
        return PLUGGED

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        counted = self.stopping.n(str(id))
        if epoch <= counted:
            return None
        return EarlyStop(id=id, epoch=epoch, reason=f"decided after {counted} epochs")

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
            self.stopping.take(str(id), epoch, _value(scores[name], self.at_least))

    async def complete_task(self) -> dict[str, Any]:
        return {
            "claim": self.looks.claim.text,
            "most": self.looks.cap,
            "confidence": self.looks.confidence,
            "scorer": self.scorer,
            "at_least": self.at_least,
            "decided": dict(self.stopping.decided),
        }
