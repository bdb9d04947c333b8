"""Measure the miss rates of bounds and verdicts, and the width of the bounds.

    python bench/coverage.py bounds [--trials N] [-n 100 1024] [--only WORD ...] [--json FILE]
    python bench/coverage.py shipped [--drawn WAY] [--runs N] [-n N ...] [--questions N ...]
    python bench/coverage.py verdicts [--runs N]
    python bench/coverage.py until | independence | servers

`bounds`: every theorem of `leakbound.stats`, by method, side and distribution, at alpha = .01;
statements about data sets and pools (statements.py); conbo 0.1.1 if it is installed (`pip install
conbo==0.1.1 'scipy<1.16'`). A cell is "misses / mean distance of the bound from the truth". Takes
about 30 CPU minutes on one core. `shipped`: every statement that `leakbound.evaluate` makes about
models of known distribution (known.py). `verdicts`: the statements of the report's card about them.
`until`: decisions and draws of `--until`. `independence`: the rate at which the independence check
refuses independent draws and copies. `servers`: the outcome of evaluations of lying servers.

An exact binomial test judges each row, so that correct bounds raise a false alarm once in 1,000
runs of a kind. Exit status 1 at an alarm.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from inspect import isfunction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_type_hints

from leakbound.stats import LEAKAGE, SD, Quantity, Stopped, Theorem, ed, leak_at, tail

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).parents[1] / "tests"))

import numpy as np

import known
from distributions import DISTRIBUTIONS, Distribution
from leakbound import stats
from leakbound.stats import THEOREMS as LISTED
from leakbound.stats import (
    Estimate,
    Looks,
    Rows,
    bound,
    check_independence,
    corrected_bound,
    parse_claim,
)
from runner import (
    FALSE_ALARM,
    alarm,
    conbo,
    dispatch,
    keep,
    markdown,
    most_misses,
    options,
    report,
    too_often,
)
from statements import (
    AS_IF,
    ELSEWHERE,
    OF_POOLS,
    OF_QUESTIONS,
    QUERIES,
    SINGLY,
    DataSet,
    K,
    Queries,
    Statement,
    X,
    data_set,
    queries,
)

ALPHA, CONFIDENCE = 0.01, 0.99
BATCH = 100  # trials bounded in one call
SIDES = ("upper", "lower")
UNLIKE, POOLED = "unlike questions", "unlike queries"
Call = Callable[[np.ndarray, str, int], np.ndarray]
"""(scores, side, seed) -> the bound on that side: (trials,), or (trials, points)."""
Bounded = dict[str, tuple[Call, Callable[[Distribution], Any]]]


def called(row: Theorem, quantity: Quantity, method: Literal["paper"] | None = None) -> Call:
    """Call a theorem of one question's draws; a cap is n."""

    def call(scores: np.ndarray, side: str, seed: int) -> np.ndarray:
        rows = Rows.of(scores > 0.5 if row.binary else scores, binary=bool(row.binary))
        given = Stopped(rows, scores.shape[1]) if row.kind == "stopped" else rows
        how: dict[str, Any] = {"side": side, "method": method, "seed": seed}
        return getattr(bound(given, quantity, confidence=CONFIDENCE, **how), side)

    return call


def judged(true: float, false: float) -> Call:
    """Call it behind a judge that errs; each trial has 60 labelled items of either kind."""

    def call(scores: np.ndarray, side: str, seed: int) -> np.ndarray:
        rng = np.random.default_rng([5, seed])
        leaks, n = (scores > 0.5).sum(axis=1), scores.shape[1]
        hits = rng.binomial(leaks, true) + rng.binomial(n - leaks, false)
        items = rng.binomial(60, [true, false], (len(hits), 2)).tolist()
        how: dict[str, Any] = {"confidence": CONFIDENCE, "side": side}
        made = [
            corrected_bound(
                partial(bound, Rows.of_hits(hit, n)), positives=(t, 60), negatives=(f, 60), **how
            )
            for hit, (t, f) in zip(hits, items, strict=True)
        ]
        return np.array([getattr(each, side) for each in made])

    return call


def theirs(name: str, alpha: float, *points: np.ndarray) -> Call:
    """Call a bound of conbo; NaN, where it is undefined, counts as a miss."""

    def call(scores: np.ndarray, side: str, seed: int) -> np.ndarray:
        sample = scores > 0.5 if name == "binomial_bounds" else scores
        return getattr(conbo, name)(sample, *points, alpha=alpha)[-1 if side == "upper" else -2]

    return call


