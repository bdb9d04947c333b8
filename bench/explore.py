"""How narrow P(leak) gets for the same tokens forwarded: `auto`, plain sampling, and the forest.

    python bench/explore.py [--models demo-run/models] [--model FOLDER --benchmark SPEC --data DIR]
                            [--scorer NAME] [--max-new-tokens N]
                            [--budget 500,2000] [--questions 24] [--json FILE]

Every question is explored with `auto` under a budget of forwards. With the forwards that took,
one-forward-per-token sampling would have made so many draws of the mean length, and the forest so
many draws with as many distinct prefixes; both get Clopper-Pearson. All three intervals hold at
99 %, half of alpha a side. Widths are means over the luck of the draws, with the true P(leak) taken
from --most others: one leak more or less by chance would else drown the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from leakbound import stats
from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.scorers import make_scorer, score_ranges, score_texts
from leakbound.types import Decoding, Draws, Effort, Event, Exploration, Query, Sample, Scorer
from runner import MODELS, demo_models, keep, options, table

STEP = 1.05  # between the numbers of draws that are tried
LEVEL = 0.99


def chunk_sizes(most: int) -> tuple[int, ...]:
    """Chunks whose cumulative sizes grow by STEP up to `most` draws."""
    goals = [8]
    while goals[-1] < most:
        goals.append(min(max(round(goals[-1] * STEP), goals[-1] + 1), most))
    return tuple(np.diff([0, *goals]).tolist())


def expected_width(n: int, rate: float, bound: Callable[[int], stats.Estimate]) -> float:
    """The mean width of an interval from n draws that leak at this rate, over their luck."""
    hits = np.arange(n + 1)
    chance = binom.pmf(hits, n, rate)
    likely = hits[chance > 1e-5]
    widths = [float(b.upper - b.lower) for b in map(bound, likely.tolist())]
    return float(np.average(widths, weights=chance[likely]))


def certified(found: Exploration, prompt: Any, scorer: Scorer, rate: float) -> float:
    """The expected width from the masses and the draws of an exploration."""
    ranges = score_ranges(scorer, found.events, prompt)
    low, high = np.array(ranges).reshape(-1, 2).T
    n, masses = found.sample.n, np.array([e.mass for e in found.events])
    mass = stats.Mass(masses, low, high, found.remainder if n else 0.0)
    left = (rate - float(masses @ low)) / found.remainder if n else 0.0
    return expected_width(
        n,
        min(max(left, 0.0), 1.0),
        lambda hits: stats.mass_proportion_bound(mass, hits, n, confidence=LEVEL),
    )


def sampled(n: int, rate: float) -> float:
    """The expected width from n draws of the whole distribution."""
    return expected_width(
        n, rate, lambda hits: stats.proportion_bound(hits, n, confidence=LEVEL, side="both")
    )


class Drawn:
    """A question's draws, and what the first chunks of them would have cost."""

    def __init__(self, sample: Sample, sizes: Sequence[int], prompt: Any, scorer: Scorer) -> None:
        leaks = score_texts(scorer, [c.answer for c in sample.completions], prompt)
        hits, tokens = 0, 0
        first: dict[tuple[int, ...], int] = {}
        for completion, leak in zip(sample.completions, leaks, strict=True):
            ids = completion.token_ids or ()
            hits += completion.count * bool(leak)
            tokens += completion.count * len(ids)
            for end in range(1, len(ids)):  # the prompt is read, the last token not forwarded
                prefix = ids[:end]
                first[prefix] = min(completion.chunk, first.get(prefix, len(sizes)))
        self.n = np.cumsum(sizes)
        self.forwards = np.bincount(list(first.values()), minlength=len(sizes)).cumsum()
        self.length = tokens / sample.n
        self.rate = hits / sample.n

    def forest(self, forwards: int) -> int:
        """Draws that the forest makes with about as many forwards."""
        return int(self.n[np.abs(self.forwards - forwards).argmin()])

    def plain(self, forwards: int) -> int:
        """Draws where every token costs a forward."""
        return max(int(forwards / self.length), 1)


