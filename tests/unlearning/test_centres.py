"""Contrast centres: clustered in made-up groups, chosen once before a training, stored with it."""

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
from rows import FORGET, StoppedError, recipe, stop_at, train

from leakbound.engines import loading
from leakbound.errors import InputError, MixError
from leakbound.types import Prompt
from leakbound.unlearning import ModelAnswers, Trained, centres
from leakbound.unlearning.batches import centre_name
from leakbound.unlearning.centres import Array, candidates, contrast_centres
from leakbound.unlearning.reference import References
from tiny import tiny_model_folder


def texts_of(number: int) -> list[str]:
    """Texts whose first one is neither first nor last in alphabetical order."""
    return ["mm", *(f"{chr(97 + i)}{i}" for i in range(number - 1))]


def grouped(groups: int, number: int, seed: int = 0) -> tuple[list[int], Array]:
    """Points around means in 30 dimensions: spread 1, distance six."""
    chance = np.random.default_rng([groups, number, seed])
    means = chance.normal(size=(groups, 30)) * 6 / np.sqrt(60)
    group = [i % groups for i in range(number)]
    return group, means[group] + chance.normal(size=(number, 30)) / np.sqrt(30)


def partition(labels: list[int] | tuple[int, ...]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(np.array(labels) == each).tolist()) for each in labels}


def on_a_line() -> tuple[list[int], Array]:
    """All variance is in one dimension: the prior, equally wide in each, is narrow in this."""
    group, noise = grouped(3, 13)
    noise[:, 0] = np.random.default_rng(0).normal(size=13) + 30 * np.array(group)
    return group, noise


GROUPED = [grouped(groups, number) for groups in (2, 3, 4) for number in (8, 13, 21)]
SAME = [([0] * n, np.full((n, 5), 0.3, dtype=np.float32)) for n in (4, 9)]
TWICE = ([0, 1] * 4, np.array([[0.0], [5.0]] * 4))  # fewer places than components: no warning


@pytest.mark.parametrize(
    ("group", "vectors"), [*GROUPED, grouped(1, 21), on_a_line(), *SAME, TWICE]
)
def test_groups_that_are_there_are_detected(group: list[int], vectors: Array) -> None:
    got = contrast_centres(texts_of(len(group)), vectors)
    assert partition(got.component) == partition(group)
    assert sorted(group[i] for i in got.chosen) == sorted(set(group))
    assert got.chosen[0] == got.component[0] == 0
    dimensions = np.linalg.matrix_rank(vectors - vectors[0])
    assert not np.array(got.coordinates)[:, dimensions:].any()


def test_the_nearest_to_the_mean_is_chosen_and_the_question_for_its_own() -> None:
    """Two lines of points; the question is at the end of one, never in the middle."""
    line = np.array([-2.0, 2.0, 0.1, -1.0, 1.0])
    near = np.stack([line, np.zeros(5), np.zeros(5)], axis=1)
    far = near + np.array([0.0, 60.0, 0.0])
    vectors = np.concatenate([near, far])
    got = contrast_centres(texts_of(10), vectors)
    assert got.component == (0,) * 5 + (1,) * 5
    assert got.chosen == (0, 7)  # not 2, which is nearest the mean of the question's


