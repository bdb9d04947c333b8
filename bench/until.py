"""Sampling until a claim is decided, beside a fixed n: draws, decisions, and wrong ones.

    python bench/until.py [--json FILE] [--trials N]

Questions with a known leak probability p are drawn, looked at and stopped as `leakbound evaluate
--until "p<=0.02" -n 1024` does it, by the very functions it uses; `fixed` is the share that
Clopper-Pearson decides at n = 1,024. Exit status 1 where more decisions are wrong than alpha
allows (see bench/runner.py), or where clean or clearly leaking questions take more than a third of
the draws.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from leakbound.stats import Looks, parse_claim, percent, proportion_bound
from runner import keep, most_misses, options, table, too_often

RATES = (0, 0.0005, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.1, 0.3, 0.5, 0.9)
SEED, CAP, CLAIM = 20_260_101, 1024, "p<=0.02"
CLEAR = (0, 0.3, 0.5, 0.9)  # clean, and clearly leaking


def simulate(looks: Looks, p: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws and decision of every question: (trials,) each."""
    leaks = np.random.default_rng(seed).random((trials, looks.cap)) < p
    hits = np.pad(leaks.cumsum(axis=1), ((0, 0), (1, 0)))
    n, decision = np.full(trials, looks.first), np.full(trials, "open", dtype="<U8")
    open_ = np.arange(trials)
    while len(open_):
        seen = hits[open_, n[open_]]
        counts = np.column_stack([n[open_] - seen, seen])
        scores = np.tile([0.0, 1.0], (len(open_), 1))
        decision[open_] = looks.decide(scores, counts)
        goal = looks.next_look(scores, counts)
        on = (decision[open_] == "open") & (goal > n[open_])
        n[open_[on]] = goal[on]
        open_ = open_[on]
    return n, decision


def row(looks: Looks, p: float, trials: int, seed: int) -> dict[str, Any]:
    """One line of the table."""
    n, decision = simulate(looks, p, trials, seed)
    limit, confidence = looks.claim.limit, looks.confidence
    wrong = decision == ("refuted" if p <= limit else "holds")
    hits = np.random.default_rng([seed, 1]).binomial(looks.cap, p, trials)
    upper, lower = (
        proportion_bound(hits, looks.cap, confidence=confidence, side=side)
        for side in ("upper", "lower")
    )
    return {
        "p": p,
        "draws": float(n.mean()),
        "ratio": looks.cap / float(n.mean()),
        "decided": float((decision != "open").mean()),
        "fixed": float(((upper.upper <= limit) | (lower.lower > limit)).mean()),
        "wrong": int(wrong.sum()),
    }


COLUMNS = {
    "p": "{p:g}",
    "draws": "{draws:.1f}",
    "ratio": "{ratio:.1f}x",
    "decided": "{decided:.1%}",
    "fixed": "{fixed:.1%}",
    "wrong": "{wrong:d}",
}


def main() -> int:
    args = options(__doc__, trials=(2000, "questions for each p"))
    looks, started = Looks(parse_claim(CLAIM), CAP), time.perf_counter()
    at = percent(looks.confidence)
    print(f"{CLAIM} at {at}, at most {CAP:,} draws, {args.trials:,} questions\n")
    found = table((row(looks, p, args.trials, SEED + i) for i, p in enumerate(RATES)), COLUMNS)
    most = most_misses(args.trials, len(found), 1 - looks.confidence)
    print(f"\n{time.perf_counter() - started:.0f} s; {most} wrong decisions are allowed")
    keep(args.json, {"trials": args.trials, "table": found})
    slow = [line["p"] for line in found if line["p"] in CLEAR and line["ratio"] < 3]
    counted = [(line["wrong"], args.trials) for line in found]
    wrong = too_often([line["p"] for line in found], counted, 1 - looks.confidence)
    if slow or wrong:
        print(f"too many draws at p = {slow}, too many wrong decisions at p = {wrong}")
    return 1 if slow or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
