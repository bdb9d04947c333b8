"""Contrast centres in a training: chosen before it, kept with it, and shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rows import FORGET, RETAIN
from test_resume import StoppedError, stop_at

from leakbound.engines import loading
from leakbound.errors import InputError, MixError
from leakbound.unlearning import Selecting, TrainingSettings, choosing, unlearn
from leakbound.unlearning.batches import centre_name
from leakbound.unlearning.centres import Array
from leakbound.unlearning.reference import References
from tiny import tiny_model_folder

SETTINGS = TrainingSettings(epochs=2, learning_rate=1e-3, batch_size=2)
MANY = ("who Ann", "sky sea", "sky blue", "sky red", "red sky", "red Ann", "red blue")
ROWS = [replace(FORGET[0], paraphrases=MANY), FORGET[1], replace(FORGET[2], paraphrases=())]


class ByFirstWord:
    """An embedder of three meanings: `who`, `sky` and `red`."""

    name, fingerprint = "by first word", {"words": "first"}

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked.append(tuple(texts))
        place = {"who": (0.0, 0.0), "sky": (50.0, 0.0), "red": (0.0, 50.0)}
        return np.array([[*place[text[:3]], float(len(text))] for text in texts])


def train(base: str, out: Path, objective: str = "cel:layer=0", **how: Any) -> Any:
    own = {name: how.pop(name) for name in ("embedder", "selecting") if name in how}
    rest = {"forget": ROWS, "retain": RETAIN, "settings": replace(SETTINGS, **own), **how}
    return unlearn(base, objective, out=out, **rest)


def kept(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "centres.json").read_text())["splits"][
        "forget"
    ]
    return rows


def test_centres_are_chosen_once_and_stand_with_the_model(base: str, tmp_path: Path) -> None:
    embedder = ByFirstWord()
    out = train(base, tmp_path / "m", embedder=embedder).path
    assert embedder.asked == [(ROWS[0].question, *MANY)]  # the only row that is clustered
    first, second, third = kept(out)
    assert first["id"] == "f0"
    assert first["component"] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert len(first["chosen"]) == 3
    assert second["chosen"] == [0, 1]
    assert third["chosen"] == [0]
    assert json.loads((out / "recipe.json").read_text())["centres"] == {
        "embedder": "by first word",
        "fingerprint": {"words": "first"},
    }
    assert (
        "| contrast centres | 1 to 3 a row, of 1 to 8 candidates |"
        in (out / "README.md").read_text()
    )
    written = (out / "centres.json").read_text() + (out / "centres.svg").read_text()
    assert not any(row.answer in written for row in ROWS if row.answer)


def test_reference_values_are_those_of_the_chosen(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, list[tuple[int, ...]]] = {}
    read = References.read

    def spy(self: References, step: Any) -> Any:
        (site,) = self.assembly.needs["forget"].sites
        made = read(self, step)
        for row, values in zip(step["forget"], made["forget"], strict=True):
            names = [name for name in values if name.startswith(centre_name(site, ""))]
            found[row] = [tuple(values[name].shape) for name in sorted(names)]
        return made

    monkeypatch.setattr(References, "read", spy)
    train(base, tmp_path / "m", embedder=ByFirstWord())
    assert found == {0: [(3, 16), (2, 16), (2, 16)], 1: [(3, 16), (3, 16)], 2: [(3, 16)]}


def test_the_model_itself_is_the_embedder_unless_another_is_given(
    base: str, tmp_path: Path
) -> None:
    words = ("who wrote sea", "sea sea", "Bob wrote red", "who who who", "Ann sky")
    rows = [replace(FORGET[0], paraphrases=words)]
    out = train(base, tmp_path / "m", forget=rows).path
    assert json.loads((out / "centres.json").read_text())["embedder"] == "the model itself"
    with pytest.raises(MixError, match="made from other centres"):
        train(base, tmp_path / "m", forget=rows, embedder=_Named())


def test_input_selection_comes_first(tmp_path: Path) -> None:
    """Kept is what the model answers more surely than the question, here by plain forwards."""
    base = str(tiny_model_folder(tmp_path / "sure", initializer_range=0.8))
    loaded = loading.load_model(base)

    def surely(text: str) -> float:
        """The expected probability of the token that is drawn, Σ p²."""
        ids = loaded.tokenizer.encode(f"Question: {text}\nAnswer: ", return_tensors="pt")
        with torch.no_grad():
            return float((loaded.model(input_ids=ids).logits[0, -1].softmax(-1) ** 2).sum())

    texts = sorted(["Bob wrote red", "sea sky", "who Ann", "blue", "sky", "wrote"], key=surely)
    less, question, more = texts[0], texts[3], texts[5]
    assert surely(less) + 0.05 < surely(question) < surely(more) - 0.05  # far beyond chance
    rows = [replace(FORGET[0], question=question, paraphrases=(less, more))]
    how = Selecting(draws=1024, max_new_tokens=1)
    out = train(base, tmp_path / "m", forget=rows, selecting=how).path
    assert [row["texts"] for row in kept(out)] == [[question, more]]
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["selecting"] == {"draws": 1024, "max_new_tokens": 1}
    assert "| rewritings selected by | 1024 answers" in (out / "README.md").read_text()
    assert [row["texts"] for row in kept(train(base, tmp_path / "all", forget=rows).path)] == [
        [question, less, more]
    ]
    with pytest.raises(MixError, match="made from other selecting"):
        train(base, tmp_path / "m", forget=rows)


def test_selection_is_refused_without_centres(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'npo' has none"):
        train("no-such-model", tmp_path / "m", "npo", selecting=Selecting())


class _Named:
    name = "another"

    def embed(self, texts: Sequence[str]) -> Any:
        raise AssertionError("not reached")


def test_a_resumed_training_keeps_its_centres(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(base, tmp_path / "whole", embedder=ByFirstWord())
    with pytest.raises(StoppedError):
        train(base, tmp_path / "m", embedder=ByFirstWord(), progress=stop_at(1))
    before = (tmp_path / ".m.training/centres.json").read_text()
    monkeypatch.setattr(choosing, "_choose", None)
    done = train(base, tmp_path / "m", embedder=ByFirstWord())
    assert (done.path / "centres.json").read_text() == before
    assert (done.path / "centres.svg").is_file()
    assert done.losses == whole.losses


def test_fewer_rewritings_are_all_centres_without_scikit_learn(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an ablation over the number of centres does: k - 1 rewritings give k."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for number in (1, 2, 3):
        rows = [replace(row, paraphrases=MANY[: number - 1]) for row in FORGET]
        out = train(base, tmp_path / f"{number}", forget=rows, embedder=_Named()).path
        assert [row["chosen"] for row in kept(out)] == [[*range(number)]] * 3
        assert not (out / "centres.svg").exists()
        assert "centres" not in json.loads((out / "recipe.json").read_text())


def test_objectives_without_centres_write_none(base: str, tmp_path: Path) -> None:
    out = train(base, tmp_path / "m", "npo", embedder=_Named()).path
    assert not (out / "centres.json").exists()
    assert "contrast centres" not in (out / "README.md").read_text()


def test_what_cannot_work_is_refused_before_the_model_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    with pytest.raises(InputError, match=r"beta = 0 needs a contrast centre .* row 'f2' of forget"):
        train("no-such-model", tmp_path / "m", "cel:layer=0,beta=0")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"pip install '\.\[centres\]'"):
        train("no-such-model", tmp_path / "m")


def test_clustering_that_leaves_the_question_alone_is_refused_with_beta_0(
    base: str, tmp_path: Path
) -> None:
    class Blind(_Named):
        def embed(self, texts: Sequence[str]) -> Array:
            return np.ones((len(texts), 3))

    with pytest.raises(InputError, match=r"row 'f0' of forget has none. Add rewritings"):
        train(base, tmp_path / "m", "cel:layer=0,beta=0", forget=ROWS[:2], embedder=Blind())
    train(base, tmp_path / "m", "cel:layer=0,beta=0", forget=ROWS[:2], embedder=ByFirstWord())
    assert len(train(base, tmp_path / "n", forget=ROWS[:2], embedder=Blind()).losses) == 2


def test_a_rewriting_over_the_limit_is_refused(base: str, tmp_path: Path) -> None:
    rows = [replace(FORGET[2], paraphrases=("who " * 130,))]
    with pytest.raises(
        InputError, match="a rewriting of row 'f2' has 132 tokens, the limit is 128"
    ):
        train(base, tmp_path / "m", forget=rows)
