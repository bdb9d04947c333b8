"""How often what is printed misses the truth: every statement, through `leakbound.evaluate`.

    python bench/coverage.py --shipped [--runs N] [--n 1 7 64 256] [--json FILE]

An engine with known probabilities is evaluated as users evaluate theirs: scorers, bounds and orders
by default, beside a control, twelve questions of which eight are alike. What differs between runs
is what differs between users' experiments: the weights (here a name), and so the draws. A row is
one statement; where it has values for several x or k, missing at any of them is one miss. An exact
binomial test judges each row at alpha = .01, all rows at one rate of false alarms (see
bench/verdict.py), and at an alarm the exit status is 1. A run takes about a second: 400 at each of
four n, half an hour on one core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bounds import markdown
from leakbound import evaluate
from leakbound.benchmarks import Benchmark
from leakbound.stats import About
from leakbound.store import EstimateRow
from leakbound.types import Completion, Decoding, Draws, Failure, Prompt, Query, Sample, Usage
from verdict import p_value, too_often

ALPHA = 0.01
ANSWER = "red fox"
SCORES = {"a red fox": 1.0, "a red cat": 0.5, "a cow": 0.0}  # ROUGE-L recall; keyword: the first
LAWS = [
    *8 * [(0.0304, 0.0, 0.9696)],
    (0.2, 0.1, 0.7),
    (0.0, 0.3, 0.7),
    (0.5, 0.2, 0.3),
    (0.0, 0.0, 1.0),
]
CONTROL = (0.01, 0.02, 0.97)
RANKS = {"keyword": np.array([1.0, 0.0, 0.0]), "rouge-l-recall": np.array([1.0, 0.5, 0.0])}


class Coins:
    """Completions of known probability; `generate` draws as every engine does, by its key."""

    def __init__(self, name: str, laws: Mapping[str, Sequence[float]]) -> None:
        self.name, self.laws, self.usage = name, laws, Usage()

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"engine": "coins", "weights": self.name}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Every question can be asked."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        for query in queries:
            law, made = np.array(self.laws[query.id]), []
            for i, size in enumerate(draws.of(query.id), draws.first_chunk):
                key = f"{self.name} {draws.seed} {draws.purpose} {query.id} {i}"
                rng = np.random.default_rng(list(key.encode()))
                counts = (
                    size * (law == law.max()) if decoding.greedy else rng.multinomial(size, law)
                )
                made += [
                    Completion(text=text, token_ids=None, count=int(count), chunk=i)
                    for text, count in zip(SCORES, counts, strict=True)
                    if count
                ]
            self.usage.draws += sum(draws.of(query.id))
            yield Sample(query=query, decoding=decoding, completions=tuple(made))


def benchmark() -> Benchmark:
    prompts = tuple(
        Prompt(id=f"q{i}", question=f"What is {i}?", answer=ANSWER, keywords=("fox",))
        for i in range(len(LAWS))
    )
    return Benchmark(
        name="coins", prompts=prompts, origin="", scorers=tuple(RANKS), max_new_tokens=8
    )


def truth(row: EstimateRow) -> float | None:
    """What a row of the estimates is about; None for what has no bound or is known."""
    about, ranks = row.about, RANKS[row.scorer]
    laws = len(LAWS) * [CONTROL] if row.arm.startswith("control") else LAWS
    each, base = [_quantity(about, law, ranks) for law in laws], _quantity(about, CONTROL, ranks)
    if any(one is None for one in each) or base is None:
        return None
    values = np.array(each, float) - (base if about.beyond == "control" else 0)
    if row.query_id is not None:
        return float(values[int(row.query_id[1:])])
    if about.scope == "count":
        return float((values > (row.parameter or 0) + 1e-12).sum())
    return float(values.max() if about.scope == "worst question" else values.mean())


def _quantity(about: About, law: Sequence[float], ranks: np.ndarray) -> float | None:
    p = np.array(law)
    mean = float(p @ ranks)
    std = float(np.sqrt(max(p @ ranks**2 - mean**2, 0)))
    at = about.parameter
    if about.quantity in ("leak probability", "mean leakage"):
        return mean
    if about.quantity == "standard deviation":
        return std
    if about.quantity == "expectation deviation" and about.constant is not None:
        return mean + about.constant * std
    if about.quantity == "tail" and isinstance(at, float):
        return float(p @ (ranks > at))
    if about.quantity == "leak@k" and isinstance(at, float):
        steps = np.array([0.0, 0.5, 1.0])
        below = np.array([p @ (ranks <= step) for step in steps[:-1]])
        return float(np.diff(steps) @ (1 - below**at))
    return None


def rows_of(n: int, runs: int) -> list[dict[str, Any]]:
    """A row a statement: how often it was made, how often it missed, and how likely that is."""
    made: dict[tuple[str, ...], dict[tuple[int, str], bool]] = defaultdict(dict)
    questions = [f"q{i}" for i in range(len(LAWS))]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            target = Coins(f"model {number}", dict(zip(questions, LAWS, strict=True)))
            control = Coins(f"control {number}", dict.fromkeys(questions, CONTROL))
            out = Path(folder, str(number))
            run = evaluate(target, benchmark(), out=out, n=n, control=control)
            for row in run.estimates:
                known = truth(row)
                if known is None or row.confidence == 1:
                    continue
                about = "all questions" if row.query_id is None else "each question"
                statement = replace(row.about, parameter=None).estimand
                key = (row.scorer, row.arm, statement, about)
                miss = not row.lower - 1e-9 <= known <= row.upper + 1e-9
                once = made[key]
                place = (number, str(row.query_id))
                once[place] = once.get(place, False) or miss
    return [
        {
            "scorer": key[0],
            "arm": key[1],
            "statement": key[2],
            "about": key[3],
            "n": n,
            "made": len(once),
            "missed": sum(once.values()),
            "p": p_value(sum(once.values()), len(once), ALPHA),
        }
        for key, once in made.items()
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="+", default=[1, 7, 64, 256])
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args(arguments)
    rows = [row for n in args.n for row in rows_of(n, args.runs)]
    print(f"missed of made at alpha = {ALPHA}; p: of an exact binomial test\n")
    print(markdown([{**row, "p": f"{row['p']:.2g}"} for row in rows]))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    failed = too_often(rows, [(row["missed"], row["made"]) for row in rows], ALPHA)
    for row in failed:
        print(f"MISSES TOO OFTEN: {row}")
    return 1 if failed else 0