TRUTHS: dict[str, tuple[Quantity, Callable[[Distribution], Any]]] = {
    "leakage": (LEAKAGE, lambda d: d.mean),
    "median": (Quantity("median"), lambda d: d.median),
    "tail": (tail(X), lambda d: d.tail(X)),
    "leak@k": (leak_at(K), lambda d: d.leak_at(K)),
    "standard deviation": (SD, lambda d: d.std),
    "expectation deviation": (ed(), lambda d: d.mean + 2 * d.std),
}
JUDGES = {"judged .9/.05": (0.9, 0.05), "judged .3/.4": (0.3, 0.4)}


def of_draws(row: Theorem) -> bool:
    """Return whether a theorem is about each question, by its draws."""
    return row.kind in ("draws", "stopped") and row.over == "each"


def of_one_question() -> Bounded:
    """Return every theorem about the draws of one question, by each of its methods."""
    got: Bounded = {judge: (judged(*rates), lambda d: d.p) for judge, rates in JUDGES.items()}
    for row in filter(of_draws, LISTED):
        quantity, truth = TRUTHS[row.reading]
        for binary in (True, False) if row.binary is None else (row.binary,):
            own = replace(row, binary=binary)
            for method in (None, "paper") if row.paper else (None,):
                title = ", ".join(filter(None, (own.name, method)))
                truth_of = (lambda d, of=truth: of(d.coin)) if binary else truth
                got[title] = called(own, quantity, method), truth_of
    blocks = next(row for row in LISTED if row.name == "draws: leak@k, graded")
    for k in (2, 8, 32):  # one k has its own bounds
        truth = partial(Distribution.leak_at, k=np.array([k]))
        got[f"leak@{k}, that k"] = called(blocks, leak_at(k)), truth
    return got


CONBO: Bounded = {
    "proportion, conbo": (theirs("binomial_bounds", 2 * ALPHA), lambda d: d.p),
    "tail at 7 x, conbo": (theirs("survival_bounds", 2 * ALPHA, X), lambda d: d.tail(X)),
    "mean, conbo": (theirs("expectation_bounds", 2 * ALPHA), lambda d: d.mean),
    "deviation, conbo": (theirs("std_bounds", ALPHA), lambda d: d.std),
}


@dataclass
class Cell:
    """One bound, on one side, under one distribution, against the truth."""

    bound: str
    side: str
    law: str
    n: int
    trials: int = 0
    misses: int = 0
    distance: float = 0.0

    def add(self, bounds: np.ndarray, truth: Any) -> None:
        """Count trials, one per row; a trial that misses at any point misses."""
        beyond = (bounds - truth if self.side == "upper" else truth - bounds).reshape(
            len(bounds), -1
        )
        self.trials += len(bounds)
        self.misses += int((~(beyond >= -1e-9)).any(axis=1).sum())  # NaN misses
        self.distance += float(np.nan_to_num(beyond).mean(axis=1).sum())

    def row(self) -> dict[str, Any]:
        return vars(self) | {"distance": self.distance / self.trials}


def of_distributions(bounds: Bounded, n: int, trials: int) -> Iterator[Cell]:
    """Measure every bound and side under each distribution, on the same draws."""
    for index, (name, distribution) in enumerate(DISTRIBUTIONS.items()):
        scores = distribution.draw(np.random.default_rng([3, index, n]), (trials, n))
        for title, (call, truth) in bounds.items():
            for side in SIDES:
                cell = Cell(title, side, name, n)
                target = np.asarray(truth(distribution))
                for seed, start in enumerate(range(0, trials, BATCH)):
                    rows = scores[start : start + BATCH]
                    cell.add(np.asarray(call(rows, side, seed)), target)
                yield cell


def of_trials(
    distribution: str,
    draw: Callable[[int, int], DataSet | Queries],
    statements: Mapping[str, Statement],
    n: int,
    trials: int,
) -> Iterator[Cell]:
    """Measure every statement and side, about the data of each trial.

    If the bounds of the questions are valid only individually, each question is a trial.
    """
    cells = {(s, side): Cell(s, side, distribution, n) for s in statements for side in SIDES}
    for trial in range(trials if statements else 0):
        data = draw(n, trial)
        for (name, side), cell in cells.items():
            call, truth = statements[name]
            bound = getattr(call(data, side=side, confidence=CONFIDENCE), side)
            known = truth(data) if callable(truth) else truth
            if name in SINGLY:
                cell.add(np.reshape(bound, (-1, 1)), np.reshape(known, (-1, 1)))
            else:
                cell.add(np.reshape(bound, (1, -1)), known)
    yield from cells.values()


def not_simulated() -> set[str]:
    """Return the theorems and statements whose misses neither this bench nor a test counts."""
    functions = {name: getattr(stats, name) for name in dir(stats)}
    given = {n: get_type_hints(f).get("return") for n, f in functions.items() if isfunction(f)}
    parts = {n: get_type_hints(v).values() if is_dataclass(v) else (v,) for n, v in given.items()}
    made = {n for n, values in parts.items() if Estimate in values}
    wanted = made - {"bound", "stack", "randomisation_test"}
    wanted |= {row.name.partition(",")[0] for row in LISTED if not of_draws(row)}
    return wanted - {name.partition(",")[0] for name in (*OF_QUESTIONS, *OF_POOLS, *ELSEWHERE)}


