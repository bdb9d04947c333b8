"""`About`: the quantity of an estimate as data, and the words made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Quantity = str
"""A reading of `stats.THEOREMS`, or one of `OTHERS`."""
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
        quantity: of the score X of a completion: Pr[X > 0] of a binary scorer ("leak probability"),
            E[X] ("mean leakage"), Pr[X > x] ("tail"), the expected largest of k ("leak@k"), mean +
            rho standard deviations ("expectation deviation"); a claim is 1 if true and 0 if false;
            "effect" is the root mean square change of the mean by one knob of the decoding; "in the
            answer", "in the thought" and "in either" name a part of the outputs; "randomisation
            p-value" is the probability that a coin puts the taught as far ahead if teaching changed
            nothing.
        scope: one query, one question (in several queries), the mean over the questions, the
            largest over them, the count of those above `parameter`, the mean under the decoding, or
            under the stress, of several that leaks most, how the cells of a grid of decodings vary,
            or two halves of subjects, chosen by a coin.
        inputs: the inputs of a question: its own words; one of these queries at random; the query
            that leaks most; inputs of the distribution; the words and the decoding that a search
            found.
        beyond: the reference that is subtracted: the control, the question's own words, the
            baseline model of a comparison, the model under no stress, or other questions in the
            same model; None: nothing.
        parameter: the x of a tail, the k of leak@k, the x above which questions are counted (None:
            0); several values form the last axis of the estimate.
        constant: another fixed number: the rho of an expectation deviation, the limit of a claim,
            the x or k of a quantity by which questions are counted.
        over: the number of queries, questions, cells or subjects; one per entry if questions
            differ.
        knob: the decoding parameter of an effect.
        seeds: the number of models, each trained from its own seed, over which it is the median;
            None: one model.
        jointly: whether all entries are valid simultaneously at the confidence, not only
            individually.
        proved: whether outputs of known probability prove it, without draws.
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
        """Return the quantity's name: 'Pr[X > 0.1]', 'leak@k', 'mean + 2 standard deviations'."""
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
        """Return the quantity with its scope: 'excess leak probability, largest of 12'."""
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
        """Return the target: 'the mean over these questions under this decoding'."""
        if self.seeds is not None:
            return f"the median over training seeds of {replace(self, seeds=None).target}"
        if self.scope == "grid":
            return f"the grid of {self.over} decodings"
        beyond = f", {BEYOND[self.beyond]}" if self.beyond is not None else ""
        if self.scope in ("query", "question"):
            every = f"{_EVERY}, " if self.jointly else f"{self._subject} "
            decoding = "the decoding found" if self.inputs == "as found" else "this decoding"
            return f"{every}under {decoding}{beyond}"
        queries = f", {_ASKED[self.inputs]}" if self.inputs in _ASKED else ""
        return f"{self._subject} {self._under}{queries}{beyond}"

    @property
    def claimed(self) -> str:
        """Return the claim as `parse_claim` reads it: 'p<=0.02'."""
        return f"{_CLAIMED[self.quantity]}<={self.constant}"

    def at(self, i: int, j: int | None = None) -> About:
        """Return the quantity of one entry of several queries or questions.

        Args:
            i: the entry's place on the first axis.
            j: its place on the axis of the parameters; None: all of them.

        Returns:
            The same, with the `over` of entry i and, given j, that parameter.
        """
        over = self.over[i] if isinstance(self.over, tuple) else self.over
        parameter = self.parameter
        if j is not None and isinstance(parameter, tuple):
            parameter = parameter[j]
        return replace(self, over=over, parameter=parameter)

    def counted(self, above: float | tuple[float, ...] | None, questions: int) -> About:
        """Return the quantity of a count of the questions that have this quantity above a number.

        Args:
            above: the number, or several.
            questions: the number of questions.

        Returns:
            The same in the scope "count"; the x or k of this quantity is its `constant`.
        """
        own = self.constant if self._own is None else self._own
        constant = None if isinstance(own, tuple) else own
        return replace(self, scope="count", parameter=above, constant=constant, over=questions)

    def to_dict(self) -> dict[str, object]:
        """Return every field as JSON values."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @property
    def _own(self) -> float | tuple[float, ...] | None:
        """Return the x or k of the quantity itself."""
        return self.constant if self.scope == "count" else self.parameter

    @property
    def _level(self) -> str:
        if self.parameter is None:
            return "0"
        return "x" if isinstance(self.parameter, tuple) else f"{self.parameter:g}"

    @property
    def _under(self) -> str:
        """Name the decoding of all questions."""
        if self.scope == "most-leaking decoding":
            return "under the decoding that leaks most"
        if self.scope == "most-leaking stress":
            return f"under that of {self.over} stresses under which it leaks most"
        if self.inputs == "as found":
            return "under the decodings found"
        if " in " in self.quantity:
            return "under this decoding, jointly in answer, thought and either"
        return "under every decoding, jointly" if self.jointly else "under this decoding"

    @property
    def _subject(self) -> str:
        if self.scope == "question":
            number = f"{self.over} " if isinstance(self.over, int) else ""
            return _QUESTION[self.inputs].format(number=number)
        if self.scope == "query":
            return _QUESTION["as found"] if self.inputs == "as found" else "this query"
        return _SUBJECT[self.scope].format(over=self.over)


def parameter_of(points: npt.ArrayLike) -> float | tuple[float, ...]:
    """Return one x or k, or several, as `About.parameter` stores them."""
    values: float | list[float] = np.asarray(points, dtype=np.float64).tolist()
    return tuple(values) if isinstance(values, list) else values


BEYOND: Mapping[Beyond, str] = {
    "control": "beyond the control",
    "own words": "beyond the question's own words",
    "baseline": "beyond the baseline",
    "unstressed": "beyond what it leaks under no stress",
    "other questions": "beyond that of other questions, in the same model",
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
_EVERY = "every one of these questions, jointly"
_SUBJECT: Mapping[Scope, str] = {
    "mean": "the mean over these questions",
    "weighted mean": "the weighted mean over these questions",
    "worst question": "the worst of these questions",
    "count": "the number among these {over} questions,",
    "most-leaking decoding": "the mean over these questions",
    "most-leaking stress": "the mean over these questions",
    "halves": "these and the control questions, on two sides of a coin over {over} subjects,",
}
_QUESTION: Mapping[Inputs, str] = {
    "as asked": "this question",
    "these queries": "a completion of these {number}queries",
    "worst query": "the worst of these {number}queries",
    "input distribution": "a completion over the input distribution",
    "as found": "the query found for this question,",
}
_ASKED: Mapping[Inputs, str] = {
    "these queries": "asked in all their queries",
    "worst query": "each asked in its worst query",
    "input distribution": "over the input distribution",
    "as found": "asked the queries found",
}
