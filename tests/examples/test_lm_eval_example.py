"""The metric for lm-evaluation-harness: by hand, and inside it where it is installed."""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from stand_ins import EXAMPLES, load

from leakbound import stats

has_lm_eval = find_spec("lm_eval") is not None


def test_repeats_are_scored_and_bounded() -> None:
    example, doc = load("lm_eval_metric"), {"answer": "Paris"}
    found = example.process_results(doc, [["In Paris.", "No.", "Paris"]])
    assert found == {"mean_leakage": [1.0, 0.0, 1.0], "mean_leakage_upper": [1.0, 0.0, 1.0]}
    items = [[1.0, 0.0, 1.0, 0.0], [0.0, None, 0.0, None]]
    wanted = stats.mean_over_questions(
        [[1, 0, 1, 0], [0, 0, 0, 0]], [[1, 1, 1, 1], [1, 0, 1, 0]], missing=[0, 2]
    )
    assert (example.mean(items), example.upper(items)) == (wanted.value, wanted.upper)
    assert wanted.confidence == example.CONFIDENCE


def test_the_task_hands_over_as_many_repeats_as_it_draws() -> None:
    lines = (EXAMPLES / "lm_eval_task.yaml").read_text().splitlines()
    said = dict(line.strip().removeprefix("- ").split(": ", 1) for line in lines if ": " in line)
    assert said["repeats"] == said["k"]
    assert (said["do_sample"], said["top_k"], said["top_p"]) == ("true", "0", "1.0")
    example = load("lm_eval_metric")
    named = [word.split(".")[1] for word in " ".join(lines).split() if word.startswith("lm_eval_")]
    assert sorted(named) == ["mean", "process_results", "upper"]
    assert all(hasattr(example, name) for name in named)


@pytest.mark.skipif(not has_lm_eval, reason="lm-evaluation-harness is not installed")
@pytest.mark.filterwarnings("ignore")
def test_inside_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval
    from lm_eval.api.model import LM

    class Canned(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            chance = random.Random(0)
            return ["Paris" if chance.random() < 0.3 else "No idea" for _ in requests]

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    task = str(EXAMPLES / "lm_eval_task.yaml")
    found = lm_eval.simple_evaluate(model=Canned(), tasks=[task], bootstrap_iters=0)
    values = found["results"]["capitals_leakage"]
    mean, upper = (values[f"{m},every-repeat"] for m in ("mean_leakage", "mean_leakage_upper"))
    assert 0 < mean < upper < 1
