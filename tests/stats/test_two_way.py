"""Effects of a grid's two factors: simultaneous intervals from the cells' intervals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from leakbound.stats import Estimate, two_way

PARTS = ("rows", "columns", "interaction")


def effects(cells: np.ndarray) -> dict[str, float]:
    mean = cells.mean()
    rows = cells.mean(axis=1, keepdims=True) - mean
    columns = cells.mean(axis=0, keepdims=True) - mean
    parts = zip(PARTS, (rows, columns, cells - mean - rows - columns), strict=True)
    return {name: float(np.sqrt((part**2).mean())) for name, part in parts}


def made(low: np.ndarray, high: np.ndarray) -> dict[str, Estimate]:
    got = two_way(low, high, (low + high) / 2, "temperature", "top-p", 0.99)
    return dict(zip(PARTS, got.estimates, strict=True))


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (5, 2), (1, 4), (6, 1), (1, 1)])
def test_no_grid_inside_the_cells_escapes(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(shape)
    for width in (0.02, 0.5):
        low = rng.uniform(0, 0.5, shape)
        high = low + rng.uniform(0, width, shape)
        grid = made(low, high)
        corners = rng.integers(0, 2, (200, *shape))
        for share in (*corners, *rng.random((200, *shape))):
            for name, value in effects(low + share * (high - low)).items():
                assert grid[name].lower - 1e-12 <= value <= grid[name].upper + 1e-12
        for name, value in effects((low + high) / 2).items():
            assert grid[name].value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_two_settings_each_have_sharp_effects(seed: int) -> None:
    """There a root mean square is the size of one linear effect, so corners attain both bounds."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 0.8, (2, 2))
    high = low + rng.uniform(0, 0.2, (2, 2))
    grid = made(low, high)
    signs = {
        "rows": np.array([[1, 1], [-1, -1]]) / 4,
        "columns": np.array([[1, -1], [1, -1]]) / 4,
        "interaction": np.array([[1, -1], [-1, 1]]) / 4,
    }
    for name, weights in signs.items():
        at = [
            (weights * np.where(np.reshape(c, (2, 2)), high, low)).sum()
            for c in product((0, 1), repeat=4)
        ]
        part = grid[name]
        assert part.upper == pytest.approx(max(map(abs, at)), abs=1e-12)
        least = 0.0 if min(at) <= 0 <= max(at) else min(map(abs, at))
        assert part.lower == pytest.approx(least, abs=1e-12)


def test_a_factor_with_one_setting_has_no_effect() -> None:
    low = np.linspace(0, 0.5, 5)[None]
    grid = made(low, low + 0.3)
    for none in (grid["rows"], grid["interaction"]):
        assert (none.lower, none.value, none.upper) == (0, 0, 0)
    assert grid["columns"].upper > 0
    turned = made(low.T, low.T + 0.3)
    for none in (turned["columns"], turned["interaction"]):
        assert (none.lower, none.value, none.upper) == (0, 0, 0)
    assert turned["rows"].upper == pytest.approx(grid["columns"].upper)


def test_the_intervals_of_unlike_effects_separate() -> None:
    steep = np.array([[0.0, 0.05], [0.5, 0.55]])
    grid = made(steep, steep + 0.01)
    assert grid["rows"].lower > grid["columns"].upper
    assert grid["rows"].estimand == "effect of temperature, root mean square"
    assert (grid["columns"].confidence, grid["columns"].side) == (0.99, "both")
    sure = np.full((2, 3), 0.5)
    assert two_way(sure, sure, sure, "a", "b", 1).confidence == 1
