"""How often the independence check refuses: independent draws, and draws that were copied.

    python bench/independence.py [--json FILE] [--trials N] [--only LAW]

A trial draws n completions of one query with known probabilities, hands them over as they are,
then once more as 2 and as 4 copies of n/2 and n/4 draws. The weights of peaked laws are new in
each trial. Fixed seeds; the law's row does not depend on which other rows are run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from leakbound.stats import check_independence
from runner import keep, markdown, options

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""(generator, n) -> the texts drawn, as numbers, and their log-probabilities."""

SIZES = (256, 1024)
TIMES = (1, 2, 4)
SENSITIVE = 0.01  # beside the level of 1e-9, at which no simulation sees a false alarm


def listed(p: np.ndarray, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.minimum(np.searchsorted(np.cumsum(p), rng.random(n)), len(p) - 1)
    return drawn, np.log(p[drawn])


def peaked(texts: int) -> Draw:
    return lambda rng, n: listed(rng.dirichlet(np.full(texts, 0.5)), rng, n)


def diffuse(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(2**62, size=n), np.full(n, -62 * np.log(2))


def half_diffuse(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Half the mass on 20 texts, half on texts that are never seen twice."""
    (known, logp), (rest, rare) = peaked(20)(rng, n), diffuse(rng, n)
    heads = rng.random(n) < 0.5
    return np.where(heads, known, -1 - rest), np.where(heads, logp, rare) - np.log(2)


def zipf(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    weights = 1 / np.arange(1.0, 100_001)
    return listed(weights / weights.sum(), rng, n)


LAWS: dict[str, Draw] = {
    "3 texts": peaked(3),
    "20 texts": peaked(20),
    "60 texts": peaked(60),
    "20 texts and a diffuse half": half_diffuse,
    "Zipf, 100,000 texts": zipf,
    "diffuse": diffuse,
}


def refusals(draw: Draw, n: int, times: int, trials: int, seed: list[int]) -> tuple[int, int]:
    """Trials refused at the default level, and trials with a p-value below SENSITIVE."""
    rng, refused, low = np.random.default_rng(seed), 0, 0
    for _ in range(trials):
        drawn, logp = draw(rng, n // times)
        _, first, counts = np.unique(drawn, return_index=True, return_counts=True)
        found = check_independence(times * counts, logp[first])
        refused += found.verdict == "copies"
        low += min(found.text, found.copies, found.chunks) < SENSITIVE
    return refused, low


def row(law: str, n: int, trials: int) -> dict[str, Any]:
    result: dict[str, Any] = {"law": law, "n": n, "trials": trials}
    for times in TIMES:
        seed = [list(LAWS).index(law), n, times]
        refused, low = refusals(LAWS[law], n, times, trials, seed)
        key = "independent" if times == 1 else f"{times} copies"
        result[f"{key}: refused"], result[f"{key}: p < {SENSITIVE:g}"] = refused, low
    return result


def main() -> None:
    args = options(__doc__, trials=2_000, only=("", "the beginning of a law"))
    start = time.process_time()
    laws = [law for law in LAWS if law.startswith(args.only)]
    rows = [row(law, n, args.trials) for law in laws for n in SIZES]
    print(
        markdown([{k: f"{v:,}" if isinstance(v, int) else v for k, v in r.items()} for r in rows])
    )
    print(f"\n{time.process_time() - start:.0f} CPU seconds")
    keep(args.json, rows)


if __name__ == "__main__":
    main()
