"""Means over questions and excesses over a control: the forms used beside those they replaced.

    python bench/widths.py [--trials N] [--only WORD] [--json FILE]

Mean width of 99 % intervals, both ends, over questions of unlike laws. *Means*: betting in rounds
beside the portfolio mixture over the pool. *Coins*: the lesser of Hoeffding's form of
Clopper-Pearson and of rounds, each at its share of alpha, beside that form alone; and so of the
mean of leak@k, k an eighth of n at most. *Excesses*: differences beside two bounds at 99.5 %. A
cell is the new width over the old: below 1 it is narrower. One core, about five minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from leakbound.stats import (
    Estimate,
    excess,
    excess_bound,
    excess_over_questions,
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_bound,
    proportion_over_questions,
)
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean_over_questions import hoeffding_upper
from runner import keep, markdown, options

Law = Callable[[np.random.Generator, int, int], np.ndarray]
SIZES = [(5, 16), (5, 128), (5, 1024), (24, 8), (24, 64), (100, 16), (100, 128), (400, 16)]


def coins(p: Callable[[np.random.Generator, int], Any]) -> Law:
    return lambda g, q, n: (g.random((q, n)) < p(g, q)) * 1.0


def steps(q: int) -> np.ndarray:
    """The means of questions that differ much."""
    return np.linspace(0.02, 0.98, q)[:, None]


LAWS: dict[str, Law] = {
    "Beta(1, 20)": lambda g, q, n: g.beta(1, 20, (q, n)),
    "Beta(5, 5)": lambda g, q, n: g.beta(5, 5, (q, n)),
    "unlike betas": lambda g, q, n: g.beta(5 * steps(q), 5 * (1 - steps(q)), (q, n)),
    "zero-heavy": lambda g, q, n: np.where(g.random((q, n)) < 0.9, 0.0, g.beta(2, 5, (q, n))),
    "all zero": lambda g, q, n: np.zeros((q, n)),
    "coins .01": coins(lambda g, q: 0.01),
    "coins .3": coins(lambda g, q: 0.3),
    "coins, unlike": coins(lambda g, q: g.beta(0.3, 0.3, (q, 1))),
    "coins, one in 20": coins(
        lambda g, q: np.where(np.arange(q) < max(1, q // 20), 0.5, 0)[:, None]
    ),
    "coins, half always": coins(lambda g, q: (np.arange(q) % 2)[:, None]),
    "coins, steps": coins(lambda g, q: steps(q)),
    "coins .5": coins(lambda g, q: 0.5),
}
PAIRS = {
    "Beta(5, 5), Beta(1, 20)": ("Beta(5, 5)", "Beta(1, 20)"),
    "zero-heavy, twice": ("zero-heavy", "zero-heavy"),
    "coins .3, .01": ("coins .3", "coins .01"),
    "coins .3, twice": ("coins .3", "coins .3"),
    "coins, unlike, and .01": ("coins, unlike", "coins .01"),
    "all zero, twice": ("all zero", "all zero"),
}


def width(made: Estimate) -> float:
    return float(np.mean(np.subtract(made.upper, made.lower)))


def hits(scores: np.ndarray) -> tuple[np.ndarray, int]:
    return scores.sum(axis=1).astype(int), scores.shape[1]


def of_means(law: Law, g: np.random.Generator, q: int, n: int) -> dict[str, float]:
    scores = law(g, q, n)
    pool = width(mean_bound(scores.ravel(), method="portfolio", side="both"))
    return {"rounds": width(mean_over_questions(scores, side="both")) / pool}


def pooled(scores: np.ndarray) -> float:
    """The width of Hoeffding's form at all of alpha."""
    rows = Leakage.read(scores, None, 0)
    return float(hoeffding_upper(rows, 0.005)) + float(hoeffding_upper(rows.mirrored(), 0.005)) - 1


def of_coins(law: Law, g: np.random.Generator, q: int, n: int) -> dict[str, float]:
    scores = law(g, q, n)
    found = {"mean": width(proportion_over_questions(*hits(scores), side="both")) / pooled(scores)}
    k = min(32, n // 8)
    made = mean_leak_at_k_over_questions(scores, k, binary=True, side="both", seed=0)
    blocks = scores[:, : n // k * k].reshape(q, -1, k).max(axis=2)
    return {**found, "leak@k": width(made) / pooled(blocks)}


def of_excess(pair: tuple[str, str], g: np.random.Generator, q: int, n: int) -> dict[str, float]:
    both = [LAWS[name](g, q, n) for name in pair]
    how: dict[str, Any] = {"confidence": 0.995, "side": "both"}
    if all(np.isin(scores, (0, 1)).all() for scores in both):
        each = [proportion_bound(*hits(scores), **how) for scores in both]
        mean = [proportion_over_questions(*hits(scores), **how) for scores in both]
    else:
        each = [mean_bound(scores, **how) for scores in both]
        mean = [mean_over_questions(scores, **how) for scores in both]
    return {
        "each": width(excess_bound(*both, side="both")) / width(excess(*each)),
        "mean": width(excess_over_questions(*both, side="both")) / width(excess(*mean)),
    }


def table(cases: dict[str, Callable[..., dict[str, float]]], trials: int) -> list[dict[str, Any]]:
    rows = []
    for name, made in cases.items():
        row: dict[str, Any] = {"law": name}
        for q, n in SIZES:
            g = np.random.default_rng([6, q, n])
            found = [made(g, q, n) for _ in range(trials)]
            row[f"{q} x {n}"] = " / ".join(
                f"{np.mean([one[key] for one in found]):.2f}" for key in found[0]
            )
        rows.append(row)
    return rows


def main() -> None:
    args = options(__doc__, trials=5, only=("", "tables with this in the title"))
    coins = {
        name: lambda g, q, n, law=law: of_coins(law, g, q, n)
        for name, law in LAWS.items()
        if name.startswith("coins") or name == "all zero"
    }
    means = {name: lambda g, q, n, law=law: of_means(law, g, q, n) for name, law in LAWS.items()}
    pairs = {
        name: lambda g, q, n, pair=pair: of_excess(pair, g, q, n) for name, pair in PAIRS.items()
    }
    tables: dict[str, dict[str, Callable[..., dict[str, float]]]] = {
        "Means: rounds over the portfolio": means,
        "Coins: the mean / the mean of leak@k, over Hoeffding's form alone": coins,
        "Excesses: each question / the mean, over two bounds": pairs,
    }
    made = {
        title: table(cases, args.trials) for title, cases in tables.items() if args.only in title
    }
    for title, rows in made.items():
        print(f"\n## {title}\n\n{markdown(rows)}")
    keep(args.json, made)


if __name__ == "__main__":
    main()
