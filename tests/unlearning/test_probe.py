"""Measuring a model in training does not change the training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rows import FORGET, RETAIN, StoppedError, changed, log, stop_at, train

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError
from leakbound.scorers import make_scorer
from leakbound.types import Decoding, Draws, Failure, Query
from leakbound.unlearning import Trained, TrainingSettings, Watch, finetune
from leakbound.unlearning.examples import Encoder, ExampleRows
from leakbound.unlearning.probe import LeakageProbe


@pytest.fixture(scope="module")
def knowing(dropping: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives its answers most of the time."""
    out = tmp_path_factory.mktemp("knowing") / "model"
    settings = TrainingSettings(epochs=30, learning_rate=2e-2, batch_size=5)
    return finetune(str(dropping), [*FORGET, *RETAIN], out=out, settings=settings).path


WATCH = Watch(evaluate_every=2, draws=8, max_new_tokens=4, checkpoint_minutes=0)
NAMES = {"p_max forget", "p_max retain", "ED forget", "utility retain"}


def watched(base: Path, out: Path, **how: Any) -> Trained:
    return train(base, out, **{"watch": WATCH, "batch_size": 1, "epochs": 1, **how})


def measured(folder: Path) -> dict[int, dict[str, float]]:
    lines = [line for line in log(folder) if set(line) >= NAMES]
    return {int(line["step"]): {name: line[name] for name in NAMES} for line in lines}


def measure(folder: Path, **watch: Any) -> dict[str, float]:
    loaded, splits = load_model(str(folder)), {"forget": FORGET, "retain": RETAIN}
    encoder = Encoder(loaded.tokenizer, Prompting())
    data = {split: ExampleRows(encoder.rows(rows)) for split, rows in splits.items()}
    probe = LeakageProbe(loaded, Prompting(), splits, data, replace(WATCH, **watch), seed=0)
    return probe()


def test_measuring_changes_no_weight(dropping: Path, tmp_path: Path) -> None:
    """Before the first step, after every second one and after the last."""
    done = watched(dropping, tmp_path / "m")
    got = measured(done.path)
    assert sorted(got) == [0, 2, 3]
    for step, folder in ((0, dropping), (3, done.path)):
        assert got[step] == pytest.approx(measure(folder))
    plain = watched(dropping, tmp_path / "plain", watch=Watch())
    assert changed(plain.path, done.path) == set()


@pytest.mark.slow
def test_a_resumed_training_measures_nothing_twice(dropping: Path, tmp_path: Path) -> None:
    whole = watched(dropping, tmp_path / "whole")
    with pytest.raises(StoppedError):
        watched(dropping, tmp_path / "m", progress=stop_at(3))
    assert measured(watched(dropping, tmp_path / "m").path) == measured(whole.path)
    assert len(log(tmp_path / "m")) == 3 + 3


def test_figures_against_their_definitions(knowing: Path) -> None:
    """For a model whose answers repeat, so that the counts of draws matter."""
    got, loaded = measure(knowing, draws=64), load_model(str(knowing))
    largest, deviations = [], []
    for row in FORGET:
        example = Encoder(loaded.tokenizer, Prompting()).row(row)
        with torch.no_grad():
            logits = loaded.model(torch.tensor([example.inputs])).logits[0]
        largest.append(logits.softmax(-1).max(-1).values[len(example.prompt) - 1 :].mean())
    draws = Draws(sizes=(64,), seed=0, purpose="training")
    decoding = Decoding(max_new_tokens=WATCH.max_new_tokens)
    answers = {row.id: row.answer for row in FORGET}
    queries = [*map(Query.original, FORGET)]
    for sample in TransformersEngine(loaded).generate(queries, decoding, draws):
        texts = [completion.answer for completion in sample.completions]
        scores = make_scorer("rouge-l-recall").score(texts, answers[sample.query.prompt_id])
        drawn = np.repeat(scores, [completion.count for completion in sample.completions])
        deviations.append(drawn.mean() + 2 * drawn.std())
    assert np.std(deviations) > 0
    assert got["p_max forget"] == pytest.approx(float(np.mean(largest)), rel=1e-5)
    assert got["ED forget"] == pytest.approx(float(np.mean(deviations)), rel=1e-6)


def test_a_broken_model_is_not_measured(dropping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, queries: Any, *_: Any) -> Any:
        yield Failure(query=queries[0], reason="NaN")

    monkeypatch.setattr(TransformersEngine, "generate", failing)
    with pytest.raises(IncompleteError, match="query 'f0' failed during training"):
        measure(dropping)
