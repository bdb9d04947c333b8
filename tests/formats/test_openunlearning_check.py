"""A log checked against its own rows, whichever way OpenUnlearning had of making them."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer

from leakbound.errors import InputError
from leakbound.formats.openunlearning import EvaluationLog, read_log
from leakbound.formats.openunlearning_check import Checked, check_log, check_samples, holds_samples

ANSWERS = [("Ann wrote it", "It was written by Ann"), ("Nobody", "Bob did"), ("1984", "…")]


def greedy(several: bool = False) -> dict[str, Any]:
    """Rows as OpenUnlearning writes them, by `rouge-score` itself; lists where answers are many."""
    scorer = RougeScorer(["rouge1", "rougeL"], use_stemmer=True)
    entries: dict[str, Any] = {}
    for row, (text, answer) in enumerate(ANSWERS):
        found = [scorer.score(right, text) for right in ((answer, "Ann") if several else (answer,))]
        entry = {
            "rouge1_recall": [score["rouge1"].recall for score in found],
            "rougeL_f1": [score["rougeL"].fmeasure for score in found],
            "rougeL_recall": [score["rougeL"].recall for score in found],
            "input": ["Who?"] * len(found),
            "ground_truth": [answer, "Ann"][: len(found)],
            "generation": [text] * len(found),
        }
        entries[str(row)] = entry if several else {key: of[0] for key, of in entry.items()}
    return entries


def entry(by_index: dict[str, Any], value: float) -> dict[str, Any]:
    return {"agg_value": value, "value_by_index": by_index}


def mean(by_index: dict[str, Any], key: str) -> float:
    return float(np.mean([np.mean(row[key]) for row in by_index.values()]))


def losses(*values: Any) -> dict[str, Any]:
    return {str(row): {"avg_loss": value, "prob": 0.5} for row, value in enumerate(values)}


def truth(aggregator: str) -> dict[str, Any]:
    """A truth ratio and what it is made of, by OpenUnlearning's three aggregators."""
    right, wrong = np.exp([-1.0, -2.0]), np.exp([-1.5, -1.0])
    ratios = wrong / (right + 1e-10)
    if aggregator == "prob_mean":
        ratios = right / (right + wrong + 1e-10)
    made = {
        "prob_mean": ratios.mean(),
        "closer_to_1_better": np.minimum(ratios, 1 / (ratios + 1e-10)).mean(),
        "true_better": np.maximum(0, 1 - ratios).mean(),
    }
    scores = {str(row): {"score": value} for row, value in enumerate(ratios.tolist())}
    return {
        "forget_Q_A_PARA_Prob": entry(losses(1.0, 2.0), 0.5),
        "forget_Q_A_PERT_Prob": entry(losses([1.0, 2.0], [0.5, 1.5]), 0.5),
        "forget_truth_ratio": entry(scores, float(made[aggregator])),
    }


def log_of(folder: Path, log: dict[str, Any], name: str = "TOFU_EVAL.json") -> EvaluationLog:
    (folder / name).write_text(json.dumps(log))
    return read_log(folder / name)


def checked(folder: Path, log: dict[str, Any], name: str, **others: EvaluationLog) -> Checked:
    found = {each.entry: each for each in check_log(log_of(folder, log), **others)}
    return found[name]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("forget_knowmem_ROUGE", "rougeL_f1"),
        ("retain_knowmem_ROUGE", "rougeL_f1"),
        ("forget_verbmem_ROUGE", "rougeL_f1"),
        ("forget_Q_A_ROUGE", "rougeL_recall"),
        ("forget_Q_A_PERT_ROUGE", "rougeL_recall"),
        ("my_ROUGE", "rouge1_recall"),
    ],
)
def test_rouge_is_made_of_the_texts(tmp_path: Path, name: str, key: str) -> None:
    rows = greedy(several="PERT" in name)
    log = {name: entry(rows, mean(rows, key))}
    found = checked(tmp_path, log, name)
    assert (found.verdict, found.how, found.odd) == ("same", f"mean {key}", ())
    rows["1"]["generation"] = ["Bob did"] * 2 if "PERT" in name else "Bob did"
    found = checked(tmp_path, log, name)
    assert (found.verdict, found.odd) == ("differs", ("1",))


@pytest.mark.parametrize("name", ["forget_knowmem_ROUGE", "forget_verbmem_ROUGE"])
def test_another_rouge_than_muse_reports_is_named(tmp_path: Path, name: str) -> None:
    rows = greedy()
    assert checked(tmp_path, {name: entry(rows, mean(rows, "rougeL_recall"))}, name).how == (
        "mean rougeL_recall"
    )
    assert checked(tmp_path, {name: entry(rows, 0.99)}, name).how == "mean rougeL_f1"


