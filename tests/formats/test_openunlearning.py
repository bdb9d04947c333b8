"""Parity with OpenUnlearning from its own logs, and what a damaged log is told."""

from __future__ import annotations

import copy
import json
import math
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from leakbound.errors import InputError
from leakbound.formats.openunlearning import EvaluationLog, as_log, as_summary, read_log, rows
from leakbound.formats.openunlearning_names import MUSE, TOFU, names_of
from leakbound.formats.openunlearning_values import Remade, against_log, greedy_answers, remake
from leakbound.metrics import METRICS, Values
from leakbound.metrics.membership import zlib_score
from readings import reading

DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", Path(__file__).parents[2] / "../shared/data"))
LOGS = DATA / "openunlearning_logs"
FULL = LOGS / "tofu_Llama-3.2-1B-Instruct_full/evals_forget10/TOFU_EVAL.json"
RETRAINED = LOGS / "tofu_Llama-3.2-1B-Instruct_retain90/TOFU_EVAL.json"
real_logs = pytest.mark.skipif(not FULL.is_file(), reason="no LEAKBOUND_TEST_DATA")
# What OpenUnlearning itself printed for the first log, the second one its reference.
PUBLISHED = {
    "forget_quality": 3.9054713571083378e-22,
    "model_utility": 0.5991534707368931,
    "forget_truth_ratio": 0.475563896242435,
    "forget_rouge_l_recall": 0.8201171050577979,
    "privleak": -99.45739100654656,
    "membership_min_k": 0.99665,
}

real = cache(read_log)


def recompute(name: str, log: EvaluationLog, retrained: EvaluationLog | None = None) -> Remade:
    """What is made anew of a metric by our name."""
    return remake(TOFU[name].entry, log, retrained)


def entries(key: str, *values: object) -> dict[str, Any]:
    return {str(row): {key: value} for row, value in enumerate(values)}


def metric(key: str, *values: object) -> dict[str, Any]:
    return {"agg_value": 0.5, "value_by_index": entries(key, *values)}


def attack(forget: tuple[float, ...], holdout: tuple[float, ...]) -> dict[str, Any]:
    sides = {"forget": metric("score", *forget), "holdout": metric("score", *holdout)}
    return {**sides, "auc": 0.75, "agg_value": 0.75}


SMALL: dict[str, Any] = {
    "forget_Q_A_PARA_Prob": metric("avg_loss", 1.0, 2.0),
    "forget_Q_A_PERT_Prob": metric("avg_loss", [1.0, 3.0], [1.0, 1.0]),
    "forget_truth_ratio": {**metric("score", 0.3, 2.0), "agg_value": 0.3},
    "mia_min_k": attack((1.0, 2.0), (2.0, 3.0)),
}
COMPARED = {name: {"agg_value": 1.0} for name in ("forget_quality", "privleak", "rel_diff")}
ALTERED = {"forget_truth_ratio": metric("score", 0.2, 0.1), "mia_min_k": {"agg_value": 0.5}}


def written(folder: Path, name: str = "TOFU_EVAL.json", **changes: Any) -> Path:
    file = folder / name
    file.write_text(json.dumps({**copy.deepcopy(SMALL), **changes}))
    return file


@real_logs
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name: str) -> None:
    found = recompute(name, real(FULL), real(RETRAINED)).value
    assert found == pytest.approx(PUBLISHED[name], rel=1e-9)


@real_logs
@pytest.mark.parametrize("path", [FULL, RETRAINED], ids=["full", "retrained"])
def test_every_stored_aggregate_is_found_again(path: Path) -> None:
    log = real(path)
    retrained = real(RETRAINED) if path == FULL else None
    made = {entry: remake(entry, log, retrained) for entry in log.metrics}
    if path == RETRAINED:
        assert made.pop("forget_quality").how == "a retrained model's log, which is not given"
        assert made["privleak"].how == "against an AUC of .5"
    assert len(made) == (31 if path == FULL else 29)
    for entry, found in made.items():
        assert found.value == pytest.approx(log.value(entry), rel=1e-9)
        assert found.odd == ()


