"""Every statement about a data set, from the scores of 400 questions x 1,024 draws.

    python bench/statements.py [--json FILE]

One process, one core, CPU seconds. Nothing is warm: Berk-Jones tables are made once for each
(n, alpha), in the row that first needs them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bounds import markdown
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
    survival_bound,
    worst_question,
)

QUESTIONS, DRAWS = 400, 1_024
X = np.linspace(0, 1, 100)
K = [1, 2, 4, 8, 16, 32, 64, 128]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, call in statements(draws(0), draws(1)).items():
        start = time.process_time()
        call()
        rows.append({"statement": name, "seconds": time.process_time() - start})
    total = sum(row["seconds"] for row in rows)
    for row in rows:
        row["share"] = f"{row['seconds'] / total:.0%}"
    print(f"{QUESTIONS} questions x {DRAWS} draws, 99 %, one core: {total:.1f} s\n")
    print(markdown(rows))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
