"""Speed and memory, against other tools and against earlier versions of leakbound.

    python bench/speed.py engines [--models demo-run/models] [--smollm2 FOLDER --data TOFU]
        [-n N ...] [--vllm PYTHON] [--openvino PYTHON] [--ctranslate2 PYTHON] [--only PATTERN ...]
    python bench/speed.py rouge | bounds
    python bench/speed.py runs [--of full] [--sizes 24x1024 100x1024] [--before CLONE]
    python bench/speed.py rare [--of NPO] [--budgets 250 1000] [--draws 65536] [--questions 24]
    python bench/speed.py training [--model FOLDER --benchmark tofu:forget01 --data TOFU]

`engines` races the forest against other engines (race.py). `rouge` times ROUGE-L against
rouge-score, `bounds` every bound, with conbo 0.1.1 if it is installed. `runs` measures whole
evaluations of the demo's models: CPU seconds, memory, page and folder; with --before also the CPU
seconds of the sources in CLONE. `rare` compares the prover, exploration and draws on rare leaks, at
one budget of forwards. A `training` step of NPO + entropy runs against a plain `Trainer`
(peers/plain_trainer.py). `gpu.py` is the part for a GPU. Every kind takes --json FILE.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from leakbound import stats
from leakbound.benchmarks import load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.scorers import make_scorer, score_ranges, score_texts
from leakbound.types import Decoding, Draws, Effort, Headway, Progress, Query
from runner import MODELS, conbo, demo_models, dispatch, options, report


def engines() -> int:
    import race

    return race.main(__doc__)


def seconds(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def rouge() -> int:
    """Time texts like those of a half-unlearned model; rouge-score gets every twentieth text."""
    args = options(__doc__, rounds=9, words=45, vocabulary=2000)
    from rouge_score.rouge_scorer import RougeScorer

    from leakbound.text.rouge import rouge_l

    luck, share = random.Random(0), 20
    endings = ("", "s", "ed", "ing", "er", "ly", "tion", "ness", "ment")
    words = [f"w{i:x}{luck.choice(endings)}" for i in range(args.vocabulary)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    work: dict[str, list[str]] = {}
    for prompt in load_benchmark("fictitious:authors=21,forget=1,questions=1").split("retain"):
        known = f"{prompt.question} {prompt.answer}".split()
        texts = set[str]()
        while len(texts) < 1024:
            others = luck.choices(
                words, weights, k=max(len(known), round(luck.gauss(args.words, 9)))
            )
            kept = [a if luck.random() < 0.7 else b for a, b in zip(known, others, strict=False)]
            texts.add(" ".join(kept + others[len(known) :]))
        work[" ".join(known)] = sorted(texts)
    scorer = RougeScorer(["rougeL"], use_stemmer=True)

    def ours() -> list[Any]:
        return [rouge_l(texts, reference) for reference, texts in work.items()]

    def theirs(first: int = 0, step: int = 1) -> list[Any]:
        pairs = ((ref, text) for ref, texts in work.items() for text in texts[first::step])
        return [scorer.score(ref, text)["rougeL"] for ref, text in pairs]

    values = np.concatenate([np.stack([r.precision, r.recall, r.f1], axis=1) for r in ours()])
    if not np.array_equal(values, np.array(theirs())):
        raise SystemExit("the values differ")
    fast = statistics.median(seconds(ours) for _ in range(args.rounds))
    slow = share * statistics.median(
        seconds(partial(theirs, i % share, share)) for i in range(args.rounds)
    )
    rows = [{"pairs": len(values), "rouge-score": slow, "leakbound": fast, "ratio": slow / fast}]
    report(args.json, rows, "all values equal")
    return 0


def bounds() -> int:
    """Time every bound of 400 questions x 1,024 scores on one side."""
    args = options(__doc__, rounds=5)
    rng = np.random.default_rng(0)
    scores = rng.beta(rng.uniform(0.3, 3, (400, 1)), 5, (400, 1024))
    hits, x, k = (scores > 0.5).sum(axis=1), np.linspace(0, 1, 100), [2**i for i in range(8)]
    leakage, tally = stats.LEAKAGE, stats.Rows.of_hits(hits, 1024)

    def of_scores(quantity: stats.Quantity) -> Callable[..., Any]:
        return lambda **how: stats.bound(stats.Rows.of(scores), quantity, **how)

    calls: dict[str, dict[str, Callable[..., Any]]] = {
        "proportion": {"default": partial(stats.bound, tally)},
        "tail at 100 x": {"default": of_scores(stats.tail(x))},
        "mean": {"default": of_scores(leakage)},
        "standard deviation": {"default": of_scores(stats.SD)},
        "leak@k, 8 k": {"default": of_scores(stats.leak_at(k))},
        "worst question": {"default": of_scores(leakage.worst())},
        "every question": {"default": of_scores(leakage.every())},
        "leaking questions": {"default": partial(stats.bound, tally, leakage.above(x))},
        "mean over questions": {"default": of_scores(leakage.mean())},
        "proportion over questions": {"default": partial(stats.bound, tally, leakage.mean())},
        "mean leak@32": {"default": of_scores(stats.leak_at(32).mean())},
    }
    for name in ("tail at 100 x", "mean", "standard deviation", "leak@k, 8 k"):
        calls[name]["paper"] = partial(calls[name]["default"], method="paper")
    if conbo is not None:
        calls["proportion"]["conbo"] = partial(conbo.binomial_bounds, scores > 0.5, alpha=0.02)
        calls["tail at 100 x"]["conbo"] = partial(conbo.survival_bounds, scores, x, alpha=0.02)
        calls["mean"]["conbo"] = partial(conbo.expectation_bounds, scores, alpha=0.02)
        calls["standard deviation"]["conbo"] = partial(conbo.std_bounds, scores, alpha=0.01)
    rows = []
    for name, ways in calls.items():
        ways |= {way: partial(ways[way], side="upper") for way in ways.keys() - {"conbo"}}
        spent = {way: [seconds(call) for _ in range(args.rounds)] for way, call in ways.items()}
        first = {"first call": spent["default"][0]}  # makes the tables of (n, alpha)
        medians = {way: float(np.median(each)) for way, each in spent.items()}
        rows.append({"bound": name} | first | medians)
    report(args.json, rows, "CPU seconds, 400 questions x 1,024 draws, 99 %")
    return 0


def spent(*command: str | Path, source: str = "") -> resource.struct_rusage:
    """Measure the resources of a leakbound command of this version or of a clone's sources."""
    path = {"PYTHONPATH": f"{source}/src"} if source else {}
    full = [sys.executable, "-m", "leakbound", *map(str, command)]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(full, stdout=quiet, stderr=quiet, env={**os.environ, **path})
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"`{' '.join(full)}` failed with status {status}")
    return used