@real_logs
@pytest.mark.parametrize("path", [FULL, RETRAINED], ids=["full", "retrained"])
@pytest.mark.parametrize("part", ["forget", "retain", "real_authors", "world_facts"])
def test_every_single_recall_equals_the_stored_one(path: Path, part: str) -> None:
    log, (its, key, _) = real(path), TOFU[f"{part}_rouge_l_recall"]
    stored = log.means(its, key)
    assert remake(its, log).by_row == stored
    assert (
        len(greedy_answers(log, part))
        == len(stored)
        == {"real_authors": 100, "world_facts": 117}.get(part, 400)
    )


@real_logs
def test_every_single_truth_ratio_equals_the_stored_one() -> None:
    for part in ("forget", "retain", "real_authors", "world_facts"):
        stored = real(FULL).numbers(*TOFU[f"{part}_truth_ratio"][:2])
        found = recompute(f"{part}_truth_ratio", real(FULL)).by_row or {}
        assert [*found.values()] == pytest.approx([*stored.values()], rel=1e-12)


@real_logs
def test_the_summary_beside_a_log_is_read_too() -> None:
    summary = read_log(FULL.with_name("TOFU_SUMMARY.json"))
    assert summary.value("forget_quality") == PUBLISHED["forget_quality"]
    assert recompute("membership_min_k", summary).value is None
    assert "no rows" in recompute("membership_min_k", summary).how


@real_logs
def test_the_loss_attacks_scores_equal_the_stored_ones() -> None:
    log = real(FULL)
    losses, texts = log.numbers("forget_Q_A_Prob", "avg_loss"), greedy_answers(log, "forget")
    reads = {row: reading([loss], text=texts[row].answer) for row, loss in losses.items()}
    assert log.numbers("mia_loss", "score", "forget") == losses
    zlib = {row: zlib_score(read) for row, read in reads.items()}
    assert zlib == pytest.approx(log.numbers("mia_zlib", "score", "forget"), rel=1e-12)


@real_logs
def test_an_own_export_serves_as_the_retrained_log(tmp_path: Path) -> None:
    names = ("forget_truth_ratio", "membership_min_k")
    made = {name: recompute(name, real(RETRAINED)) for name in names}
    log = as_log({name: Values(one.value, one.by_row or {}) for name, one in made.items()}, ())
    file = tmp_path / "OURS_EVAL.json"
    file.write_text(json.dumps(log))
    for name in ("forget_quality", "privleak"):
        value = recompute(name, real(FULL), read_log(file)).value
        assert value == pytest.approx(PUBLISHED[name], rel=1e-9)


def test_values_of_a_small_log(tmp_path: Path) -> None:
    log = read_log(written(tmp_path))
    ratios = recompute("forget_truth_ratio", log)
    assert ratios.by_row == pytest.approx({"0": math.exp(-1), "1": math.exp(1)}, rel=1e-8)
    found = recompute("membership_min_k", log)
    assert found.value == 0.875
    assert found.by_row == {"forget/0": 1.0, "forget/1": 2.0, "holdout/0": 2.0, "holdout/1": 3.0}


