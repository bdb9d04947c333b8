"""Clustering of made-up vectors whose groups are known."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture

from leakbound.errors import InputError
from leakbound.types import Prompt
from leakbound.unlearning.centres import Array, Centres, candidates, contrast_centres


def texts_of(number: int) -> list[str]:
    """The first is neither first nor last in alphabetical order."""
    return ["mm", *(f"{chr(97 + i)}{i}" for i in range(number - 1))]


def grouped(groups: int, number: int, seed: int = 0) -> tuple[list[int], Array]:
    """Points around so many means in 30 dimensions: spread 1, six apart."""
    chance = np.random.default_rng([groups, number, seed])
    means = chance.normal(size=(groups, 30)) * 6 / np.sqrt(60)
    group = [i % groups for i in range(number)]
    return group, means[group] + chance.normal(size=(number, 30)) / np.sqrt(30)


def partition(labels: list[int] | tuple[int, ...]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(np.array(labels) == each).tolist()) for each in labels}


@pytest.mark.parametrize("number", [8, 13, 21])
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_groups_that_are_there_are_found(groups: int, number: int) -> None:
    group, vectors = grouped(groups, number)
    found = contrast_centres(texts_of(number), vectors)
    assert partition(found.component) == partition(group)
    assert len(found.chosen) == groups
    assert sorted(group[i] for i in found.chosen) == list(range(groups))
    assert found.chosen[0] == found.component[0] == 0


def test_groups_on_a_line_are_found() -> None:
    """All the variance in one dimension: the prior, equally wide in each, is narrow in this."""
    group, noise = grouped(3, 13)
    noise[:, 0] = np.random.default_rng(0).normal(size=13) + 30 * np.array(group)
    found = contrast_centres(texts_of(13), noise)
    assert partition(found.component) == partition(group)


def test_one_group_has_one_centre() -> None:
    _, vectors = grouped(1, 21)
    found = contrast_centres(texts_of(21), vectors)
    assert found.chosen == (0,)
    assert found.component == (0,) * 21


def test_the_nearest_to_the_mean_is_chosen_and_the_question_for_its_own() -> None:
    """Two lines of points; the question lies at the end of its own, never in the middle."""
    line = np.array([-2.0, 2.0, 0.1, -1.0, 1.0])
    near = np.stack([line, np.zeros(5), np.zeros(5)], axis=1)
    far = near + np.array([0.0, 60.0, 0.0])
    vectors = np.concatenate([near, far])
    found = contrast_centres(texts_of(10), vectors)
    assert found.component == (0,) * 5 + (1,) * 5
    assert found.chosen == (0, 7)  # not 2, which is nearest the mean of the question's


@pytest.mark.parametrize("number", [1, 2, 3])
def test_under_four_all_are_centres(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    texts = texts_of(number)
    found = contrast_centres(texts, np.empty((0, 0)))
    every = tuple(range(number))
    assert found == Centres(tuple(texts), chosen=every, component=every)
    assert found.centres == tuple(texts)


def test_four_are_clustered() -> None:
    found = contrast_centres(texts_of(4), np.array([[0.0, 0], [0, 0.1], [9, 0], [9, 0.1]]))
    assert len(found.coordinates) == 4
    assert found.chosen[0] == 0


def test_order_makes_no_difference() -> None:
    """No clear groups, so that every number matters."""
    texts = texts_of(13)
    vectors = np.random.default_rng(3).normal(size=(13, 6))
    first = contrast_centres(texts, vectors, seed=1)
    assert contrast_centres(texts, vectors, seed=1) == first
    chance = np.random.default_rng(0)
    for _ in range(4):
        order = [0, *(1 + chance.permutation(12)).tolist()]
        other = contrast_centres([texts[i] for i in order], vectors[order], seed=1)
        assert set(other.centres) == set(first.centres)
        back = [other.component[order.index(i)] for i in range(13)]
        assert partition(back) == partition(first.component)
        assert [other.coordinates[order.index(i)] for i in range(13)] == list(first.coordinates)


def test_chance_is_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    fit = BayesianGaussianMixture.fit_predict

    def spy(self: BayesianGaussianMixture, points: Array) -> Any:
        told.append(self.random_state)
        return fit(self, points)

    monkeypatch.setattr(BayesianGaussianMixture, "fit_predict", spy)
    for seed in (7, 8):
        contrast_centres(texts_of(6), np.eye(6), seed=seed)
    assert told == [7, 8]


@pytest.mark.parametrize("number", [4, 9])
def test_texts_that_all_mean_the_same(number: int) -> None:
    found = contrast_centres(texts_of(number), np.full((number, 5), 0.3, dtype=np.float32))
    assert found.chosen == (0,)
    assert found.component == (0,) * number
    assert found.coordinates == ((0.0, 0.0),) * number


def test_points_on_a_line_and_twice_the_same() -> None:
    """Fewer places than components, and one dimension: no warning comes out."""
    found = contrast_centres(texts_of(8), np.array([[0.0], [5.0]] * 4))
    assert partition(found.component) == {frozenset({0, 2, 4, 6}), frozenset({1, 3, 5, 7})}
    assert {y for _, y in found.coordinates} == {0.0}
    assert len(found.chosen) == 2


def test_coordinates_are_the_two_widest_directions() -> None:
    noise = np.random.default_rng(1).normal(size=(12, 5))
    columns, _ = np.linalg.qr(noise - noise.mean(0))  # orthogonal, each of mean 0
    vectors = 7.0 + columns * [1.0, 20.0, 0.1, 5.0, 0.1]
    found = np.array(contrast_centres(texts_of(12), vectors).coordinates)
    np.testing.assert_allclose(np.abs(found), np.abs(columns[:, [1, 3]] * [20.0, 5.0]), atol=1e-9)


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