@pytest.mark.parametrize("aggregator", ["prob_mean", "closer_to_1_better", "true_better"])
def test_a_truth_ratio_by_any_aggregator(tmp_path: Path, aggregator: str) -> None:
    log, name = truth(aggregator), "forget_truth_ratio"
    found = checked(tmp_path, log, name)
    usual = aggregator == "closer_to_1_better"
    assert found.how == ("truth ratio" if usual else f"truth ratio, {aggregator}")
    assert (found.verdict, found.odd) == ("same", ())
    log[name]["value_by_index"]["1"]["score"] += 0.01
    found = checked(tmp_path, log, name)
    assert (found.verdict, found.odd) == ("differs", ("1",))
    bare = {name: {**log[name], "agg_value": mean(log[name]["value_by_index"], "score")}}
    assert checked(tmp_path, bare, name).verdict == "same"  # of its own rows, all there is


def test_a_number_that_was_altered_differs_in_log_and_summary(tmp_path: Path) -> None:
    rows = {"0": {"prob": 0.25}, "1": {"prob": 0.5}, "2": {"prob": None}}
    log = {"forget_Q_A_Prob": entry(rows, 0.375), "forget_quality": {"agg_value": None}}
    summary = log_of(tmp_path, {"forget_Q_A_Prob": 0.375, "gone": 0.5}, "TOFU_SUMMARY.json")
    found = check_log(log_of(tmp_path, log), summary=summary)
    assert [(each.entry, each.verdict) for each in found] == [
        ("forget_Q_A_Prob", "same"),
        ("forget_quality", "not made anew"),
        ("summary: forget_Q_A_Prob", "same"),
        ("summary: gone", "not made anew"),
    ]
    log["forget_Q_A_Prob"]["agg_value"] = 0.3750001
    found = check_log(log_of(tmp_path, log), summary=summary)
    assert [each.agrees for each in found] == [False, True, True, True]
    log["forget_Q_A_Prob"]["agg_value"] = None
    assert checked(tmp_path, log, "forget_Q_A_Prob").verdict == "differs"
    rows["1"]["prob"] = math.nan
    found = check_log(log_of(tmp_path, log))
    assert (found[0].verdict, found[0].agrees) == ("damaged", False)
    assert "`prob` in row 1 is nan" in found[0].how


def attack(forget: float, value: float) -> dict[str, Any]:
    sides = {"forget": [1.0, forget], "holdout": [2.0, 3.0]}
    parts = {
        side: entry({str(i): {"score": s} for i, s in enumerate(of)}, float(np.mean(of)))
        for side, of in sides.items()
    }
    return {**parts, "auc": value, "agg_value": value}


def test_privleak_and_rel_diff_against_one_half_or_a_retrained_model(tmp_path: Path) -> None:
    retrained = log_of(tmp_path, {"mia_min_k": attack(9.0, 0.5)}, "RETRAINED_EVAL.json")
    log = {"mia_min_k": attack(2.0, 0.875)}
    for name, value in (("privleak", -75.0), ("rel_diff", 75.0)):
        log[name] = {"agg_value": value / (1 + 2e-10)}
        assert checked(tmp_path, log, name).how == "against an AUC of .5"
        assert checked(tmp_path, log, name, retrained=retrained).verdict == "same"
        log[name] = {"agg_value": 20.0}
        assert checked(tmp_path, log, name).verdict == "not made anew"
        assert checked(tmp_path, log, name, retrained=retrained).verdict == "differs"
    parts = [each.entry for each in check_log(log_of(tmp_path, log))][:3]
    assert parts == ["mia_min_k", "mia_min_k, forget", "mia_min_k, holdout"]
    log["mia_min_k"]["forget"]["agg_value"] = 1.6
    assert checked(tmp_path, log, "mia_min_k, forget").verdict == "differs"


def test_a_summary_has_nothing_to_be_made_of(tmp_path: Path) -> None:
    summary = log_of(tmp_path, {"forget_Q_A_Prob": 0.375}, "TOFU_SUMMARY.json")
    with pytest.raises(InputError, match=r"holds no row of any metric.*Name the \*_EVAL\.json"):
        check_log(summary)


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


def checked_samples(folder: Path, log: Any, summary: Any) -> dict[str, Checked]:
    file, beside = folder / "LMEval_EVAL.json", folder / "LMEval_SUMMARY.json"
    file.write_text(json.dumps(log))
    beside.write_text(json.dumps(summary))
    return {each.entry: each for each in check_samples(file, beside)}


def test_aggregates_are_made_anew_from_the_samples(tmp_path: Path) -> None:
    found = checked_samples(tmp_path, log(), summary())
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
    found = checked_samples(tmp_path, log(), summary() | {name: value})[name]
    assert (found.verdict, found.how) == ("same", how)


def test_what_differs_or_is_damaged_is_named(tmp_path: Path) -> None:
    given = log()
    given["mmlu"]["mmlu_arts"][0]["acc"] = 1.0
    given["gsm8k"]["gsm8k"][-1]["exact_match"] = None
    found = checked_samples(tmp_path, given, summary() | {"boolq/acc": 0.5})
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
