"""What is measured while a model is trained, and that measuring changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rows import FORGET, RETAIN, changed

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError, InputError
from leakbound.scorers import make_scorer
from leakbound.types import Decoding, Draws, Failure, Query
from leakbound.unlearning import Trained, TrainingSettings, Watch, finetune, unlearn
from leakbound.unlearning.examples import Encoder, Rows
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.own_answers import LeakageProbe
from tiny import tiny_model_folder

SETTINGS = TrainingSettings(epochs=3, learning_rate=1e-3, batch_size=2)  # six steps
WATCH = Watch(evaluate_every=4, draws=8, max_new_tokens=4, checkpoint_minutes=0)
NAMES = {"p_max forget", "p_max retain", "ED forget", "utility retain"}


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With dropout, which measuring must not disturb.
    return tiny_model_folder(tmp_path_factory.mktemp("base") / "model", attention_dropout=0.2)


@pytest.fixture(scope="module")
def knowing(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows all the answers."""
    out = tmp_path_factory.mktemp("knowing") / "model"
    settings = TrainingSettings(epochs=150, learning_rate=1e-2, batch_size=5)
    return finetune(str(base), [*FORGET, *RETAIN], out=out, settings=settings).path


def train(base: Path, out: Path, **how: Any) -> Trained:
    rest: dict[str, Any] = {"settings": SETTINGS, "watch": WATCH, **how}
    return unlearn(str(base), "npo", forget=FORGET, retain=RETAIN, out=out, **rest)


def measured(folder: Path) -> dict[int, dict[str, float]]:
    """By step, what its log says was measured."""
    lines = [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]
    return {
        line["step"]: {name: line[name] for name in NAMES} for line in lines if set(line) >= NAMES
    }


def measure(folder: Path, **watch: Any) -> dict[str, float]:
    loaded, splits = load_model(str(folder)), {"forget": FORGET, "retain": RETAIN}
    encoder = Encoder(loaded.tokenizer, Prompting())
    data = {split: Rows(encoder.rows(rows)) for split, rows in splits.items()}
    watching = replace(WATCH, **watch)
    return LeakageProbe(loaded, Prompting(), splits, data, watching, seed=0)(
        Forward(loaded.model, narrow=True)
    )


def test_measured_before_training_every_so_often_and_at_the_end(base: Path, tmp_path: Path) -> None:
    done = train(base, tmp_path / "m")
    found = measured(done.path)
    assert sorted(found) == [0, 4, 6]
    for step, folder in ((0, base), (6, done.path)):
        assert found[step] == pytest.approx(measure(folder))


def test_measuring_does_not_change_the_weights(base: Path, tmp_path: Path) -> None:
    plain = train(base, tmp_path / "plain", watch=Watch())
    assert changed(plain.path, train(base, tmp_path / "m").path) == set()


@pytest.mark.slow
def test_stopped_and_gone_on_with_nothing_is_measured_twice(base: Path, tmp_path: Path) -> None:
    whole = train(base, tmp_path / "whole")

    def stop(step: int, *_: object) -> None:
        if step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(base, tmp_path / "m", progress=stop)
    assert measured(train(base, tmp_path / "m").path) == measured(whole.path)
    lines = (tmp_path / "m/training.jsonl").read_text().splitlines()
    assert len(lines) == 6 + 3


@pytest.mark.slow
def test_a_model_that_knows_everything(knowing: Path) -> None:
    found = measure(knowing, draws=64)
    assert found["utility retain"] == 1.0
    assert found["p_max forget"] > 0.9
    assert 0.9 < found["ED forget"] < 1.5


def test_figures_against_their_definitions(base: Path) -> None:
    found = measure(base, questions=2, draws=4)
    loaded = load_model(str(base))
    each = []
    for row in FORGET[:2]:
        example = Encoder(loaded.tokenizer, Prompting()).row(row)
        with torch.no_grad():
            logits = loaded.model(torch.tensor([example.inputs])).logits[0]
        largest = logits.softmax(-1).max(-1).values[len(example.prompt) - 1 :]
        each.append(largest.mean())
    assert found["p_max forget"] == pytest.approx(float(np.mean(each)), rel=1e-5)


def test_ed_is_of_draws_with_their_counts(knowing: Path) -> None:
    """Of a model whose answers repeat, so that counts matter."""
    found = measure(knowing, draws=64)
    loaded, each = load_model(str(knowing)), []
    draws = Draws(sizes=(64,), seed=0, purpose="training")
    decoding = Decoding(max_new_tokens=WATCH.max_new_tokens)
    queries = [Query.original(row) for row in FORGET]
    for sample in TransformersEngine(loaded).generate(queries, decoding, draws):
        (answer,) = [row.answer for row in FORGET if row.id == sample.query.prompt_id]
        texts = [completion.text for completion in sample.completions]
        scores = make_scorer("rouge-l-recall").score(texts, answer)
        drawn = np.repeat(scores, [completion.count for completion in sample.completions])
        each.append(drawn.mean() + 2 * drawn.std())
    assert np.std(each) > 0
    assert found["ED forget"] == pytest.approx(float(np.mean(each)), rel=1e-6)


def test_a_broken_model_is_not_measured(base: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leakbound.engines.hf.TransformersEngine.generate", failing)
        with pytest.raises(IncompleteError, match="'f0' could not be asked"):
            measure(base)


def failing(self: Any, queries: Any, *_: Any) -> Any:
    yield Failure(query=queries[0], reason="NaN")


@pytest.mark.parametrize(
    "watch",
    [
        {"checkpoint_minutes": -1.0},
        {"evaluate_every": 0},
        {"questions": 0},
        {"draws": 0},
        {"max_new_tokens": 0},
    ],
)
def test_impossible_watching_is_refused(watch: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(watch))}` must be"):
        Watch(**watch)


@pytest.mark.parametrize(
    ("name", "message"),
    [("wandbb", "no tracker 'wandbb'. Did you mean 'wandb'"), ("wandb", "'wandb' is not inst")],
)
def test_trackers_that_are_not_there_are_refused_early(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train(Path("no-such-model"), tmp_path / "m", watch=Watch(report_to=(name,)))
