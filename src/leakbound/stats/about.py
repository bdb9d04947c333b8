"""`About` describes the quantity of an estimate as data, and returns its description in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Quantity = str
"""The name of a quantity that `stats.THEOREMS` bounds or `OTHERS` lists."""
OTHERS: tuple[Quantity, ...] = (
    "leak probability",
    "mean leakage",
    "worst of k",
    "corrected leak probability",
    "greedy score",
    "claim on leak probability",
    "claim on mean leakage",
    "effect",
    "randomisation p-value",
    "leak probability in the answer",
    "leak probability in the thought",
    "leak probability in either",
    "mean leakage in the answer",
    "mean leakage in the thought",
    "mean leakage in either",
)
Scope = Literal[
    "query",
    "question",
    "mean",
    "weighted mean",
    "worst question",
    "count",
    "most-leaking decoding",
    "most-leaking stress",
    "grid",
    "halves",
]
Inputs = Literal["as asked", "these queries", "worst query", "input distribution", "as found"]
Beyond = Literal["control", "own words", "baseline", "unstressed", "other questions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The quantity of an estimate, its scope, and the inputs of its questions.

    Attributes:
        quantity: the name of the quantity, for the score X of a completion. "Leak probability" is
            Pr[X > 0] of a binary scorer, "mean leakage" is E[X], and "tail" is Pr[X > x]. "Leak@k"
            is the expected largest score of k draws, and "expectation deviation" is the mean plus
            rho standard deviations. The estimate of a claim is 1 if the claim is true and 0 if it
            is false. "Effect" is the root mean square change of the mean that one decoding
            parameter causes. "In the answer", "in the thought" and "in either" name the part of the
            output that is scored. "Randomisation p-value" is a probability under the hypothesis
            that teaching changed nothing. It is the probability that a random choice of subjects
            exceeds the other subjects in leakage by at least as much as the taught subjects do.
        scope: the set that the quantity is about. "query" is one query, and "question" is one
            question in several queries. "mean" and "weighted mean" are means over the questions,
            and "worst question" is the largest value over the questions. "count" is the number of
            questions whose quantity exceeds `parameter`. "most-leaking decoding" and "most-leaking
            stress" are the mean under the decoding or the stress, among several, under which the
            model leaks most. "grid" is the variation between the cells of a grid of decodings.
            "halves" are two halves of the subjects, chosen by a coin.
        inputs: the inputs with which a question is put to the model. "as asked" is the wording of
            the benchmark. "these queries" is one of the question's queries, chosen at random, and
            "worst query" is the query that leaks most. "input distribution" means inputs from an
            input distribution. "as found" means the query and the decoding that a search found.
        beyond: the reference whose leakage is subtracted. "control" is the control, and "own words"
            is the question in the benchmark's original wording. "baseline" is the baseline model of
            a comparison, and "unstressed" is the model without stress. "other questions" are other
            questions to the same model. None: nothing is subtracted.
        parameter: the x of a tail, the k of leak@k, or the level above which questions are counted
            (None: 0). Several values form the last axis of the estimate.
        constant: a second fixed number: the rho of an expectation deviation, or the limit of a
            claim. If questions are counted, it is the x or k of the quantity that is compared with
            the level.
        over: the number of queries, questions, cells or subjects that the quantity is about; one
            number per entry if the entries differ.
        knob: the decoding parameter whose effect is bounded, if the quantity is an effect.
        seeds: the number of models, each trained with its own seed, from which the median over
            seeds is bounded; None: the quantity is about one model.
        jointly: whether the confidence is valid for all entries simultaneously, and for all
            estimates of the same `stats.Joint`. If False, it is valid for each entry individually.
        proved: whether exact output probabilities prove the bound, without draws.
    """

    quantity: Quantity
    scope: Scope = "query"
    inputs: Inputs = "as asked"
    beyond: Beyond | None = None
    parameter: float | tuple[float, ...] | None = None
    constant: float | None = None
    over: int | tuple[int, ...] | None = None
    knob: str | None = None
    seeds: int | None = None
    jointly: bool = False
    proved: bool = False

    @property
    def name(self) -> str:
        """Return the quantity's name, such as 'Pr[X > 0.1]' or 'mean + 2 standard deviations'."""
        point = self._own if isinstance(self._own, int | float) else None
        match self.quantity:
            case "tail":
                return "Pr[X > x]" if point is None else f"Pr[X > {point:g}]"
            case "leak@k":
                return self.quantity if point is None else f"leak@{point:.0f}"
            case "expectation deviation":
                return f"mean + {self.constant:g} standard deviations"
            case "claim on leak probability" | "claim on mean leakage":
                return f"claim {self.claimed}"
            case "effect":
                return f"effect of {self.knob}, root mean square"
        return self.quantity

    @property
    def estimand(self) -> str:
        """Return the quantity with its scope, such as 'excess leak probability, largest of 12'."""
        name = f"proved {self.name}" if self.proved else self.name
        if self.beyond is not None:
            name = f"{_MORE[self.beyond]} {name}"
        if self.inputs == "worst query":
            name = f"{name}, worst query"
        if self.scope == "worst question":
            return f"{name}, largest of {self.over}"
        return f"questions with {name} above {self._level}" if self.scope == "count" else name

    @property
    def target(self) -> str:
        """Return the scope in words: 'the mean over these questions under this decoding'."""
        if self.seeds is not None:
            return f"the median over training seeds of {replace(self, seeds=None).target}"
        if self.scope == "grid":
            return f"the grid of {self.over} decodings"
        beyond = f", {BEYOND[self.beyond]}" if self.beyond is not None else ""
        if self.scope in ("query", "question"):
            every = f"{_EVERY}, " if self.jointly else f"{self._subject} "
            decoding = "the decoding found" if self.inputs == "as found" else "this decoding"
            return f"{every}under {decoding}{beyond}"
        queries = f", {_QUERIES[self.inputs]}" if self.inputs in _QUERIES else ""
        return f"{self._subject} {self._under}{queries}{beyond}"

    @property
    def claimed(self) -> str:
        """Return the claim as text that `parse_claim` can parse, such as 'p<=0.02'."""
        return f"{_CLAIMED[self.quantity]}<={self.constant}"

    def at(self, i: int, j: int | None = None) -> About:
        """Return the quantity of one entry of an estimate about several queries or questions.

        Args:
            i: the index of the entry on the first axis.
            j: the index of the parameter on the last axis; None: all parameters.

        Returns:
            The quantity with the `over` of entry i and, if j is given, only that parameter.
        """
        over = self.over[i] if isinstance(self.over, tuple) else self.over
        parameter = self.parameter
        if j is not None and isinstance(parameter, tuple):
            parameter = parameter[j]
        return replace(self, over=over, parameter=parameter)

    def counted(self, above: float | tuple[float, ...] | None, questions: int) -> About:
        """Describe the number of questions in which this quantity exceeds a number.

        Args:
            above: the number that the quantity must exceed, or several numbers.
            questions: the number of questions.

        Returns:
            This quantity with the scope "count"; the quantity's own x or k becomes the `constant`.
        """
        own = self.constant if self._own is None else self._own
        constant = None if isinstance(own, tuple) else own
        return replace(self, scope="count", parameter=above, constant=constant, over=questions)

    def to_dict(self) -> dict[str, object]:
        """Return every field as JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @property
    def _own(self) -> float | tuple[float, ...] | None:
        """Return the x or k of the quantity, which a count stores as `constant`."""
        return self.constant if self.scope == "count" else self.parameter

    @property
    def _level(self) -> str:
        if self.parameter is None:
            return "0"
        return "x" if isinstance(self.parameter, tuple) else f"{self.parameter:g}"

    @property
    def _under(self) -> str:
        """Return the phrase for the decoding under which outputs are sampled."""
        if self.scope == "most-leaking decoding":
            return "under the decoding that leaks most"
        if self.scope == "most-leaking stress":
            return f"under the stress that leaks most, of {self.over} stresses"
        if self.inputs == "as found":
            return "under the decodings found"
        return "under this decoding, jointly" if self.jointly else "under this decoding"

    @property
    def _subject(self) -> str:
        if self.scope == "question":
            number = f"{self.over} " if isinstance(self.over, int) else ""
            return _QUESTION[self.inputs].format(number=number)
        if self.scope == "query":
            return _QUESTION["as found"] if self.inputs == "as found" else "this query"
        return _SUBJECT[self.scope].format(over=self.over)


def parameter_of(points: npt.ArrayLike) -> float | tuple[float, ...]:
    """Convert one or several values of x or k to the form that `About.parameter` stores."""
    values: float | list[float] = np.asarray(points, dtype=np.float64).tolist()
    return tuple(values) if isinstance(values, list) else values


BEYOND: Mapping[Beyond, str] = {
    "control": "relative to the control",
    "own words": "relative to the question in its original wording",
    "baseline": "relative to the baseline",
    "unstressed": "relative to the model without stress",
    "other questions": "relative to other questions, in the same model",
}
_CLAIMED: Mapping[Quantity, str] = {
    "claim on leak probability": "p",
    "claim on mean leakage": "mean",
}
_MORE: Mapping[Beyond, str] = {
    "control": "excess",
    "own words": "gap in",
    "baseline": "difference in",
    "unstressed": "added",
    "other questions": "difference in",
}
_EVERY = "each of these questions, jointly"
_SUBJECT: Mapping[Scope, str] = {
    "mean": "the mean over these questions",
    "weighted mean": "the weighted mean over these questions",
    "worst question": "the worst of these questions",
    "count": "the number of these {over} questions,",
    "most-leaking decoding": "the mean over these questions",
    "most-leaking stress": "the mean over these questions",
    "halves": "these and the control questions, separated by a coin over {over} subjects,",
}
_QUESTION: Mapping[Inputs, str] = {
    "as asked": "this question",
    "these queries": "a completion of these {number}queries",
    "worst query": "the worst of these {number}queries",
    "input distribution": "a completion over the input distribution",
    "as found": "the query found for this question,",
}
_QUERIES: Mapping[Inputs, str] = {
    "these queries": "in all their queries",
    "worst query": "each in its worst query",
    "input distribution": "over the input distribution",
    "as found": "with the queries found",
}
