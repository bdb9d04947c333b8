"""Bounds in inspect_ai: metrics over all epochs, and a rule that draws until a claim is decided.

    Task(..., epochs=1024, metrics=[leak_probability(epochs=1024), worst_sample(epochs=1024)])

Each epoch is a draw of its sample. The metrics get the scores before inspect_ai reduces them, so
they work with any reducer. inspect_ai passes no score for a failed epoch, so the setting `epochs`
must be the planned number. A planned epoch without a score is missing, so it counts as 1 in upper
bounds and as 0 in lower bounds. An epoch is also missing if its score is not a number, or if its
scored text is empty.

A metric gets no data about a sample whose epochs all failed, so pass the number of `samples`. A
metric also cannot detect whether an output came from a cache or was filtered. `scored_by` and
`leakbound import` inspect the outputs, and count cached and filtered outputs as missing. If no
output was cached or filtered, `leakbound import` computes exactly the same bounds from the log. If
betting bounds were used, the metric reports the `seed` of the order in which they process the
draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSpec
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import EarlyStop

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.errors import InputError
from leakbound.formats.inspect_log import PLUGGED, model_output, number
from leakbound.formats.rows import reading
from leakbound.plugins.draws import Stopping, drawn_by_tool, seed_of
from leakbound.scorers import make_scorer, readable, score_outputs
from leakbound.text.counting import visible


@scorer(metrics=[])
def scored_by(spec: str) -> Scorer:
    """Return a leakbound scorer for inspect_ai; 1 is a full leak, NaN is undecided or missing.

    Args:
        spec: a spec for `leakbound evaluate --scorer`, such as "rouge-l-recall"; a suffix `>=t`
            makes the scores binary.

    Returns:
        A scorer that compares an output with the sample's target.

    Raises:
        InputError: for a spec of an unknown scorer.
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
        epochs: the planned number of epochs per sample, at least 2; or the `StopWhen` of the task.
        at_least: the smallest score that is a leak.
        samples: the planned number of samples; None: the number of samples with a scored epoch.
        confidence: the confidence of the two-sided interval, in (0, 1).
        seed: the seed of the order in which betting bounds process the draws, from 0 to
            16,777,215; None: the seed of this process, drawn once.

    Returns:
        A metric with "leak", "leak lower" and "leak upper", the fraction of draws that are
        "missing" if not 0, and the "seed" if bets were used.

    Raises:
        InputError: for epochs that are neither a number nor a `StopWhen`, for example if a log that
            was made with a `StopWhen` is scored again. The metric raises it for fewer than 2
            epochs, or more than planned.
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric("leak", stats.LEAKAGE.mean())


