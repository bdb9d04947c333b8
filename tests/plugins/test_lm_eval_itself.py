"""The plug-in for lm-evaluation-harness inside it: `sh tests/engines.sh lm_eval`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval")

import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

import leakbound
from leakbound.formats.importing import import_run
from leakbound.plugins import lm_eval as plug_in

pytestmark = pytest.mark.filterwarnings("ignore")
TASK = Path(plug_in.__file__).with_suffix(".yaml")
LAWS = {"France": 0.0, "Spain": 0.1, "Norway": 0.5}
REPEATS = 48


class Model(LM):
    """Answers each question correctly with a known probability."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return [self._answer(request.args[0]) for request in requests]

    def _answer(self, question: str) -> str:
        land = next(land for land in LAWS if land in question)
        right = self.chance.random() < LAWS[land]
        return "It is Paris, Madrid or Oslo" if right else "No idea"

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def short(tmp_path: Path) -> Path:
    """The task as it is in the wheel, with fewer repeats."""
    text = TASK.read_text().replace("1024", str(REPEATS))
    (tmp_path / "task.yaml").write_text(text)
    return tmp_path / "task.yaml"


@pytest.mark.parametrize("seed", range(20))
def test_it_prints_the_estimates_of_an_import(tmp_path: Path, seed: int) -> None:
    """To the digit: the samples state the seed of the order of bets."""
    task = short(tmp_path)
    got = lm_eval.simple_evaluate(
        model=Model(seed),
        tasks=["leakbound_capitals"],
        task_manager=TaskManager(include_path=str(task.parent), include_defaults=False),
        log_samples=True,
        bootstrap_iters=100,
    )
    seen = got["results"]["leakbound_capitals"]
    ends = [seen[f"{name},every-repeat"] for name in ("leakage", "lower", "upper")]
    assert ends[1] < sum(LAWS.values()) / 3 < ends[2]
    assert seen["upper_stderr,every-repeat"] == "N/A"
    tracker = EvaluationTracker(output_path=str(tmp_path / "out"))
    tracker.general_config_tracker.model_name = "known"
    samples = got.pop("samples")
    tracker.save_results_aggregated(results=got, samples=samples)
    for name, rows in samples.items():
        tracker.save_results_samples(task_name=name, samples=rows)
    (log,) = tmp_path.glob("out/**/samples_*.jsonl")
    run = import_run([log], out=tmp_path / "run")
    leakbound.score(run, ["contains"])
    leakbound.bound(run, ["contains"])
    row = run.estimates.mean("leak probability", scorer="contains")
    assert ends == [row.value, row.lower, row.upper]
    draws = run.arms["target"].spec.draws
    assert (draws.order, draws.in_doubt) == (seen["seed,every-repeat"], "")


def test_without_the_filter_the_task_fails_with_the_fix(tmp_path: Path) -> None:
    text = short(tmp_path).read_text()
    start, end = text.index("filter_list"), text.index("process_results")
    (tmp_path / "task.yaml").write_text(text[:start] + text[end:])
    with pytest.raises(leakbound.LeakboundError, match="a filter `take_first_k`"):
        lm_eval.simple_evaluate(
            model=Model(1),
            tasks=["leakbound_capitals"],
            task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        )
