"""How often a run that is watched while it is drawn shows an interval that fails.

    python bench/following.py [--runs N]

Runs of four questions, 1,024 draws of each planned, are looked at after every 32 of these, under
each law: what `leakbound view` shows then, bounds that hold at all n at once, each question's at
alpha/4 as `stats.watched_questions` has it, and beside it bounds for a fixed n at as much, as if
each look were the only one. A cell is the share of runs in which any interval of any question
failed at any look; alpha is .01. One core, two minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from leakbound import stats
from leakbound.evaluation.statements.drawn import Stopped
from leakbound.store import ArmScores
from runner import markdown, options

ALPHA, QUESTIONS, PLANNED, STEP = 0.01, 4, 1024, 32
EACH = 1 - ALPHA / QUESTIONS  # of the questions of a run
LAWS: Mapping[str, Mapping[float, float]] = {
    "leaks with 0.001": {0.0: 0.999, 1.0: 0.001},
    "leaks with 0.02": {0.0: 0.98, 1.0: 0.02},
    "leaks with 0.3": {0.0: 0.7, 1.0: 0.3},
    "scores 0, 0.3 and 1": {0.0: 0.6, 0.3: 0.3, 1.0: 0.1},
}


def looks(law: Mapping[float, float], runs: int) -> Iterator[ArmScores]:
    """The draws of every question of every run at each look in turn."""
    rows = runs * QUESTIONS
    ids, none = tuple(map(str, range(rows))), np.zeros(rows, np.int64)
    values = np.tile(list(law), (rows, 1))
    generator = np.random.default_rng(20)
    counts = np.zeros(values.shape, np.int64)
    for _ in range(0, PLANNED, STEP):
        counts = counts + generator.multinomial(STEP, list(law.values()), size=rows)
        yield ArmScores(ids, values, counts, none)


def at_fixed_n(scores: ArmScores, binary: bool) -> stats.Estimate:
    """As if this look were the only one; means by the portfolio, which needs no order."""
    if binary:
        return stats.proportion_bound(scores.hits, scores.n, confidence=EACH, side="both")
    given = scores.scores, scores.counts
    return stats.mean_bound(*given, confidence=EACH, side="both", method="portfolio")


def failed(law: Mapping[float, float], runs: int) -> tuple[float, float]:
    """The shares of runs with a failure at any look: as it is watched, and at fixed n."""
    truth, binary = sum(x * p for x, p in law.items()), len(law) == 2
    wrong = np.zeros((2, runs), bool)
    for scores in looks(law, runs):
        # means at the cap are bet on in an order, which is slow: they are looked at until then
        known = Stopped(scores, binary, PLANNED if binary else PLANNED + 1)
        found = (known.leakage(confidence=EACH, side="both"), at_fixed_n(scores, binary))
        for i, each in enumerate(found):
            misses = (np.asarray(each.lower) > truth) | (np.asarray(each.upper) < truth)
            wrong[i] |= misses.reshape(runs, QUESTIONS).any(axis=1)
    watched_, peeked = wrong.mean(axis=1).tolist()
    return watched_, peeked


def main() -> None:
    runs = options(__doc__, runs=2_000).runs
    rows = []
    for name, law in LAWS.items():
        shown = zip(("as it is watched", "bounds for a fixed n"), failed(law, runs), strict=True)
        rows.append({"every question": name, **{how: f"{100 * x:.2f} %" for how, x in shown}})
    print(markdown(rows))


if __name__ == "__main__":
    main()
