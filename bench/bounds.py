"""Bounds beside the papers' package: time, tightness, and where its deviation bound fails.

    python bench/bounds.py [--json FILE] [--trials N] [--rounds N]
    python bench/bounds.py --statements [--json FILE]

One process, one core, CPU time. The comparison with conbo 0.1.1 needs it installed next to
leakbound; it pins statsmodels, hence a virtual environment of its own:
`pip install conbo==0.1.1 'scipy<1.16'`.

With --statements instead every statement about a data set, from as many unlike scores. Nothing is
warm: Berk-Jones tables are made once for each (n, alpha), in the row that first needs them.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from leakbound.stats import (
    Estimate,
    clean_questions,
    every_question,
    excess,
    joint,
    judged_bound,
    leak_at_k_bound,
    leaking_questions,
    mean_bound,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    mean_over_stopped_questions,
    mean_p_value,
    proportion_bound,
    proportion_over_questions,
    proportion_p_value,
    std_bound,
    survival_bound,
    worst_question,
)
from runner import keep, markdown, options

try:
    import conbo
except ImportError:
    conbo = None

Table = list[dict[str, Any]]
QUESTIONS, DRAWS, ALPHA = 400, 1024, 0.01
X = np.linspace(0, 1, 100)
K = [1, 2, 4, 8, 16, 32, 64, 128]
COIN = "Bernoulli(1/2)"
LAWS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float, float]]
LAWS = {  # draws, mean, standard deviation
    "Beta(1, 20)": (lambda g, s: g.beta(1, 20, s), 1 / 21, np.sqrt(20 / (441 * 22))),
    "1 % leak": (lambda g, s: (g.random(s) < 0.01) * 1.0, 0.01, np.sqrt(0.0099)),
    "bimodal": (
        lambda g, s: np.where(g.random(s) < 0.8, g.beta(2, 30, s), g.beta(30, 2, s)),
        0.8 * 2 / 32 + 0.2 * 30 / 32,
        np.sqrt(60 / (1024 * 33) + 0.16 * (28 / 32) ** 2),
    ),
    "Beta(5, 5)": (lambda g, s: g.beta(5, 5, s), 0.5, np.sqrt(1 / 44)),
    "zero-heavy": (
        lambda g, s: np.where(g.random(s) < 0.9, 0.0, g.beta(2, 5, s)),
        0.1 * 2 / 7,
        np.sqrt(0.1 * (10 / (49 * 8) + 4 / 49) - (0.2 / 7) ** 2),
    ),
    "all zero": (lambda g, s: np.zeros(s), 0.0, 0.0),
    COIN: (lambda g, s: g.integers(0, 2, s) * 1.0, 0.5, 0.5),
}


def ours(scores: np.ndarray, method: str | None) -> dict[str, Callable[[], Any]]:
    """The five bounds of one data set, one side."""
    hits = (scores > 0.5).sum(axis=1)
    return {
        "proportion": partial(proportion_bound, hits, np.full(len(scores), scores.shape[1])),
        "tail at 100 x": partial(survival_bound, scores, X, method=method),
        "mean": partial(mean_bound, scores, method=method),
        "standard deviation": partial(std_bound, scores, method=method),
        "leak@k, 8 k": partial(leak_at_k_bound, scores, K, method=method),
    }


def theirs(package: ModuleType, scores: np.ndarray) -> dict[str, Callable[[], Any]]:
    """The four of conbo (it has no leak@k), at the alpha that gives one side where it can."""
    binary = scores > 0.5
    return {
        "proportion": partial(package.binomial_bounds, binary, alpha=2 * ALPHA),
        "tail at 100 x": partial(package.survival_bounds, scores, X, alpha=2 * ALPHA),
        "mean": partial(package.expectation_bounds, scores, alpha=2 * ALPHA),
        "standard deviation": partial(package.std_bounds, scores, alpha=ALPHA),
    }


def seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def times(rounds: int) -> Table:
    """Median CPU seconds over rounds that alternate between the packages: noise meets both."""
    rng = np.random.default_rng(0)
    scores = rng.beta(rng.uniform(0.3, 3, (QUESTIONS, 1)), 5, (QUESTIONS, DRAWS))
    suites = {"paper": ours(scores, "paper"), "default": ours(scores, None)}
    if conbo is not None:
        suites["conbo"] = theirs(conbo, scores)
    names = list(suites["paper"])
    spent: dict[tuple[str, str], list[float]] = {(s, n): [] for s in suites for n in suites[s]}
    for _ in range(rounds):
        for suite, name in spent:
            spent[suite, name].append(seconds(suites[suite][name]))
    median = {key: float(np.median(values)) for key, values in spent.items()}
    rows = [{"bound": n} | {s: median.get((s, n)) for s in suites} for n in names]
    total = {s: sum(v for (suite, _), v in median.items() if suite == s) for s in suites}
    rows.append({"bound": "all"} | total)
    for row in rows:
        if conbo is not None and row["conbo"] is not None:
            row["conbo / paper"] = row["conbo"] / row["paper"]
    return rows


def tightness(trials: int) -> Table:
    """Average distance of upper bounds from the truth, and how often they miss it."""
    rows: Table = []
    for index, (law, (draw, mean, std)) in enumerate(LAWS.items()):
        scores = draw(np.random.default_rng([1, index]), (trials, DRAWS))
        bounds = {
            "mean": (mean_bound(scores).upper, mean),
            "mean, paper": (mean_bound(scores, method="paper").upper, mean),
            "sd": (std_bound(scores).upper, std),
            "sd, Romano-Wolf": (std_bound(scores, method="paper").upper, std),
            "sd, grid": (std_bound(scores, method="grid").upper, std),
        }
        if conbo is not None:
            bounds["sd, conbo"] = (conbo.std_bounds(scores, alpha=ALPHA)[2], std)
        row: dict[str, Any] = {"law": law}
        for name, (upper, truth) in bounds.items():
            row[name] = float(np.mean(upper - truth))
            row[f"{name}: misses"] = float(np.mean(upper < truth - 1e-12))
        row["mean gain"] = row["mean, paper"] / row["mean"]
        row["sd gain"] = row["sd, grid"] / row["sd"] if row["sd"] > 1e-3 else None
        rows.append(row)
    return rows


def tails(trials: int) -> Table:
    """Berk-Jones beside DKW: average upper bound of Pr[X > x] minus the truth."""
    rows: Table = []
    scores = np.random.default_rng(2).random((trials, DRAWS))
    for tail in (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9):
        x = np.nextafter(1, 0) - tail
        row: dict[str, Any] = {"Pr[X > x]": tail}
        for name, method in (("Berk-Jones", None), ("DKW", "paper")):
            row[name] = float(np.mean(survival_bound(scores, x, method=method).upper - tail))
        row["gain"] = row["DKW"] / row["Berk-Jones"]
        rows.append(row)
    return rows


def draws(seed: int) -> np.ndarray:
    """Scores of unlike questions, most of them low: no two of the draws are equal."""
    rng = np.random.default_rng(seed)
    return rng.beta(rng.uniform(0.3, 3, (QUESTIONS, 1)), 5, (QUESTIONS, DRAWS))


def difference(scores: np.ndarray, control: np.ndarray) -> Estimate:
    """The mean over questions beyond the control's, both ends."""
    means = [mean_over_questions(each, confidence=0.995, side="both") for each in (scores, control)]
    return excess(*means)


