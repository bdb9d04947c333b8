"""Parity with OpenUnlearning from its logs, refusals of damaged logs, and exported logs."""

from __future__ import annotations

import copy
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from contents import drawn
from formats.reading import read
from leakbound.errors import InputError
from leakbound.formats.openunlearning import (
    MUSE,
    PREFIXES,
    TOFU,
    against_log,
    as_log,
    as_summary,
    names_of,
    read_log,
    rows,
)
from leakbound.metrics import METRICS, Values, likelihood, membership, utility
from leakbound.metrics.membership import zlib_score
from leakbound.text.rouge import rouge_l
from metric_items import reading
from suites import DATA, needs_data

LOGS = DATA / "openunlearning_logs"
FULL = LOGS / "tofu_Llama-3.2-1B-Instruct_full/evals_forget10/TOFU_EVAL.json"
RETRAINED = LOGS / "tofu_Llama-3.2-1B-Instruct_retain90/TOFU_EVAL.json"
real_logs = needs_data("openunlearning_logs")
# Values that OpenUnlearning printed for the first log, with the second as its reference.
PUBLISHED = {
    "forget_quality": 3.9054713571083378e-22,
    "model_utility": 0.5991534707368931,
    "privleak": -99.45739100654656,
    "membership_min_k": 0.99665,
}
FACTS = ("real_authors", "world_facts")
real = cache(read_log)


def made(path: Path, name: str) -> tuple[dict[int, float], float]:
    """Compute a metric of a part of a log by our functions: its rows, and their aggregate."""
    log, (entry, key, _) = real(path), TOFU[name]
    part = next(part for part in PREFIXES if name.startswith(part))
    usual: Any = lambda values: float(np.mean(values))  # noqa: E731
    if name.endswith("_recall"):
        shown, right = (log.column(entry, key, str) for key in ("generation", "ground_truth"))
        got = {row: float(rouge_l([shown[row]], right[row]).recall[0]) for row in shown}
    elif name.endswith("_normalised_probability"):
        got = compared(path, part, "prob", likelihood.normalised_probability)
    elif name.endswith("_truth_ratio"):
        ratio, of = likelihood.truth_ratio, lambda loss: reading([loss])
        got = compared(path, part, "avg_loss", lambda a, b: ratio(of(a), [*map(of, b)]))
        usual = likelihood.utility_truth_ratio
        usual = likelihood.forget_truth_ratio if part == "forget" else usual
    else:
        got = log.column(entry, key, float)
    return got, usual([*got.values()])


def compared(path: Path, part: str, key: str, how: Any) -> dict[int, float]:
    """Compare the right answer of every row, or its paraphrase, with its wrong ones."""
    kind = "Q_A" if part in FACTS else "Q_A_PARA"
    right = real(path).column(f"{PREFIXES[part]}_{kind}_Prob", key, float)
    wrong = real(path).metric(f"{PREFIXES[part]}_Q_A_PERT_Prob")["value_by_index"]
    return {row: how(right[row], wrong[str(row)][key]) for row in right}


def attack_of(path: Path) -> float:
    """Return the AUC of min-k, from the scores of both sides."""
    logged = json.loads(path.read_text())["mia_min_k"]
    sides = (logged[side]["value_by_index"].values() for side in ("forget", "holdout"))
    return membership.auc(*([row["score"] for row in side] for side in sides))


@real_logs
@pytest.mark.parametrize("path", [FULL, RETRAINED], ids=["full", "retrained"])
@pytest.mark.parametrize(
    "name", ["forget_truth_ratio", "forget_rouge_l_recall", *utility.UTILITY_TERMS]
)
def test_rows_and_aggregates_are_those_of_the_published_logs(path: Path, name: str) -> None:
    got, value = made(path, name)
    entry, key, _ = TOFU[name]
    assert got == pytest.approx(real(path).column(entry, key, float), rel=1e-12)
    assert value == pytest.approx(real(path).value(entry), rel=1e-9)


@real_logs
def test_what_joins_several_is_as_published() -> None:
    terms = {name: made(FULL, name)[1] for name in utility.UTILITY_TERMS}
    ratios = [[*made(path, "forget_truth_ratio")[0].values()] for path in (FULL, RETRAINED)]
    inside = attack_of(FULL)
    got = {
        "forget_quality": utility.forget_quality(*ratios),
        "model_utility": utility.model_utility(terms),
        "privleak": membership.privleak(inside, attack_of(RETRAINED)),
        "membership_min_k": inside,
    }
    assert got == pytest.approx(PUBLISHED, rel=1e-9)
    summary = read_log(FULL.with_name("TOFU_SUMMARY.json"))
    assert {name: summary.value(TOFU[name].entry) for name in PUBLISHED} == pytest.approx(
        PUBLISHED, rel=1e-9
    )


@real_logs
def test_the_loss_attacks_scores_equal_the_stored_ones() -> None:
    log = real(FULL)
    losses, texts = log.column("forget_Q_A_Prob", "avg_loss", float), log.column(*ANSWERED, str)
    stored = json.loads(FULL.read_text())
    loss, zlib = (
        {int(row): each["score"] for row, each in stored[name]["forget"]["value_by_index"].items()}
        for name in ("mia_loss", "mia_zlib")
    )
    assert loss == losses
    reads = {row: reading([loss], text=texts[row]) for row, loss in losses.items()}
    assert zlib == pytest.approx({row: zlib_score(read) for row, read in reads.items()}, rel=1e-12)