def test_order_makes_no_difference_and_the_seed_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without clear groups, so that every number matters."""
    texts = texts_of(13)
    vectors = np.random.default_rng(3).normal(size=(13, 6))
    first = contrast_centres(texts, vectors, seed=1)
    assert contrast_centres(texts, vectors, seed=1) == first
    chance = np.random.default_rng(0)
    for _ in range(4):
        order = [0, *(1 + chance.permutation(12)).tolist()]
        other = contrast_centres([texts[i] for i in order], vectors[order], seed=1)
        assert {order[i] for i in other.chosen} == set(first.chosen)
        back = [other.component[order.index(i)] for i in range(13)]
        assert partition(back) == partition(first.component)
        assert [other.coordinates[order.index(i)] for i in range(13)] == list(first.coordinates)
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr("sklearn.mixture.BayesianGaussianMixture", lambda **how: seen.append(how))
    with pytest.raises(AttributeError):
        contrast_centres(texts, vectors, seed=7)
    assert seen[0]["random_state"] == 7


def test_coordinates_are_the_two_widest_directions() -> None:
    noise = np.random.default_rng(1).normal(size=(12, 5))
    columns, _ = np.linalg.qr(noise - noise.mean(0))  # orthogonal, each of mean 0
    vectors = 7.0 + columns * [1.0, 20.0, 0.1, 5.0, 0.1]
    got = np.array(contrast_centres(texts_of(12), vectors).coordinates)
    np.testing.assert_allclose(np.abs(got), np.abs(columns[:, [1, 3]] * [20.0, 5.0]), atol=1e-9)


def test_vectors_that_cannot_be_clustered_are_refused() -> None:
    with pytest.raises(InputError, match="one row for each of 4 texts"):
        contrast_centres(texts_of(4), np.zeros((3, 2)))
    bad = np.zeros((4, 2))
    bad[2, 1] = np.nan
    with pytest.raises(InputError, match="embedding of 'b1' is not finite"):
        contrast_centres(texts_of(4), bad)


def test_candidates_are_the_question_and_every_other_text_once() -> None:
    row = Prompt(
        id="a",
        question="Who wrote  it?",
        paraphrases=("By whom?", "who wrote it?", " ", "BY  whom?", "Its author?"),
    )
    assert candidates(row) == ("Who wrote  it?", "By whom?", "Its author?")
    assert candidates(Prompt(id="b", question="Who?")) == ("Who?",)


MANY = ("who Ann", "sky sea", "sky blue", "sky red", "red sky", "red Ann", "red blue")
ROWS = [replace(FORGET[0], paraphrases=MANY), FORGET[1], replace(FORGET[2], paraphrases=())]


def centred(base: str, out: Path, objective: str = "cel:layer=0", **how: Any) -> Trained:
    return train(base, out, objective, **{"forget": ROWS, "epochs": 1, "warmup_ratio": 0.0, **how})


def kept(out: Path) -> list[dict[str, Any]]:
    got: list[dict[str, Any]] = json.loads((out / "centres.json").read_text())["splits"]["forget"]
    return got


class ByFirstWord:
    """An embedder of three meanings: `who`, `sky` and `red`."""

    name, fingerprint = "by first word", {"words": "first"}

    def __init__(self) -> None:
        self.queried: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.queried.append(tuple(texts))
        place = {"who": (0.0, 0.0), "sky": (50.0, 0.0), "red": (0.0, 50.0)}
        return np.array([[*place[text[:3]], float(len(text))] for text in texts])


def test_centres_are_chosen_once(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frozen model reads the chosen texts. A training that resumes keeps its centres."""
    embedder, read = ByFirstWord(), References.read
    shapes: dict[int, list[tuple[int, ...]]] = {}

    def spy(self: References, step: Any) -> Any:
        (site,) = self.assembly.needs["forget"].sites
        made = read(self, step)
        for row, values in zip(step["forget"], made["forget"], strict=True):
            names = [name for name in values if name.startswith(centre_name(site, ""))]
            shapes[row] = [tuple(values[name].shape) for name in sorted(names)]
        return made

    monkeypatch.setattr(References, "read", spy)
    whole = centred(base, tmp_path / "m", embedder=embedder)
    assert embedder.queried == [(ROWS[0].question, *MANY)]  # the only row that is clustered
    first, second, third = kept(whole.path)
    assert (first["id"], len(first["chosen"])) == ("f0", 3)
    assert first["component"] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert (second["chosen"], third["chosen"]) == ([0, 1], [0])
    assert shapes == {0: [(3, 16), (2, 16), (2, 16)], 1: [(3, 16), (3, 16)], 2: [(3, 16)]}
    embedded = {"embedder": "by first word", "fingerprint": {"words": "first"}}
    assert recipe(whole.path)["centres"] == embedded
    card = (whole.path / "README.md").read_text()
    assert "| contrast centres | 1 to 3 per row, of 1 to 8 candidates |" in card
    written = (whole.path / "centres.json").read_text()
    assert not any(row.answer in written for row in ROWS if row.answer)

    with pytest.raises(StoppedError):
        centred(base, tmp_path / "n", embedder=embedder, progress=stop_at(1))
    monkeypatch.setattr(centres, "_chosen", None)
    done = centred(base, tmp_path / "n", embedder=embedder)
    assert (done.path / "centres.json").read_text() == written
    assert done.losses == whole.losses