def runs() -> int:
    """Measure whole evaluations: peak memory must not grow with questions x draws."""
    args = options(
        __doc__,
        models=MODELS,
        of=(["full"], "folders of models"),
        sizes=(["24x1024", "100x1024", "400x1024"], "questions x draws"),
        control=(False, "draw the control too"),
        before=("", "sources to measure too"),
    )
    demo_models(args.models)
    rows = []
    for model in args.of:
        for size in args.sizes:
            questions, n = size.split("x")
            command = ["evaluate", args.models / model, "--limit", questions, "-n", n]
            command += ["--benchmark", "fictitious:authors=150,forget=125", "--device", "cpu"]
            command += ["--control", args.models / "control"] if args.control else []
            with tempfile.TemporaryDirectory() as scratch:
                out, row = Path(scratch, "run"), {"model": model, "questions x n": size}
                if args.before:
                    used = spent(*command, "--out", Path(scratch, "before"), source=args.before)
                    row["CPU before, s"] = used.ru_utime
                used = spent(*command, "--out", out)
                files = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
                row |= {
                    "CPU, s": used.ru_utime,
                    "peak, GB": used.ru_maxrss / 1e6,
                    "page, kB": (out / "report.html").stat().st_size / 1e3,
                    "folder, kB": files / 1e3,
                } | {f"{k}, s": v for k, v in json.loads((out / "times.json").read_text()).items()}
            rows.append(row)
    report(args.json, rows)
    return 0


