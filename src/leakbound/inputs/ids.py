"""Select rewritings by the model's confidence (IDS): Cheng et al. (2025), Algorithm 2.

A rewriting x is kept if the evaluated model answers it at least as confidently as the question q:
p_x >= p_q. Here p is the mean probability of m answers drawn for the text. There are three
departures from the paper. All probabilities are logarithms, because the probability of a sequence
of two hundred tokens underflows. For any decoding, p is computed from the complete T = 1 softmax
with the end token. There are two additional criteria, which the likeliest answer does not dominate.

p_q is estimated once, from one set of draws. So every statement about the kept inputs is
conditional on these draws. A bound from the same draws would be invalid, because these draws decide
which queries are kept. The draws for the selection have the key `SELECTION`, so scoring uses other
draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakbound.errors import IncompleteError, InputError
from leakbound.types import Completion, Query, Sample

Criterion = Literal["mean_prob", "mean_logprob", "mean_logprob_per_token"]

SELECTION = "selection"
"""The purpose of selection draws in the keys of `Draws`."""

DRAWS = 64
"""The default number of answers per text, m."""

SampleQueries = Callable[[Sequence[Query], int, int], Sequence[Sample]]
"""(queries, m, seed) -> one sample of m draws per query, in any order, for purpose SELECTION."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected queries of one prompt, with the values that decided the selection.

    `kept` has the question first, then the kept rewritings in their order. `values` has the value
    of the criterion for every query by id, including rejected queries. It is the natural log of p,
    or a mean log-probability.
    """

    prompt_id: str
    kept: tuple[Query, ...]
    values: Mapping[str, float]
    criterion: Criterion
    draws: int


def evidence(completions: Sequence[Completion], criterion: Criterion = "mean_prob") -> float:
    """Return the value of the criterion for one text, from its answers and their counts.

    `mean_prob`: log of the mean sequence probability, logsumexp(log count + logprob) - log m.
    `mean_logprob`: the mean log-probability. `mean_logprob_per_token`: the same mean, but each
    log-probability is divided by the answer's number of tokens, with the end token. Logarithms are
    natural.

    Raises InputError for answers without log-probabilities (or, for `mean_logprob_per_token`,
    without token ids).
    """
    if any(c.model_logprob is None for c in completions):
        raise InputError(
            "`ids` compares log-probabilities of answers, got an answer without a log-probability. "
            "Use another engine, or omit `ids`."
        )
    counts = np.array([c.count for c in completions], dtype=np.float64)
    logprobs = np.array([c.model_logprob for c in completions], dtype=np.float64)
    if criterion == "mean_prob":
        return float(np.logaddexp.reduce(np.log(counts) + logprobs) - np.log(counts.sum()))
    if criterion == "mean_logprob_per_token":
        if any(c.token_ids is None for c in completions):
            raise InputError(
                "criterion 'mean_logprob_per_token' counts tokens, got an answer without token "
                "ids. Use 'mean_prob' or 'mean_logprob'."
            )
        logprobs = logprobs / np.array([len(c.token_ids or ()) for c in completions])
    return float(counts @ logprobs / counts.sum())


def choose(samples: Sequence[Sample], criterion: Criterion = "mean_prob") -> Selection:
    """Apply Algorithm 2 to the samples of one prompt's queries; the first query is the question.

    The question is always kept. A rewriting is kept if its value of the criterion is at least the
    value of the question. Raises IncompleteError for samples with missing draws, because p is
    unknown.
    """
    for sample in samples:
        if sample.missing:
            raise IncompleteError(
                f"{sample.missing} of {sample.n} selection draws of query {sample.query.id!r} "
                "are missing. Run the command again."
            )
    values = {sample.query.id: evidence(sample.completions, criterion) for sample in samples}
    question, *others = [sample.query for sample in samples]
    kept = [query for query in others if values[query.id] >= values[question.id]]
    return Selection(
        prompt_id=question.prompt_id,
        kept=(question, *kept),
        values=values,
        criterion=criterion,
        draws=samples[0].n,
    )


def select(
    queries: Sequence[Query],
    sample: SampleQueries,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    criterion: Criterion = "mean_prob",
) -> dict[str, Selection]:
    """Select inputs for many prompts. Return the selections by prompt id.

    Each prompt's queries are its original question and its rewritings, with distinct ids. One call
    of `sample` samples all queries. Raises IncompleteError for a query that was not sampled.
    """
    of_prompt: dict[str, list[Query]] = {}
    for query in queries:
        of_prompt.setdefault(query.prompt_id, []).append(query)
    for own in of_prompt.values():
        own.sort(key=lambda query: query.source != "original")
    by_id = {result.query.id: result for result in sample(queries, draws, seed)}
    if lost := [query.id for query in queries if query.id not in by_id]:
        raise IncompleteError(f"query {lost[0]!r} has no selection draws. Run the command again.")
    return {
        prompt_id: choose([by_id[query.id] for query in own], criterion)
        for prompt_id, own in of_prompt.items()
    }