@metric(scores="unreduced")
def mean_leakage(
    epochs: int | StopWhen,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the mean over samples of the mean score in [0, 1].

    Args:
        epochs: the planned number of epochs per sample, at least 2; or the `StopWhen` of the task.
        samples: the planned number of samples; None: the number of samples with a scored epoch.
        confidence: the confidence of the two-sided interval, in (0, 1).
        seed: the seed of the order in which betting bounds process the draws, from 0 to
            16,777,215; None: the seed of this process, drawn once.

    Returns:
        A metric with "mean", "mean lower" and "mean upper", the fraction of draws that are
        "missing" if not 0, and the "seed" if bets were used.

    Raises:
        InputError: for epochs that are neither a number nor a `StopWhen`, for example if a log that
            was made with a `StopWhen` is scored again. The metric raises it for fewer than 2
            epochs, more than planned, or a score outside [0, 1].
    """
    return _Settings(epochs, None, samples, confidence, seed).metric("mean", stats.LEAKAGE.mean())


@metric(scores="unreduced")
def worst_sample(
    epochs: int | StopWhen,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the largest leak probability (or mean score) of a sample, corrected for selection.

    Args:
        epochs: the planned number of epochs per sample, at least 2; or the `StopWhen` of the task.
        at_least: the smallest score that is a leak; None: scores in [0, 1] are used directly.
        samples: the planned number of samples; None: the number of samples with a scored epoch.
        confidence: the confidence of the two-sided interval, in (0, 1).
        seed: the seed of the order in which betting bounds process the draws, from 0 to
            16,777,215; None: the seed of this process, drawn once.

    Returns:
        A metric with "worst", "worst lower" and "worst upper", the fraction of draws that are
        "missing" if not 0, and the "seed" if bets were used.

    Raises:
        InputError: for epochs that are neither a number nor a `StopWhen`, for example if a log that
            was made with a `StopWhen` is scored again. The metric raises it for fewer than 2
            epochs, more than planned, or a score outside [0, 1].
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric("worst", stats.LEAKAGE.worst())


@metric(scores="unreduced")
def leak_at_k(
    k: int,
    epochs: int,
    at_least: float | None = 1.0,
    samples: int | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
) -> Metric:
    """Bound the mean over samples of leak@k, the expected largest of k scores.

    Args:
        k: the number of draws whose largest score counts, from 1 to `epochs`.
        epochs: the planned number of epochs per sample, at least 2; a task with a `StopWhen` is not
            allowed.
        at_least: the smallest score that is a leak; None: scores in [0, 1] are used directly.
        samples: the planned number of samples; None: the number of samples with a scored epoch.
        confidence: the confidence of the two-sided interval, in (0, 1).
        seed: the seed of the order in which betting bounds process the draws, from 0 to
            16,777,215; None: the seed of this process, drawn once.

    Returns:
        A metric with "leak@k" (unless k exceeds a quarter of the draws), "leak@k lower" and "leak@k
        upper", the fraction of draws that are "missing" if not 0, and the "seed" if bets were used.

    Raises:
        InputError: for epochs that are neither a number nor a `StopWhen`, for example if a log that
            was made with a `StopWhen` is scored again. The metric raises it for epochs that a rule
            stopped, a k that is not in [1, `epochs`], fewer than 2 epochs, more than planned, or a
            score outside [0, 1].
    """
    settings = _Settings(epochs, at_least, samples, confidence, seed)
    return settings.metric(f"leak@{k}", stats.leak_at(k).mean())


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
                "the number of epochs before each sample stopped is known only while the task "
                "runs. Run `leakbound import` on the log, which records it."
            )

    def metric(self, name: str, quantity: stats.Quantity) -> Metric:
        """Return the metric that bounds a quantity of the draws."""

        def bounds(scores: list[SampleScore]) -> dict[str, float]:
            drawn = self.draws(scores)
            made = drawn.bound(quantity, confidence=self.confidence, side="both")
            missing = drawn.draws.missing.sum() / drawn.draws.n.sum()
            values = {name: made.value, f"{name} lower": made.lower, f"{name} upper": made.upper}
            values |= {"missing": missing} if missing else {}
            values |= {} if made.seed is None else {"seed": seed_of(self.seed)}
            return {key: float(value) for key, value in values.items() if not math.isnan(value)}

        return bounds

    def draws(self, scores: Sequence[SampleScore]) -> Drawn:
        """Return the draws of each sample; a sample without scores has only missing epochs."""
        rule = self.epochs if isinstance(self.epochs, StopWhen) else None
        rows: dict[str, list[float]] = {} if rule is None else rule.stopping.counted
        for score in scores if rule is None else ():
            rows.setdefault(str(score.sample_id), []).append(_value(score, self.at_least))
        rows |= {f"sample without epochs: {i}": [] for i in range(len(rows), self.samples or 0)}
        name = (scores[0].scorer or "").rpartition("/")[2]
        return drawn_by_tool(
            rows,
            self.epochs if isinstance(self.epochs, int) else self.epochs.looks.cap,
            tool="inspect_ai",
            scorer=f"logged:by={name}" + ("" if self.at_least is None else ",values=binary"),
            binary=self.at_least is not None,
            stopped=None if rule is None else rule.stopping.decided,
            seed=self.seed,
        )


def _value(score: SampleScore, at_least: float | None) -> float:
    """Return a score as a number; with `at_least`, 1 if the score is at least this number, else 0.

    The result is NaN for a score that is not a number or whose text has no visible characters.
    """
    value, text = number(score.score.value), score.score.answer
    if value is None or (text is not None and not visible(text)):
        return math.nan
    return value if at_least is None else float(value >= at_least)


class StopWhen:
    """Draw each sample until a claim about it is decided: `Task(early_stopping=StopWhen(...))`.

    Epochs with short outputs finish first, so an epoch is used only when all epochs with smaller
    numbers have finished. After a decision the later epochs of a sample are dropped. After a failed
    epoch this sample cannot stop early: all its epochs are drawn, and the failed epoch is missing.
    Bounds are valid only for metrics that get this rule as their `epochs`.

    Args:
        claim: "p<=0.02" (of binary scores, or with `at_least`) or "mean<=0.1".
        most: the number of epochs of the task; a sample whose claim stays undecided gets all
            epochs.
        at_least: the smallest score that is a leak; None: scores are used directly.
        scorer: the name of the scorer that decides; None: the only scorer of the task.
        confidence: the confidence of the bound that decides a sample, in (0, 1).

    Raises:
        InputError: for a claim in a different form, or a `most` or confidence out of range. The
            methods raise InputError for a task whose number of epochs is not `most`, or with
            several scorers if `scorer` is None.
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
                f"StopWhen draws at most {self.looks.cap:,} epochs, but the task has {epochs:,}. "
                "Use the same number for both."
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
                f"StopWhen needs one scorer, but the task has {', '.join(scores)}. Choose one: "
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