DRAWN = "draws (99 %)"


def rare() -> int:
    """Compare the methods' lower bounds on rare leaks, at about the same number of forwards."""
    args = options(
        __doc__,
        models=MODELS,
        of=(["NPO"], "labels of the demo's models"),
        budgets=([250, 1000], "forwards per question"),
        draws=(1 << 16, "of the reference"),
        questions=(24, "evenly spaced"),
    )
    from leakbound.engines.hf import TransformersEngine
    from leakbound.unlearning import prompting_of

    paths, task = demo_models(args.models), load_benchmark(BENCHMARK)
    rows: list[dict[str, Any]] = []
    for label in args.of:
        engine = TransformersEngine.open(str(paths[label]), prompting_of(task), device="cpu")
        got = Rare(engine, task, args.questions).rows(args.budgets, args.draws)
        rows += [{"model": label} | row for row in got]
    lead = "fraction of the reference: the leaking draws, or the largest proof"
    report(args.json, rows, lead)
    return 0


class Rare:
    """The questions of one model, and the methods that bound their leaks from below."""

    def __init__(self, engine: Any, task: Any, count: int) -> None:
        step = max(len(task.prompts) // count, 1)
        self.engine, self.scorer = engine, make_scorer("keyword:require=all")
        self.prompts = {prompt.id: prompt for prompt in task.prompts[::step][:count]}
        self.queries = {name: Query.original(prompt) for name, prompt in self.prompts.items()}
        self.decoding = Decoding(max_new_tokens=task.max_new_tokens)
        self.methods = {"prover": self.prover, "exploration": self.exploration, DRAWN: self.drawn}
        engine.measure(list(self.queries.values()))

    def ranges(self, query: Query, events: Sequence[Any]) -> list[tuple[float, float]]:
        return score_ranges(self.scorer, events, self.prompts[query.id])

    def hits(self, name: str, n: int, purpose: str) -> int:
        """Return the number of n draws that leak."""
        draws = Draws(sizes=(n,), purpose=purpose)
        (sample,) = self.engine.generate([self.queries[name]], self.decoding, draws)
        texts = [completion.answer for completion in sample.completions]
        scores = score_texts(self.scorer, texts, self.prompts[name])
        return sum(c.count for c, s in zip(sample.completions, scores, strict=True) if s)

    def prover(self, name: str, budget: int) -> tuple[float, int]:
        leads = [(self.queries[name], [self.prompts[name].answer or ""])]
        (got,) = self.engine.prove(leads, self.decoding, budget, self.ranges)
        pairs = zip(got.events, got.lows, strict=True)
        return math.fsum(event.mass * low for event, low in pairs), got.forwards

    def exploration(self, name: str, budget: int) -> tuple[float, int]:
        effort, query = Effort(mode="exact", forwards=budget), self.queries[name]
        (got,) = self.engine.explore([query], self.decoding, effort, self.ranges)
        pairs = zip(got.events, self.ranges(query, got.events), strict=True)
        return math.fsum(event.mass * low for event, (low, _) in pairs), got.forwards

    def drawn(self, name: str, budget: int) -> tuple[float, int]:
        """Return the lower bound of the fewest draws, a power of 2, that use the budget."""
        n, forwards, value = 16, 0, 0.0
        while forwards < budget and n < 1 << 17:
            n, before = 2 * n, self.engine.usage.forwards
            bound = stats.bound(
                stats.Rows.of_hits(self.hits(name, n, f"bench:{n}"), n), side="lower"
            )
            value, forwards = float(bound.lower), self.engine.usage.forwards - before
        return value, forwards

    def rows(self, budgets: Sequence[int], draws: int) -> Iterator[dict[str, Any]]:
        """Return a row per budget and method, for questions whose reference is at least 1e-6."""
        got: dict[tuple[int, str], dict[str, tuple[float, int]]] = {
            (budget, method): {name: call(name, budget) for name in self.queries}
            for budget in budgets
            for method, call in self.methods.items()
        }
        most = {}
        for name in self.queries:
            hits = self.hits(name, draws, "bench:reference")
            sure = stats.bound(stats.Rows.of_hits(hits, draws), confidence=1 - 1e-6, side="upper")
            proofs = [each[name][0] for (_, method), each in got.items() if method != DRAWN]
            most[name] = max(hits / draws, *proofs)
            if max(proofs) > float(sure.upper):
                raise SystemExit(f"{name}: {max(proofs)} is proved, but draws allow {sure.upper}")
        counted = [name for name in self.queries if most[name] >= 1e-6]
        for (budget, method), each in got.items():
            fractions = [each[name][0] / most[name] for name in counted] or [0.0]
            yield {
                "budget": budget,
                "method": method,
                "fraction": float(np.median(fractions)),
                "shown": f"{sum(each[name][0] >= 1e-6 for name in counted)} of {len(counted)}",
                "forwards": float(np.median([forwards for _, forwards in each.values()])),
            }


def training() -> int:
    """Time a step of NPO + entropy by leakbound and by a plain Trainer, in turn."""
    args = options(
        __doc__,
        models=MODELS,
        model=(str, "a model folder (default: the demo's full model)"),
        benchmark="fictitious",
        data=Path,
        rounds=3,
        steps=3,
    )
    from transformers import AutoTokenizer

    from leakbound.engines.loading import quiet
    from leakbound.engines.prompting import Prompting
    from leakbound.unlearning import TrainingSettings, unlearn
    from leakbound.unlearning.examples import Encoder
    from peers import plain_trainer

    model = args.model or str(demo_models(args.models)["full"])
    task = load_benchmark(args.benchmark, data=args.data)
    prompting = Prompting(template=task.template, system=task.system)
    rows = {"forget": task.prompts[: 8 * args.steps], "retain": task.split("retain")[-160:]}
    settings = TrainingSettings(
        epochs=1, batch_size=8, schedule="constant", warmup_ratio=0.0, prompting=prompting
    )

    def ours(out: Path, progress: Progress) -> Sequence[float]:
        done = unlearn(model, "npo+entropy", **rows, out=out, settings=settings, progress=progress)
        return done.losses

    def plain(out: Path, progress: Progress) -> Sequence[float]:
        with quiet():
            encoder = Encoder(AutoTokenizer.from_pretrained(model), prompting)
            encoded = {split: encoder.rows(each) for split, each in rows.items()}
            return plain_trainer.train(model, encoded, settings, out, progress)

    took: dict[str, list[float]] = {"leakbound": [], "plain": []}
    losses: dict[str, Sequence[float]] = {}
    for _ in range(args.rounds):
        for side, train in (("leakbound", ours), ("plain", plain)):
            ends: list[float] = []

            def progress(now: Headway, ends: list[float] = ends) -> None:
                if now.unit == "steps":
                    ends.append(time.process_time())

            with tempfile.TemporaryDirectory() as scratch:
                losses[side] = train(Path(scratch, "out"), progress)
            took[side].append(statistics.median(b - a for a, b in pairwise(ends)))
    ratio = statistics.median(p / o for p, o in zip(took["plain"], took["leakbound"], strict=True))
    apart = max(abs(a - b) / abs(b) for a, b in zip(*losses.values(), strict=True))
    got = {f"{side}, CPU s a step": statistics.median(each) for side, each in took.items()}
    got |= {"ratio": ratio, "losses differ by": apart}
    report(args.json, [got])
    return 0


KINDS: Mapping[str, Callable[[], int]] = {
    each.__name__: each for each in (engines, rouge, bounds, runs, rare, training)
}


def main() -> int:
    return dispatch(__doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
