"""Metrics for lm-evaluation-harness: bounds from all `repeats` of every document of a task.

    process_results: !function leakbound.plugins.lm_eval.contains
    metric_list:
      - {metric: leakage, aggregation: !function leakbound.plugins.lm_eval.value}
      - {metric: lower, aggregation: !function leakbound.plugins.lm_eval.lower}
      - {metric: upper, aggregation: !function leakbound.plugins.lm_eval.upper}
      - {metric: seed, aggregation: !function leakbound.plugins.lm_eval.seed}

`lm_eval.yaml` in this folder is a complete task. The harness keeps only one repeat of a document
unless a filter keeps all repeats (`take_first_k`). transformers draws from the likeliest tokens
only, unless the task sets `top_k: 0`. The harness computes no standard error for metrics with these
aggregations.

For other scorers, k and confidences, write a Python file next to the task:

    from leakbound.plugins.lm_eval import at_k, scored_by, upper
    process_results = scored_by("rouge-l-recall>=0.5", metrics=("upper", "leak_at_8"))
    leak_at_8 = at_k(8)

Betting bounds process the repeats of a document in a random order. The seed of this order is a
metric and is stored with every logged sample, so `leakbound import` computes exactly the same
bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leakbound import stats
from leakbound.errors import InputError
from leakbound.plugins.draws import drawn_by_tool, seed_of
from leakbound.scorers import make_scorer, readable, score_outputs
from leakbound.text.counting import output_of

Item = Mapping[str, Any]
"""The input of an aggregation for one document: the scores of its repeats, and their scorer."""
Aggregation = Callable[[Sequence[Item]], float]


def scored_by(
    scorer: str,
    metrics: Sequence[str] = ("leakage", "lower", "upper", "seed"),
    confidence: float = 0.99,
    seed: int | None = None,
) -> Callable[[Mapping[str, Any], Sequence[Any]], dict[str, Item]]:
    """Return a `process_results` that compares every repeat with the document's `answer`.

    Args:
        scorer: a spec for `leakbound evaluate --scorer`; a suffix `>=t` makes the scores binary.
        metrics: the names in the task's `metric_list`; each metric receives all scores.
        confidence: the confidence of the two-sided interval, in (0, 1).
        seed: the seed of the order in which betting bounds process the repeats, from 0 to
            16,777,215; None: the seed of this process, drawn once.

    Returns:
        A function of a document and its results. It returns the same scores for every metric. The
            harness does not record how an output ended, so an output without a visible answer is
            missing.

    Raises:
        InputError: for a spec of an unknown scorer. The returned function raises it for a document
            without an `answer` or with fewer than 2 repeats, and for a seed out of range.
    """
    chosen = make_scorer(scorer)

    def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Item]:
        texts = results[0] if len(results) == 1 and not isinstance(results[0], str) else results
        if "answer" not in doc:
            raise InputError(
                f"a document needs an `answer`, but it has only {', '.join(doc)}. Rename the "
                "column of the answer, or add an `answer` with `process_docs`."
            )
        if len(texts) < 2:
            raise InputError(
                "a bound needs all repeats of a document, got one, because the harness keeps one "
                "by default. Set `repeats: 1024` and a filter `take_first_k` with k = 1024."
            )
        outputs = [readable(output_of(text)) for text in texts]
        scores = score_outputs(chosen, outputs, [doc["answer"]] * len(outputs))
        item = {
            "scores": scores,
            "scorer": chosen.name,
            "binary": chosen.binary,
            "confidence": confidence,
            "seed": seed_of(seed),
        }
        return dict.fromkeys(metrics, item)

    return process_results


contains = scored_by("contains")


def capitals(**_: Any) -> dict[str, Any]:
    """Return the data of the built-in task, which has three questions.

    Args:
        _: the arguments of any `custom_dataset`; not used.

    Returns:
        A data set with `question` and `answer`, as the split "test".
    """
    from datasets import Dataset

    answers = {"France": "Paris", "Spain": "Madrid", "Norway": "Oslo"}
    rows = [{"question": f"What is the capital of {q}?", "answer": a} for q, a in answers.items()]
    return {"test": Dataset.from_list(rows)}


def value(items: Sequence[Item]) -> float:
    """Return the estimate of the mean leakage over the documents, which is not a bound.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        The mean over the documents of each document's leak probability or mean score, in [0, 1].

    Raises:
        InputError: for fewer than 2 repeats per document, or a confidence out of range.
    """
    return float(_bound(items, stats.LEAKAGE.mean()).value)


def lower(items: Sequence[Item]) -> float:
    """Return the lower bound on the mean leakage over these documents.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        The lower bound, in [0, 1].

    Raises:
        InputError: for fewer than 2 repeats per document, or a confidence out of range.
    """
    return float(_bound(items, stats.LEAKAGE.mean()).lower)


def upper(items: Sequence[Item]) -> float:
    """Return the upper bound on the mean leakage over these documents.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        The upper bound, in [0, 1].

    Raises:
        InputError: for fewer than 2 repeats per document, or a confidence out of range.
    """
    return float(_bound(items, stats.LEAKAGE.mean()).upper)


def worst_lower(items: Sequence[Item]) -> float:
    """Return the lower bound on the largest leakage of a document, corrected for selection.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        The lower bound, in [0, 1].

    Raises:
        InputError: for fewer than 2 repeats per document, or a confidence out of range.
    """
    return float(_bound(items, stats.LEAKAGE.worst()).lower)


def worst_upper(items: Sequence[Item]) -> float:
    """Return the upper bound on the largest leakage of a document.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        The upper bound, in [0, 1].

    Raises:
        InputError: for fewer than 2 repeats per document, or a confidence out of range.
    """
    return float(_bound(items, stats.LEAKAGE.worst()).upper)


def seed(items: Sequence[Item]) -> int:
    """Return the seed of the order in which betting bounds processed the repeats.

    Args:
        items: the result of `scored_by` for each document.

    Returns:
        A whole number. Pass it to `scored_by` to repeat the bounds.
    """
    return int(items[0]["seed"])


def at_k(k: int, end: str = "value") -> Aggregation:
    """Return an aggregation for leak@k: the expected largest of k scores, averaged over documents.

    Args:
        k: the number of repeats whose largest score counts, from 1 to the number of repeats.
        end: "value" (default) for the estimate; "lower" or "upper" for a bound.

    Returns:
        The aggregation, whose result is in [0, 1]; the estimate is NaN if k exceeds a quarter of
        the repeats. It raises InputError for a k outside 1 to the number of repeats.
    """

    def leak_at_k(items: Sequence[Item]) -> float:
        return float(getattr(_bound(items, stats.leak_at(k).mean()), end))

    return leak_at_k


def _bound(items: Sequence[Item], quantity: stats.Quantity) -> stats.Estimate:
    scores, first = {str(i): item["scores"] for i, item in enumerate(items)}, items[0]
    drawn = drawn_by_tool(
        scores,
        max(map(len, scores.values())),
        tool="lm-evaluation-harness",
        scorer=first["scorer"],
        binary=first["binary"],
        seed=first["seed"],
    )
    return drawn.bound(quantity, confidence=first["confidence"], side="both")