def statements(scores: np.ndarray, control: np.ndarray) -> dict[str, Callable[[], Any]]:
    hits = (scores > 0.5).sum(axis=1)
    mean = partial(mean_bound, scores)
    tally = partial(proportion_bound, hits, DRAWS)
    anytime = partial(mean_bound, scores, method="any-time")
    tail, leaks = partial(survival_bound, scores, X), partial(leak_at_k_bound, scores, K)
    return {
        "worst question: mean": partial(worst_question, mean, QUESTIONS),
        "worst question: tail at 100 x": partial(worst_question, tail, QUESTIONS),
        "worst question: leak@k, 8 k": partial(worst_question, leaks, QUESTIONS),
        "every question: mean": partial(every_question, mean, QUESTIONS),
        "every question: tail at 100 x": partial(every_question, tail, QUESTIONS),
        "every question: leak@k, 8 k": partial(every_question, leaks, QUESTIONS),
        "leaking questions: mean > x": partial(leaking_questions, mean, QUESTIONS, X),
        "leaking questions: p > x": partial(leaking_questions, tally, QUESTIONS, X),
        "clean questions: mean": lambda: clean_questions(0.1, mean_p_value(scores, 0.1)),
        "clean questions: p": lambda: clean_questions(0.1, proportion_p_value(hits, DRAWS, 0.1)),
        "mean": partial(mean_over_questions, scores),
        "mean, weighted": partial(mean_over_questions, scores, weights=np.arange(QUESTIONS)),
        "mean p": partial(proportion_over_questions, hits, DRAWS),
        "mean, any time": partial(mean_over_stopped_questions, anytime, QUESTIONS),
        "mean leak@32": partial(mean_leak_at_k_over_questions, scores, 32),
        "mean beyond a control, both ends": partial(difference, scores, control),
        "each p, corrected for a judge": lambda: judged_bound(
            hits, DRAWS, positives=(190, 200), negatives=(6, 300)
        ),
        "joint claim of two": lambda: joint(*[tally(confidence=1 - 1e-5, side="upper")] * 2),
    }


def timed() -> Table:
    """CPU seconds of every statement, and its share of all."""
    rows: Table = []
    for name, call in statements(draws(0), draws(1)).items():
        rows.append({"statement": name, "seconds": seconds(call)})
    total = sum(row["seconds"] for row in rows)
    return [{**row, "share": f"{row['seconds'] / total:.0%}"} for row in rows]


def main() -> None:
    args = options(
        __doc__, trials=200, rounds=5, statements=(False, "every statement about a data set")
    )
    if args.statements:
        results = {"CPU seconds of every statement, at 99 %": timed()}
    else:
        results = {
            "CPU seconds": times(args.rounds),
            "excess over the truth": tightness(args.trials),
            "excess of tail bounds": tails(args.trials),
        }
    print(
        f"{QUESTIONS} questions x {DRAWS} draws, alpha = {ALPHA}, one core, {platform.platform()}"
    )
    if conbo is None and not args.statements:
        print("conbo is not installed: pip install conbo==0.1.1 'scipy<1.16'")
    for title, rows in results.items():
        print(f"\n## {title}\n\n{markdown(rows)}")
    keep(args.json, results)


if __name__ == "__main__":
    main()
