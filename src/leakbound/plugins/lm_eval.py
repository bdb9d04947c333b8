"""Bounds in lm-evaluation-harness: over all `repeats` of every document, as metrics of a task.

    process_results: !function leakbound.plugins.lm_eval.contains
    metric_list:
      - {metric: leakage, aggregation: !function leakbound.plugins.lm_eval.value}
      - {metric: lower, aggregation: !function leakbound.plugins.lm_eval.lower}
      - {metric: upper, aggregation: !function leakbound.plugins.lm_eval.upper}
      - {metric: seed, aggregation: !function leakbound.plugins.lm_eval.seed}

`lm_eval.yaml` beside this file is a whole task. The harness keeps one repeat unless a filter hands
on all of them (`take_first_k`), and transformers truncates unless `top_k: 0`. A metric that an
aggregation of ours makes has no standard error there, and needs none: it is an end of an interval.

Other scorers, k and confidences stand in a file of one's own beside the task:

    from leakbound.plugins.lm_eval import at_k, scored_by, upper
    process_results = scored_by("rouge-l-recall>=0.5", metrics=("upper", "leak_at_8"))
    leak_at_8 = at_k(8)

Bets meet the repeats of a document in a random order. Its seed is a metric and stands with every
logged sample, so that `leakbound import` gives the same bounds for them, to the digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leakbound.errors import InputError
from leakbound.plugins.draws import ToolDraws, seed_of
from leakbound.scorers import make_scorer, readable, score_outputs
from leakbound.text.counting import output_of

Item = Mapping[str, Any]
"""What an aggregation gets of one document: the scores of its repeats, and by which scorer."""
Aggregation = Callable[[Sequence[Item]], float]


def scored_by(
    scorer: str,
    metrics: Sequence[str] = ("leakage", "lower", "upper", "seed"),
    confidence: float = 0.99,
    seed: int | None = None,
) -> Callable[[Mapping[str, Any], Sequence[Any]], dict[str, Item]]:
    """A `process_results` that scores every repeat against the document's `answer`.

    Args:
        scorer: a spec, as `leakbound evaluate --scorer` takes it; with `>=t` it is binary.
        metrics: the names in the task's `metric_list`, each of which gets all that was scored.
        confidence: with which probability an interval holds, both its ends together, in (0, 1).
        seed: of the order in which bets meet the repeats, a whole number from 0 to 16,777,215;
            None: this process's, drawn once.

    Returns:
        The function of a document and its results, which gives every metric the same scores. The
        harness does not record how an output ended; one without a visible answer is missing.

    Raises:
        InputError: a spec that names no scorer. The function raises it for a document without an
            `answer` or with fewer than 2 repeats, and for a seed outside its range.
    """
    chosen = make_scorer(scorer)

    def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Item]:
        texts = results[0] if len(results) == 1 and not isinstance(results[0], str) else results
        if "answer" not in doc:
            raise InputError(
                f"a document needs an `answer`, it has {', '.join(doc)}. Rename the column, or "
                "add it with `process_docs`."
            )
        if len(texts) < 2:
            raise InputError(
                "a bound needs all repeats of a document, got one. State `repeats: 1024` and a "
                "filter `take_first_k` with that k: without it the harness hands on the first."
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
    """The data of the built-in task: three questions.

    Args:
        _: what the harness passes to any `custom_dataset`; not used.

    Returns:
        A data set with `question` and `answer`, as the split "test".
    """
    from datasets import Dataset

    answers = {"France": "Paris", "Spain": "Madrid", "Norway": "Oslo"}
    rows = [{"question": f"What is the capital of {q}?", "answer": a} for q, a in answers.items()]
    return {"test": Dataset.from_list(rows)}


def value(items: Sequence[Item]) -> float:
    """Estimate the mean leakage over the documents; it is no bound.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        The mean over the documents of their leak probability, or mean score, in [0, 1].

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return float(_draws(items).mean().value)


def lower(items: Sequence[Item]) -> float:
    """Bound the mean leakage over these documents from below.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        The lower end of the interval, in [0, 1].

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return float(_draws(items).mean().lower)


def upper(items: Sequence[Item]) -> float:
    """Bound the mean leakage over these documents from above.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        The upper end of the interval, in [0, 1].

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return float(_draws(items).mean().upper)


def worst_lower(items: Sequence[Item]) -> float:
    """Bound the largest leakage of a document from below, the choice counted.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        The lower end of the interval, in [0, 1].

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return float(_draws(items).worst().lower)


def worst_upper(items: Sequence[Item]) -> float:
    """Bound the largest leakage of a document from above.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        The upper end of the interval, in [0, 1].

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return float(_draws(items).worst().upper)


def seed(items: Sequence[Item]) -> int:
    """The seed of the order in which bets met the repeats.

    Args:
        items: what `scored_by` gave for each document.

    Returns:
        A whole number; given to `scored_by`, it repeats a figure.

    Raises:
        InputError: fewer than 2 repeats of every document, or a confidence that cannot be.
    """
    return _draws(items).seed


def at_k(k: int, end: str = "value") -> Aggregation:
    """An aggregation for leak@k, the largest of k scores averaged over documents.

    Args:
        k: repeats of a document of which the largest score counts, from 1 to their number.
        end: "value" (default), the estimate; "lower" or "upper", an end of the interval.

    Returns:
        The aggregation, whose result is in [0, 1]; NaN for the estimate where k exceeds a quarter
        of the repeats. It raises InputError for a k that is not from 1
        to the number of repeats.
    """

    def leak_at_k(items: Sequence[Item]) -> float:
        return float(getattr(_draws(items).at_k(k), end))

    return leak_at_k


def _draws(items: Sequence[Item]) -> ToolDraws:
    scores, first = {str(i): item["scores"] for i, item in enumerate(items)}, items[0]
    return ToolDraws.of(
        scores,
        max(map(len, scores.values())),
        tool="lm-evaluation-harness",
        scorer=first["scorer"],
        binary=first["binary"],
        confidence=first["confidence"],
        seed=first["seed"],
    )