def test_the_retrained_log_is_taken_as_it_stands(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, **COMPARED))
    retrained = read_log(written(tmp_path, "RETRAINED_EVAL.json", **ALTERED))
    ratios = [*(recompute("forget_truth_ratio", log).by_row or {}).values()]
    quality = recompute("forget_quality", log, retrained).value
    assert quality == stats.ks_2samp(ratios, [0.2, 0.1]).pvalue
    assert recompute("privleak", log, retrained).value == pytest.approx(-75.0)
    assert recompute("privleak", log).value is None
    found = {"membership_min_k": Values(0.875), "forget_probability": Values(0.1)}
    made = {name: round(each.value or 0, 6) for name, each in against_log(found, retrained).items()}
    assert made == {"privleak": -75.0, "rel_diff": 75.0}


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    turned = copy.deepcopy(SMALL["forget_Q_A_PERT_Prob"])
    turned["value_by_index"] = dict(reversed(turned["value_by_index"].items()))
    log = read_log(written(tmp_path, forget_Q_A_PERT_Prob=turned))
    plain = read_log(written(tmp_path, "PLAIN_EVAL.json"))
    assert recompute("forget_truth_ratio", log) == recompute("forget_truth_ratio", plain)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{not json", "is no JSON"),
        ("[1, 2]", "must be an object of metrics"),
        ("{}", "must be an object of metrics"),
        ('{"mia_loss": {"auc": 1}}', "'mia_loss' of .* has no `agg_value`"),
        ('{"mia_loss": "high"}', "'mia_loss' of .* has no `agg_value`"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "TOFU_EVAL.json"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as refused:
        read_log(file)
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*TOFU_EVAL\.json"):
        read_log(tmp_path / "TOFU_EVAL.json")


@pytest.mark.parametrize("key", ["forget10_0", "1.0", "-1", "01"])
def test_mixed_keys_are_refused(tmp_path: Path, key: str) -> None:
    mixed = metric("score", 0.3, 2.0)
    mixed["value_by_index"][key] = {"score": 0.1}
    with pytest.raises(InputError, match=f"'forget_truth_ratio' of .* for '{key}'"):
        read_log(written(tmp_path, forget_truth_ratio=mixed))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"forget_Q_A_PARA_Prob": metric("avg_loss", 1.0, math.nan)},
            "'forget_Q_A_PARA_Prob' .* `avg_loss` in row 1 is nan, not a finite number",
        ),
        (
            {"forget_Q_A_PARA_Prob": metric("avg_loss", None, 1.0)},
            "'forget_Q_A_PARA_Prob' .* `avg_loss` in row 0 is None",
        ),
        (
            {"forget_Q_A_PARA_Prob": metric("avg_loss", True, 1.0)},
            "'forget_Q_A_PARA_Prob' .* `avg_loss` in row 0 is True",
        ),
        (
            {"forget_Q_A_PERT_Prob": metric("avg_loss", [1.0], [math.inf])},
            "'forget_Q_A_PERT_Prob' .* `avg_loss` in row 1 is inf",
        ),
        (
            {"forget_Q_A_PERT_Prob": metric("avg_loss", [1.0], 2.0)},
            "'forget_Q_A_PERT_Prob' .* in row 1 is no list of numbers but 2.0",
        ),
        (
            {"forget_Q_A_PERT_Prob": metric("avg_loss", [], [1.0])},
            "'forget_Q_A_PERT_Prob' .* in row 0 is no list of numbers",
        ),
        (
            {"forget_Q_A_PERT_Prob": metric("avg_loss", [1.0], [1.0], [1.0])},
            "'forget_Q_A_PERT_Prob' .* 3 rows, where 'forget_Q_A_PARA_Prob' has 2; row 2 is in one",
        ),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    file = written(tmp_path, **changes)
    with pytest.raises(InputError, match=said) as refused:
        recompute("forget_truth_ratio", read_log(file))
    assert str(file) in str(refused.value)


def test_missing_metrics_are_named(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, model_utility={"agg_value": 0.5}))
    made = recompute("model_utility", log)
    assert made.value is None
    assert made.how.startswith("nine terms, of which it lacks retain_Q_A_Prob, ra_Q_A_Prob_norm")
    with pytest.raises(InputError, match=r"TOFU_EVAL.json' has no metric 'retain_Q_A_Prob'\. .*"):
        recompute("retain_probability", log)


def test_greedy_answers_must_be_texts(tmp_path: Path) -> None:
    answer = {"input": "Who?", "ground_truth": "Ann did", "generation": "It was Ann"}
    answer |= {"rougeL_recall": 0.5}
    good = {"agg_value": 0.5, "value_by_index": {"3": answer}}
    log = read_log(written(tmp_path, forget_Q_A_ROUGE=good))
    (found,) = greedy_answers(log, "forget").values()
    assert (found.prompt, found.answer, found.text) == ("Who?", "Ann did", "It was Ann")
    assert recompute("forget_rouge_l_recall", log).by_row == {"3": 0.5}
    bad = {"agg_value": 0.5, "value_by_index": {"3": {**answer, "generation": None}}}
    log = read_log(written(tmp_path, forget_Q_A_ROUGE=bad))
    with pytest.raises(InputError, match="`generation` in row 3 is no text but None"):
        greedy_answers(log, "forget")


def test_a_control_on_other_rows_is_refused(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, **COMPARED))
    longer = {"forget_truth_ratio": metric("score", 0.2, 0.1, 0.4)}
    retrained = read_log(written(tmp_path, "RETRAINED_EVAL.json", **longer))
    said = "RETRAINED_EVAL.json'.*: 3 rows, where the evaluated model has 2; row 2"
    with pytest.raises(InputError, match=said):
        recompute("forget_quality", log, retrained)
    ratios = Values(0.5, {"tofu:forget10/0000": 1.0, "tofu:forget10/0001": 1.0})
    with pytest.raises(InputError, match=said):
        against_log({"forget_truth_ratio": ratios}, retrained)


