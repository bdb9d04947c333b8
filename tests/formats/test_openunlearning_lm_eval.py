"""OpenUnlearning's log of lm-evaluation-harness against its summary."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.formats.openunlearning_check import Checked, check_samples, holds_samples

STEM, ARTS = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0]


def sample(number: int, filtered: str = "none", **values: Any) -> dict[str, Any]:
    """As lm-evaluation-harness logs one, without what it was asked."""
    return {"doc_id": number, "target": "1", "filter": filtered, "metrics": [*values], **values}


def log() -> dict[str, Any]:
    """A group of two tasks, a task under two filters, and one that is no mean of numbers."""
    return {
        "mmlu": {
            "mmlu_stem": [sample(i, acc=value) for i, value in enumerate(STEM)],
            "mmlu_arts": [sample(i, acc=value) for i, value in enumerate(ARTS)],
        },
        "gsm8k": {
            "gsm8k": [
                sample(i, filtered, exact_match=float(i < right))
                for filtered, right in (("strict-match", 1), ("flexible-extract", 3))
                for i in range(4)
            ]
        },
        "wikitext": {"wikitext": [sample(0, word_perplexity=[-12.5, 7])]},
    }


def error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def pooled(*tasks: list[float]) -> float:
    """As lm-evaluation-harness pools the errors of tasks, by sizes."""
    sizes = [len(task) for task in tasks]
    within = sum((n - 1) * error(task) ** 2 * n for n, task in zip(sizes, tasks, strict=True))
    return math.sqrt(within / (sum(sizes) - len(sizes)) / sum(sizes))


def summary() -> dict[str, Any]:
    return {
        "mmlu/acc": statistics.mean([*STEM, *ARTS]),
        "mmlu/acc_stderr": pooled(STEM, ARTS),
        "gsm8k/exact_match": 0.75,
        "gsm8k/exact_match_stderr": error([1.0, 1.0, 1.0, 0.0]),
        "wikitext/word_perplexity": 5.96,
        "wikitext/word_perplexity_stderr": "N/A",
    }


def checked(folder: Path, log: Any, summary: Any) -> dict[str, Checked]:
    file, beside = folder / "LMEval_EVAL.json", folder / "LMEval_SUMMARY.json"
    file.write_text(json.dumps(log))
    beside.write_text(json.dumps(summary))
    return {each.entry: each for each in check_samples(file, beside)}


def test_aggregates_are_made_anew_from_the_samples(tmp_path: Path) -> None:
    found = checked(tmp_path, log(), summary())
    assert {name: each.verdict for name, each in found.items()} == {
        "mmlu/acc": "same",
        "mmlu/acc_stderr": "same",
        "gsm8k/exact_match": "same",
        "gsm8k/exact_match_stderr": "same",
        "wikitext/word_perplexity": "not made anew",
        "wikitext/word_perplexity_stderr": "not made anew",
    }
    assert found["mmlu/acc"].found == pytest.approx(0.6)
    assert found["gsm8k/exact_match"].how == "mean exact_match, filter flexible-extract"


@pytest.mark.parametrize(
    ("name", "value", "how"),
    [
        ("mmlu/acc", (5 / 7 + 1 / 3) / 2, "mean acc of 2 tasks"),
        ("gsm8k/exact_match", 0.25, "mean exact_match, filter strict-match"),
    ],
)
def test_another_way_to_aggregate_is_named(
    name: str, value: float, how: str, tmp_path: Path
) -> None:
    found = checked(tmp_path, log(), summary() | {name: value})[name]
    assert (found.verdict, found.how) == ("same", how)


def test_what_differs_or_is_damaged_is_named(tmp_path: Path) -> None:
    given = log()
    given["mmlu"]["mmlu_arts"][0]["acc"] = 1.0
    given["gsm8k"]["gsm8k"][-1]["exact_match"] = None
    found = checked(tmp_path, given, summary() | {"boolq/acc": 0.5})
    assert (found["mmlu/acc"].verdict, found["mmlu/acc"].found) == ("differs", pytest.approx(0.7))
    assert found["mmlu/acc_stderr"].verdict == "same"  # of 1, 1, 0 as of 0, 1, 0
    assert found["gsm8k/exact_match"].verdict == "damaged"
    assert "gsm8k, sample 7 has None for 'exact_match'" in found["gsm8k/exact_match"].how
    assert (found["boolq/acc"].verdict, found["boolq/acc"].agrees) == ("not made anew", True)
    (tmp_path / "LMEval_SUMMARY.json").unlink()
    with pytest.raises(InputError, match=r"LMEval_SUMMARY.json` is not beside it"):
        check_samples(tmp_path / "LMEval_EVAL.json", tmp_path / "LMEval_SUMMARY.json")


def test_logs_of_metrics_hold_no_samples() -> None:
    assert holds_samples(log())
    assert not holds_samples({"forget_Q_A_Prob": {"agg_value": 0.5, "value_by_index": {}}})
    assert not holds_samples({"forget_Q_A_Prob": 0.5})
