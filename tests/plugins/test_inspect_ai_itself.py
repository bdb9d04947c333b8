"""The plug-in for inspect_ai inside inspect_ai: `sh tests/engines.sh inspect_ai`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import accuracy, includes
from inspect_ai.solver import generate

import leakbound
from leakbound.formats.importing import import_run
from leakbound.plugins.inspect_ai import (
    StopWhen,
    leak_at_k,
    leak_probability,
    mean_leakage,
    scored_by,
    worst_sample,
)

pytestmark = pytest.mark.filterwarnings("ignore")
SCORER = "logged:by=includes,values=binary"
LAWS = (0.0, 0.1, 0.5)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count tokens without the table that inspect_ai would fetch."""
    counts = "inspect_ai.model._model.count_text_tokens"
    monkeypatch.setattr(counts, lambda text, *_: len(text), raising=False)


def run(tmp_path: Path, seed: int, *, epochs: int = 48, fail: float = 0.0, **task: Any) -> Any:
    """A log of a task whose model answers each question correctly with a known probability."""
    chance = random.Random(seed)

    def answer(messages: Any, *_: Any) -> ModelOutput:
        if chance.random() < fail:
            raise RuntimeError("lost")
        right = chance.random() < LAWS[int(messages[-1].text.rpartition(" ")[2])]
        return ModelOutput.from_content("mockllm/model", "It is Paris" if right else "No idea")

    wanted = [Sample(id=f"q{i}", input=f"Capital {i}", target="Paris") for i in range(len(LAWS))]
    made = Task(
        dataset=MemoryDataset(wanted),
        solver=generate(),
        epochs=epochs,
        **{"scorer": includes(), **task},
    )
    (log,) = evaluate(
        made,
        model=get_model("mockllm/model", custom_outputs=answer),
        temperature=1.0,
        log_dir=str(tmp_path / f"logs-{seed}"),
        fail_on_error=False,
        display="none",
    )
    return log


def bounded(log: Any, tmp_path: Path) -> Any:
    """Return the estimates of the log after an import."""
    run = import_run([log.location], out=tmp_path / "run")
    leakbound.bound(run)
    return run.estimates


def figures(log: Any) -> dict[str, float]:
    return {name: one.value for score in log.results.scores for name, one in score.metrics.items()}


@pytest.mark.parametrize("seed", range(20))
def test_it_prints_the_estimates_of_an_import(tmp_path: Path, seed: int) -> None:
    """To the digit, also with failed epochs: the log states the seed of the order of bets."""
    log = run(
        tmp_path,
        seed,
        fail=0.1 if seed % 2 else 0.0,
        metrics=[accuracy(), leak_probability(48), worst_sample(48), leak_at_k(4, 48)],
    )
    assert log.status == "success"
    got = figures(log)
    estimates = bounded(log, tmp_path)
    where = {"scorer": SCORER}
    for name, row in (
        ("leak", estimates.mean("leak probability", **where)),
        ("worst", estimates.worst("leak probability", **where)),
    ):
        ends = [got[name], got[f"{name} lower"], got[f"{name} upper"]]
        assert ends == [row.value, row.lower, row.upper]
    assert got.get("missing", 0.0) == pytest.approx(
        sum(row.missing for row in estimates.each("leak probability", **where)) / (48 * 3)
    )
    assert got["leak@4 lower"] <= got["leak@4"] <= got["leak@4 upper"]


def test_zero_of_many_has_an_upper_end(tmp_path: Path) -> None:
    log = run(tmp_path, 1, epochs=64, metrics=[worst_sample(64), leak_probability(64, samples=5)])
    got = figures(log)
    assert got["missing"] == pytest.approx(2 / 5)  # two samples never arrived
    assert got["leak upper"] > 0.4
    assert got["worst lower"] > 0.2


def test_a_graded_score_is_bounded(tmp_path: Path) -> None:
    log = run(tmp_path, 2, scorer=scored_by("rouge-l-recall"), metrics=[mean_leakage(48)])
    got = figures(log)
    assert got["mean lower"] < 0.2 < got["mean upper"]
    row = bounded(log, tmp_path).mean("mean leakage", scorer="logged:by=scored_by")
    assert [got["mean lower"], got["mean upper"]] == [row.lower, row.upper]
    again = run(tmp_path, 2, scorer=scored_by("rouge-l-recall"), metrics=[mean_leakage(48, seed=5)])
    assert figures(again)["seed"] == 5


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_stopped_is_bounded_by_its_rule(tmp_path: Path, seed: int) -> None:
    rule = StopWhen("p<=0.05", most=160)
    metrics = [leak_probability(rule), worst_sample(rule)]
    log = run(tmp_path, seed, epochs=160, early_stopping=rule, metrics=metrics)
    got, shown = figures(log), log.results.early_stopping
    assert shown.manager == "leakbound"
    assert set(shown.metadata["decided"]) >= {"q2"}
    assert len(log.samples) < 3 * 160
    estimates = bounded(log, tmp_path)
    for name, row in (
        ("leak", estimates.mean("leak probability", scorer=SCORER)),
        ("worst", estimates.worst("leak probability", scorer=SCORER)),
    ):
        assert [got[f"{name} lower"], got[f"{name} upper"]] == [row.lower, row.upper]