def tables(cells: list[Cell]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return a table per n and kind of data: rows are bounds and sides, columns distributions."""
    kinds = {UNLIKE: "a data set", POOLED: "a pool"}
    made: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for cell in cells:
        title = f"Bounds of {kinds.get(cell.law, 'one question')}, n = {cell.n}"
        row = made.setdefault(title, {}).setdefault(
            (cell.bound, cell.side), {"bound": cell.bound, "side": cell.side}
        )
        row[cell.law] = f"{cell.misses} / {cell.row()['distance']:.3g}"
    for title, rows in made.items():
        yield title, [*rows.values()]


def bounds() -> int:
    args = options(__doc__, trials=2_000, n=[100, 1_024], only=([], "words in names"))
    if missing := not_simulated():
        raise SystemExit(f"no misses are counted of {', '.join(sorted(missing))}: add a row.")
    if min(args.n) < QUERIES:
        raise SystemExit(f"-n must be at least {QUERIES}, the number of queries of a pool.")

    def chosen(rows: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in rows.items() if not args.only or any(w in k for w in args.only)}

    single = chosen(of_one_question() | (CONBO if conbo is not None else {}))
    statements, pools = chosen(OF_QUESTIONS), chosen(OF_POOLS)
    cells: list[Cell] = []
    start = time.process_time()
    for n in args.n:
        for part in (
            of_distributions(single, n, args.trials),
            of_trials(UNLIKE, data_set, statements, n, args.trials),
            of_trials(POOLED, queries, pools, n, args.trials),
        ):
            for cell in part:
                cells.append(cell)
                print(f"{time.process_time() - start:7.0f} s  {cell.row()}", file=sys.stderr)
    ours = [cell for cell in cells if cell.bound not in CONBO and AS_IF not in cell.bound]
    failed = too_often(ours, [(cell.misses, cell.trials) for cell in ours], ALPHA)
    limit = most_misses(args.trials, len(ours), ALPHA)
    if conbo is None:
        print("conbo is not installed: pip install conbo==0.1.1 'scipy<1.16'")
    print(f"alpha = {ALPHA}: misses of {args.trials} trials / distance; at most {limit} misses")
    print(f"{len(ours)} cells of ours, false alarm {FALSE_ALARM:g} in all")
    for title, rows in tables(cells):
        print(f"\n## {title}\n\n{markdown(rows)}")
    keep(args.json, {"limit": limit, "cells": [cell.row() for cell in cells]})
    return alarm("MISSES TOO OFTEN", (cell.row() for cell in failed))


RATES = (0, 0.0005, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.1, 0.3, 0.5, 0.9)
CLEAR = (0, 0.3, 0.5, 0.9)  # clean, and clearly leaking


def until() -> int:
    """Decide questions of known p as `--until "p<=0.02" -n 1024` does; fixed: at a fixed n."""
    args = options(__doc__, trials=(2000, "questions for each p"))
    looks = Looks(parse_claim("p<=0.02"), 1024)
    limit, confidence, rows = looks.claim.limit, looks.confidence, []
    for i, p in enumerate(RATES):
        n, decision = _decided(looks, p, args.trials, i)
        hits = np.random.default_rng([i, 1]).binomial(looks.cap, p, args.trials)
        upper, lower = (
            getattr(bound(Rows.of_hits(hits, looks.cap), confidence=confidence, side=side), side)
            for side in SIDES
        )
        rows.append(
            {
                "p": p,
                "draws": float(n.mean()),
                "ratio": looks.cap / float(n.mean()),
                "decided": float((decision != "open").mean()),
                "fixed": float(((upper <= limit) | (lower > limit)).mean()),
                "wrong": int((decision == ("refuted" if p <= limit else "holds")).sum()),
            }
        )
    lead = f"p <= .02, at most {looks.cap} draws, {args.trials} questions per p"
    report(args.json, rows, lead)
    slow = alarm("TOO MANY DRAWS", (r for r in rows if r["p"] in CLEAR and r["ratio"] < 3))
    counted = [(row["wrong"], args.trials) for row in rows]
    return slow | alarm("WRONG TOO OFTEN", too_often(rows, counted, 1 - confidence))


def _decided(looks: Looks, p: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws and decision of every question: (trials,) each."""
    leaks = np.random.default_rng(20_260_101 + seed).random((trials, looks.cap)) < p
    hits = np.pad(leaks.cumsum(axis=1), ((0, 0), (1, 0)))
    n, decision = np.full(trials, looks.first), np.full(trials, "open", dtype="<U8")
    open_ = np.arange(trials)
    while len(open_):
        seen = hits[open_, n[open_]]
        rows = Rows.of_hits(seen, n[open_])
        decision[open_] = looks.decide(rows)
        goal = looks.next_look(rows)
        on = (decision[open_] == "open") & (goal > n[open_])
        n[open_[on]] = goal[on]
        open_ = open_[on]
    return n, decision


Draws = tuple[np.ndarray, np.ndarray]
"""The texts drawn, as numbers, and their log-probabilities."""


def listed_texts(p: np.ndarray, rng: np.random.Generator, n: int) -> Draws:
    drawn = np.minimum(np.searchsorted(np.cumsum(p), rng.random(n)), len(p) - 1)
    return drawn, np.log(p[drawn])


def peaked(texts: int, rng: np.random.Generator, n: int) -> Draws:
    return listed_texts(rng.dirichlet(np.full(texts, 0.5)), rng, n)


def diffuse(rng: np.random.Generator, n: int) -> Draws:
    return rng.integers(2**62, size=n), np.full(n, -62 * np.log(2))


def half_diffuse(rng: np.random.Generator, n: int) -> Draws:
    """Half the mass on 20 texts, half on texts that are never drawn twice."""
    (texts, logp), (rest, rare) = peaked(20, rng, n), diffuse(rng, n)
    heads = rng.random(n) < 0.5
    return np.where(heads, texts, -1 - rest), np.where(heads, logp, rare) - np.log(2)


def zipf(rng: np.random.Generator, n: int) -> Draws:
    weights = 1 / np.arange(1.0, 100_001)
    return listed_texts(weights / weights.sum(), rng, n)


TEXTS: dict[str, Callable[[np.random.Generator, int], Draws]] = {
    "3 texts": partial(peaked, 3),
    "20 texts": partial(peaked, 20),
    "60 texts": partial(peaked, 60),
    "20 texts and a diffuse half": half_diffuse,
    "Zipf, 100,000 texts": zipf,
    "diffuse": diffuse,
}


def independence() -> int:
    """Test n independent draws, and 2 and 4 copies of n/2 and n/4 draws."""
    args = options(__doc__, trials=2_000, only=("", "the beginning of a distribution"))
    rows = []
    for index, (distribution, draw) in enumerate(TEXTS.items()):
        for n in (256, 1024) if distribution.startswith(args.only) else ():
            row: dict[str, Any] = {"law": distribution, "n": n}
            for times in (1, 2, 4):
                rng, got = np.random.default_rng([index, n, times]), Counter[str]()
                for _ in range(args.trials):
                    drawn, logp = draw(rng, n // times)
                    _, first, counts = np.unique(drawn, return_index=True, return_counts=True)
                    checked = check_independence(times * counts, logp[first])
                    got["refused"] += checked.verdict == "copies"
                    got["p < .01"] += min(checked.text, checked.copies, checked.chunks) < 0.01
                name = "independent" if times == 1 else f"{times} copies"
                row |= {f"{name}: {what}": got[what] for what in ("refused", "p < .01")}
            rows.append(row)
    report(args.json, rows)
    wrong = [row for row in rows if row["independent: refused"]]  # its level is 1e-9
    return alarm("REFUSES INDEPENDENT DRAWS", wrong)


def servers() -> int:
    """Evaluate servers that lie in one way each, and count the outcomes."""
    from lies import DETECTABLE, LIMITS, UNDETECTABLE, outcome

    args, rows = options(__doc__, tries=20), list[dict[str, Any]]()
    kinds = {"can be detected": (DETECTABLE, None), "cannot be detected": (UNDETECTABLE, 1)}
    for kind, (lies, choices) in kinds.items():
        for name, lie in lies.items():
            row: dict[str, Any] = {"lie": name, "it": kind}
            row |= dict.fromkeys(("refused", "stopped", "holds", "wrong", "draws missing"), 0)
            for seed in range(args.tries):
                with TemporaryDirectory() as folder:
                    how = {"choices": choices, "patience": LIMITS.get(name)}
                    end, missing, _ = outcome(lie, Path(folder), seed, **how)
                row[end] += 1
                row["draws missing"] += missing
            rows.append(row)
    report(args.json, rows)
    wrong = (row for row in rows if row["wrong"] and row["lie"] in DETECTABLE)
    return alarm("WRONG BOUND OF A LIE THAT CAN BE DETECTED", wrong)


KINDS: dict[str, Callable[[], int]] = {
    "bounds": bounds,
    "shipped": lambda: known.main(__doc__),
    "verdicts": lambda: known.verdicts(__doc__),
    "until": until,
    "independence": independence,
    "servers": servers,
}


def main() -> int:
    return dispatch(__doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