ANSWERED = ("forget_Q_A_ROUGE", "ground_truth")


@real_logs
def test_greedy_answers_are_read_by_row() -> None:
    for part in PREFIXES:
        log = read(FULL, part=part)
        assert len(log.draws) == {"real_authors": 100, "world_facts": 117}.get(part, 400)
        assert log.decoding.greedy


def metric(key: str, *values: object) -> dict[str, Any]:
    entries = {str(row): {key: value} for row, value in enumerate(values)}
    return {"agg_value": 0.5, "value_by_index": entries}


SMALL: dict[str, Any] = {
    "forget_truth_ratio": metric("score", 0.2, 0.1),
    "mia_min_k": {"agg_value": 0.5},
}
OURS = {
    "forget_truth_ratio": Values(0.5, {"tofu:forget10/0000": 0.4, "tofu:forget10/0001": 2.7}),
    "membership_min_k": Values(0.875),
    "forget_probability": Values(0.1),
}


def written(folder: Path, **changes: Any) -> Path:
    file = folder / "RETRAINED_EVAL.json"
    file.write_text(json.dumps({**copy.deepcopy(SMALL), **changes}))
    return file


def test_the_retrained_log_is_used_unchanged(tmp_path: Path) -> None:
    got = against_log(OURS, read_log(written(tmp_path)))
    assert {name: round(each.value or 0, 6) for name, each in got.items()} == {
        "forget_quality": round(stats.ks_2samp([0.4, 2.7], [0.2, 0.1]).pvalue, 6),
        "privleak": -75.0,
        "rel_diff": 75.0,
    }
    own = tmp_path / "OURS_EVAL.json"
    own.write_text(json.dumps(as_log(OURS, ())))
    assert against_log(OURS, read_log(own))["forget_quality"].value == 1.0


ANSWER = {"input": "Who?", "ground_truth": "Ann did", "generation": "It was Ann"}


def compare(file: Path) -> object:
    return against_log(OURS, read_log(file))


def answered(**changes: object) -> dict[str, Any]:
    return {"forget_Q_A_ROUGE": {"agg_value": 0.5, "value_by_index": {"3": ANSWER | changes}}}


def scored(**entries: object) -> dict[str, Any]:
    by_row = {"0": 0.2, "1": 0.1} | entries
    rows = {row: {"score": score} for row, score in by_row.items()}
    return SMALL | {"forget_truth_ratio": {"agg_value": 0.5, "value_by_index": rows}}


@pytest.mark.parametrize(
    ("use", "content", "message"),
    [
        (read_log, "{not json", "is not valid JSON"),
        (compare, SMALL | {"mia_min_k": {"auc": 1}}, "'mia_min_k' of .*: `agg_value` is None"),
        *((compare, scored(**{key: 0.1}), f"'forget_truth_ratio' of .* for '{key}'")
          for key in ("forget10_0", "1.0", "-1", "01")),
        *((compare, scored(**{"1": bad}), f"`score` in row 1 is {bad}")
          for bad in (math.nan, math.inf, None, True)),
        (compare, scored(**{"2": 0.4}),
         "3 rows, but the evaluated model has 2; only one of the models has row 2"),
        (read, SMALL, r"_EVAL.json' has no metric 'forget_Q_A_ROUGE'\. .*"),
        (read, answered(generation=None), "`generation` in row 3 is None, not a text"),
    ],
)  # fmt: skip
def test_an_unusable_log_is_named(tmp_path: Path, use: Any, content: Any, message: str) -> None:
    file = tmp_path / "TOFU_EVAL.json"
    with pytest.raises(InputError, match=r"cannot read .*TOFU_EVAL\.json"):
        use(file)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=message) as refused:
        use(file)
    assert str(file) in str(refused.value)


def test_answers_are_read(tmp_path: Path) -> None:
    log = read(written(tmp_path, **answered()))
    (got,) = log.questions.values()
    assert (got.id, got.text, got.answers) == ("3", "Who?", ("Ann did",))
    assert log.draws == {"3": [drawn("It was Ann")]}


def test_the_written_log_has_their_shape() -> None:
    got = {
        "forget_truth_ratio": Values(0.5, {"tofu:forget10/0007": 0.25, "tofu:forget10/0002": 2.0}),
        "forget_probability": Values(0.1, {"a": 0.1}),
        "membership_min_k": Values(0.75, {"f/0": 1.0, "f/1": 2.0, "h/0": 3.0}),
        "forget_quality": Values(None),
        "forget_entropy": Values(1.0, {"a": 1.0}),
    }
    log = as_log(got, {"f/0", "f/1"})
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
    assert as_summary(log) == {"forget_Q_A_Prob": 0.1, "forget_truth_ratio": 0.5, "mia_min_k": 0.75}


def test_nothing_that_is_no_number_is_written() -> None:
    with pytest.raises(InputError, match="forget_truth_ratio is nan for 'b'"):
        as_log({"forget_truth_ratio": Values(0.5, {"a": 0.1, "b": math.nan})}, ())
    with pytest.raises(InputError, match="privleak is inf for its aggregate"):
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