def test_the_model_is_its_own_embedder_by_default(base: str, tmp_path: Path) -> None:
    words = ("who wrote sea", "sea sea", "Bob wrote red", "who who who", "Ann sky")
    rows = [replace(FORGET[0], paraphrases=words)]
    out = centred(base, tmp_path / "m", forget=rows).path
    assert json.loads((out / "centres.json").read_text())["embedder"] == "the model itself"
    with pytest.raises(MixError, match="than this command's: centres"):
        centred(base, tmp_path / "m", forget=rows, embedder=_Named())


def test_input_selection_comes_first(tmp_path: Path) -> None:
    """Texts that the model answers with more confidence are kept; here by plain forwards."""
    base = str(tiny_model_folder(tmp_path / "sure", initializer_range=0.8))
    loaded = loading.load_model(base)

    def surely(text: str) -> float:
        """Return the expected probability of the drawn token, Σ p²."""
        ids = loaded.tokenizer.encode(f"Question: {text}\nAnswer: ", return_tensors="pt")
        with torch.no_grad():
            return float((loaded.model(input_ids=ids).logits[0, -1].softmax(-1) ** 2).sum())

    texts = sorted(["Bob wrote red", "sea sky", "who Ann", "blue", "sky", "wrote"], key=surely)
    less, question, more = texts[0], texts[3], texts[5]
    assert surely(less) + 0.05 < surely(question) < surely(more) - 0.05  # far beyond chance
    rows = [replace(FORGET[0], question=question, paraphrases=(less, more))]
    how = ModelAnswers(draws=1024, max_new_tokens=1)
    out = centred(base, tmp_path / "m", forget=rows, selecting=how).path
    assert [row["texts"] for row in kept(out)] == [[question, more]]
    assert recipe(out)["selecting"] == {"draws": 1024, "max_new_tokens": 1}
    assert "| rewritings selected with | 1024 answers" in (out / "README.md").read_text()
    with pytest.raises(MixError, match="than this command's: selecting"):
        centred(base, tmp_path / "m", forget=rows)


class _Named:
    name = "another"

    def embed(self, texts: Sequence[str]) -> Any:
        raise AssertionError("not reached")


def test_few_texts_are_all_centres(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ablation over the number of centres: k - 1 rewritings give k."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for number in (1, 3):
        rows = [replace(row, paraphrases=MANY[: number - 1]) for row in FORGET]
        out = centred(base, tmp_path / f"{number}", forget=rows, embedder=_Named()).path
        assert [row["chosen"] for row in kept(out)] == [[*range(number)]] * 3
        assert "centres" not in recipe(out)


def test_beta_0_needs_another_centre(base: str, tmp_path: Path) -> None:
    class Blind(_Named):
        def embed(self, texts: Sequence[str]) -> Array:
            return np.ones((len(texts), 3))

    with pytest.raises(InputError, match=r"row 'f0' of forget has none. Add rewritings"):
        centred(base, tmp_path / "m", "cel:layer=0,beta=0", forget=ROWS[:2], embedder=Blind())
    centred(base, tmp_path / "m", "cel:layer=0,beta=0", forget=ROWS[:2], embedder=ByFirstWord())


def test_a_rewriting_over_the_limit_is_refused(base: str, tmp_path: Path) -> None:
    rows = [replace(FORGET[2], paraphrases=("who " * 130,))]
    with pytest.raises(InputError, match=r"rewriting of row 'f2' has 132 tokens, but .* is 128"):
        centred(base, tmp_path / "m", forget=rows)