def test_a_retrained_log_without_an_aggregate_is_refused(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, **COMPARED))
    broken = read_log(written(tmp_path, "RETRAINED_EVAL.json", mia_min_k={"agg_value": None}))
    with pytest.raises(InputError, match=r"'mia_min_k' .* `agg_value` is None"):
        recompute("privleak", log, broken)


def test_the_written_log_has_their_shape() -> None:
    found = {
        "forget_truth_ratio": Values(0.5, {"tofu:forget10/0007": 0.25, "tofu:forget10/0002": 2.0}),
        "forget_probability": Values(0.1, {"a": 0.1}),
        "membership_min_k": Values(0.75, {"f/0": 1.0, "f/1": 2.0, "h/0": 3.0}),
        "forget_quality": Values(None),
        "forget_entropy": Values(1.0, {"a": 1.0}),
    }
    log = as_log(found, {"f/0", "f/1"})
    assert log == {
        "forget_Q_A_Prob": {"agg_value": 0.1, "value_by_index": {"0": {"prob": 0.1}}},
        "forget_quality": {"agg_value": None},
        "forget_truth_ratio": {
            "agg_value": 0.5,
            "value_by_index": {"7": {"score": 0.25}, "2": {"score": 2.0}},
        },
        "mia_min_k": {
            "forget": {
                "agg_value": 1.5,
                "value_by_index": {"0": {"score": 1.0}, "1": {"score": 2.0}},
            },
            "holdout": {"agg_value": 3.0, "value_by_index": {"0": {"score": 3.0}}},
            "auc": 0.75,
            "agg_value": 0.75,
        },
    }
    assert as_summary(log) == {
        "forget_Q_A_Prob": 0.1,
        "forget_truth_ratio": 0.5,
        "mia_min_k": 0.75,
    }


def test_nothing_that_is_no_number_is_written() -> None:
    with pytest.raises(InputError, match="forget_truth_ratio has nan for 'b'"):
        as_log({"forget_truth_ratio": Values(0.5, {"a": 0.1, "b": math.nan})}, ())
    with pytest.raises(InputError, match="privleak has inf for its aggregate"):
        as_log({"privleak": Values(math.inf)}, ())


def test_rows_are_what_the_ids_end_in_or_their_places() -> None:
    assert rows(["tofu:forget10/0012", "tofu:forget10/0003"]) == [12, 3]
    assert rows(["a/1", "b/1"]) == [0, 1]
    assert rows(["a/1", "b"]) == [0, 1]


def test_every_name_is_a_metric_of_ours() -> None:
    assert {*TOFU, *(name for names in MUSE.values() for name in names)} <= METRICS.keys()
    for names in (TOFU, *MUSE.values()):
        averaged = [column.entry for column in names.values() if column.averaged]
        assert len(averaged) == len({*averaged})  # one of each entry


def test_the_log_of_muse_has_the_names_of_muse() -> None:
    rouge = {
        "forget_rouge_l_f1": Values(0.5, {"muse:news-knowmem/forget/0003": 0.5}),
        "forget_rouge_l_recall": Values(0.75, {"muse:news-knowmem/forget/0003": 0.75}),
        "retain_rouge_l_f1": Values(0.25, {"a": 0.25}),
        "extraction_strength": Values(0.1, {"a": 0.1}),
        "privleak": Values(-3.0),
    }
    of = {part: as_log(rouge, (), names_of(f"muse:news-{part}")) for part in MUSE}
    row = {"rougeL_f1": 0.5, "rougeL_recall": 0.75}
    forget = {"agg_value": 0.5, "value_by_index": {"3": row}}
    assert of["knowmem"] == {
        "forget_knowmem_ROUGE": forget,
        "retain_knowmem_ROUGE": {"agg_value": 0.25, "value_by_index": {"0": {"rougeL_f1": 0.25}}},
    }
    assert of["verbmem"] == {
        "extraction_strength": {"agg_value": 0.1, "value_by_index": {"0": {"score": 0.1}}},
        "forget_verbmem_ROUGE": forget,
    }
    assert of["privleak"] == {"privleak": {"agg_value": -3.0}}
