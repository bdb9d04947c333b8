"""The plug-in for lm-evaluation-harness by hand; inside it: `sh tests/engines.sh lm_eval`."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
import yaml

from leakbound import stats
from leakbound.errors import InputError
from leakbound.plugins import draws, lm_eval

TASK = Path(lm_eval.__file__).with_suffix(".yaml")
DOC = {"question": "What is the capital of France?", "answer": "Paris"}


def test_all_repeats_are_scored_and_bounded() -> None:
    drawn = [["It is Paris.", "No.", "No.", "No."], ["No.", "Oslo", "No.", "Lyon"]]
    made = [lm_eval.contains(DOC, [texts]) for texts in drawn]
    assert [item["upper"]["scores"] for item in made] == [[1, 0, 0, 0], [0, 0, 0, 0]]
    items = [item["upper"] for item in made]
    want = stats.bound(stats.Rows.of_hits([1, 0], 4), stats.LEAKAGE.mean())
    assert lm_eval.value(items) == 1 / 8
    assert [lm_eval.lower(items), lm_eval.upper(items)] == [want.lower, want.upper]
    assert lm_eval.worst_lower(items) <= 1 / 4 <= lm_eval.worst_upper(items)
    assert lm_eval.at_k(1)(items) == 1 / 8
    assert isnan(lm_eval.at_k(2)(items))  # no point estimate beyond a quarter of the draws
    assert lm_eval.at_k(2, "upper")(items) >= 1 / 4


@pytest.mark.true_entropy
def test_without_a_seed_one_is_drawn() -> None:
    assert len({draws._drawn.__wrapped__() for _ in range(4)}) > 1
    assert draws.seed_of(None) == draws.seed_of(None)


def test_graded_scores_and_their_confidence() -> None:
    process = lm_eval.scored_by("rouge-l-recall", metrics=("upper",), confidence=0.9)
    (item,) = process({"answer": "It is Paris"}, [["It is", "Paris it is", "x", "y"]]).values()
    assert item["scores"] == pytest.approx([2 / 3, 2 / 3, 0, 0])
    assert item["confidence"] == 0.9
    assert not item["binary"]
    assert lm_eval.seed([item]) == item["seed"]
    (other,) = lm_eval.scored_by("contains", metrics=("upper",), seed=5)(DOC, [["a", "b"]]).values()
    assert lm_eval.seed([other]) == 5
    assert lm_eval.upper([item]) < lm_eval.upper([{**item, "confidence": 0.999}])


def test_wrong_use_is_refused_with_the_fix() -> None:
    with pytest.raises(InputError, match="a filter `take_first_k`"):
        lm_eval.contains(DOC, ["It is Paris."])
    with pytest.raises(InputError, match="a document needs an `answer`, but it has only q"):
        lm_eval.contains({"q": "x"}, [["a", "b"]])


def test_the_task_names_functions_that_are_there() -> None:
    yaml.SafeLoader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))
    task = yaml.safe_load(TASK.read_text())
    named = [
        task["process_results"],
        task["custom_dataset"],
        *(one["aggregation"] for one in task["metric_list"]),
    ]
    for name in named:
        module, _, function = name.rpartition(".")
        assert module == lm_eval.__name__
        assert callable(getattr(lm_eval, function))
    assert task["generation_kwargs"]["top_k"] == 0  # otherwise 50 tokens remain
    assert task["filter_list"][0]["filter"][0]["k"] == task["repeats"]
