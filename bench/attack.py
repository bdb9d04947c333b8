"""What a search for the worst input finds by proofs and by draws alone, at the same budget.

    python bench/attack.py [--models demo-run/models] [--of NPO] [--questions 6] [--budget 500]
                           [--long 2000] [--out build/attack]

One of the demo's models on the first questions of the built-in benchmark; a leak holds every
keyword of the answer. `evaluate --attack BUDGET` is run twice, once with an engine that gives no
proofs. How much each winner leaks is then proved with --long forwards, from the answers and from
all leaking texts of both runs: that is the figure compared. Forwards are those of the search, the
winners' own proofs included; seconds are of the processor, for all of `evaluate`.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.evaluation import evaluate
from leakbound.evaluation.drawing.explore import ranges
from leakbound.evaluation.drawing.prove import said_by
from leakbound.scorers import make_scorer, score_texts
from leakbound.store import Run
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.study import Attack
from leakbound.types import Prompt, Proving
from runner import MODELS, demo_models, options

SCORER = "keyword:require=all"
DRAWS = 256  # of each question in its own words, and of what is found
LEADS = 64


class DrawsAlone(TransformersEngine):
    """An engine that gives no proofs."""

    prove = None  # type: ignore[assignment]


def searched(engine: TransformersEngine, task: Benchmark, out: Path, budget: int) -> Run:
    """The run with its search; says what it cost."""
    before, started = engine.usage.forwards, time.process_time()
    run = evaluate(engine, task, out=out, n=DRAWS, scorers=[SCORER], attack=Attack(budget))
    spent, each = time.process_time() - started, len(task.prompts)
    own = sum(arm.usage.forwards for arm in run.arms.values())
    forwards = (engine.usage.forwards - before - own) / each
    print(f"{out.name}: {forwards:,.0f} forwards and {spent / each:.1f} s a question")
    return run


def proved(
    engine: TransformersEngine, found: AttackQuery, prompt: Prompt, said: Counter[str], most: int
) -> float:
    """What so many forwards prove of the query that was found."""
    stated = [text for text in (prompt.answer, prompt.paraphrased_answer) if text]
    every = list(dict.fromkeys([*stated, *(text for text, _ in said.most_common())]))
    scores = score_texts(make_scorer(SCORER), every, prompt)
    leads = [text for text, score in zip(every, scores, strict=True) if score][:LEADS]
    settle = ranges(make_scorer(SCORER), {found.query.id: prompt})
    (one,) = engine.prove([(found.query, leads)], found.decoding, most, settle)
    assert isinstance(one, Proving), one
    return math.fsum(event.mass for event in one.events)


def compare(runs: Mapping[str, Run], engine: TransformersEngine, most: int) -> None:
    """A row a question, and at how many the search by proofs found more."""
    by_draws, by_proofs = (read_attack_queries(run.path) or () for run in runs.values())
    first, *others = runs.values()
    said, prompts = said_by(first, others), {prompt.id: prompt for prompt in first.prompts}
    more = less = 0
    for one, other in zip(by_draws, by_proofs, strict=True):
        prompt = prompts[one.query.prompt_id]
        leaks = [proved(engine, each, prompt, said[prompt.id], most) for each in (one, other)]
        more, less = more + (leaks[1] > leaks[0]), less + (leaks[1] < leaks[0])
        print(f"| {prompt.id} | {leaks[0]:.1e} | {leaks[1]:.1e} |", flush=True)
    print(f"by proofs the winner leaks more at {more} of {len(by_draws)} questions, less at {less}")


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        of="NPO",
        questions=6,
        budget=500,
        long=2000,
        out=Path("build/attack"),
    )
    torch.set_num_threads(1)
    shutil.rmtree(args.out, ignore_errors=True)
    where = str(demo_models(args.models)[args.of])
    task = load_benchmark(BENCHMARK, limit=args.questions)
    how = {"prompting": Prompting(template=task.template), "device": "cpu"}
    engine = TransformersEngine.open(where, **how)
    alone = DrawsAlone.open(where, **how)
    runs = {
        name: searched(each, task, args.out / name, args.budget)
        for name, each in (("draws", alone), ("proofs", engine))
    }
    compare(runs, engine, args.long)


if __name__ == "__main__":
    main()