def compare(
    engine: TransformersEngine, task: Benchmark, asked: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """One row a budget: the ratios of widths over the questions."""
    scorer, questions = make_scorer(asked.scorer), asked.questions
    decoding = Decoding(max_new_tokens=asked.max_new_tokens or task.max_new_tokens)
    prompts = task.prompts[:: max(1, len(task.prompts) // questions)][:questions]
    prompt_of = {p.id: p for p in prompts}
    queries = [Query.original(p) for p in prompts]
    sizes = chunk_sizes(asked.most)
    draws = Draws(sizes=sizes, purpose="bench")
    drawn = {
        s.query.id: Drawn(s, sizes, prompt_of[s.query.id], scorer)
        for q in queries
        for s in engine.generate([q], decoding, draws)
        if isinstance(s, Sample)
    }
    for budget in map(int, asked.budget.split(",")):
        started = time.perf_counter()
        rows: list[dict[str, Any]] = []
        effort = Effort(mode="auto", forwards=budget, seed=1)

        def ranges(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
            return score_ranges(scorer, events, prompt_of[query.id])

        for found in engine.explore(queries, decoding, effort, ranges):
            assert isinstance(found, Exploration)
            other = drawn[found.query.id]
            mine = certified(found, prompt_of[found.query.id], scorer, other.rate)
            n_forest, n_plain = other.forest(found.forwards), other.plain(found.forwards)
            rows.append(
                {
                    "question": found.query.id,
                    "rate": other.rate,
                    "forwards": found.forwards,
                    "explored": found.explored,
                    "settled": sum(e.mass for e in found.events),
                    "n": found.sample.n,
                    "n_forest": n_forest,
                    "n_plain": n_plain,
                    "auto": mine,
                    "forest": sampled(n_forest, other.rate),
                    "plain": sampled(n_plain, other.rate),
                }
            )
        widths = {name: np.array([r[name] for r in rows]) for name in ("auto", "forest", "plain")}
        gain = widths["plain"] / np.maximum(widths["auto"], 1e-12)
        cost = widths["auto"] / widths["forest"]
        yield {
            "budget": budget,
            "forwards": float(np.median([r["forwards"] for r in rows])),
            "settled": float(np.median([r["settled"] for r in rows])),
            "rate": float(np.median([r["rate"] for r in rows])),
            "auto": float(np.median([r["auto"] for r in rows])),
            "gain": float(np.median(gain)),
            "cost": float(np.median(cost)),
            "cost95": float(np.quantile(cost, 0.95)),
            "seconds": time.perf_counter() - started,
            "capped": sum(r["n_forest"] == asked.most for r in rows),
            "rows": rows,
        }


def engines(asked: argparse.Namespace) -> Iterator[tuple[str, TransformersEngine, Benchmark]]:
    """The demo's four models on the built-in data, or the one named."""
    if asked.model:
        task = load_benchmark(asked.benchmark, data=asked.data)
        prompting = Prompting(template=task.template, system=task.system)
        yield asked.model, TransformersEngine.open(asked.model, prompting), task
        return
    task = load_benchmark(BENCHMARK)
    for label, path in demo_models(asked.models).items():
        prompting = Prompting(template=task.template)
        yield f"demo, {label}", TransformersEngine.open(str(path), prompting), task


COLUMNS: dict[str, Any] = {
    "model": "{model}",
    "budget": "{budget:,}",
    "forwards": "{forwards:,.0f}",
    "P(leak)": "{rate:.4f}",
    "settled": "{settled:.3f}",
    "width": "{auto:.4f}",
    "plain/auto": "**{gain:.1f}×**",
    "auto/forest": "{cost:.2f}",
    "95th": "{cost95:.2f}",
    "with all draws of the forest": "{capped}",
}


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        model=(str, "a model folder instead of the demo's"),
        benchmark=BENCHMARK,
        data=Path,
        questions=24,
        most=(16_384, "draws of the forest"),
        scorer="keyword",
        max_new_tokens=int,
        budget="500,2000",
    )
    rows = (
        {"model": name} | row
        for name, engine, task in engines(args)
        for row in compare(engine, task, args)
    )
    keep(args.json, table(rows, COLUMNS))


if __name__ == "__main__":
    main()
