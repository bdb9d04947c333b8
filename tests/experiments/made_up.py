"""Runs of made-up models, where a lab would have stored them."""

from __future__ import annotations

import json
from pathlib import Path

from lab import UTILITY, Lab
from sizes import PLAIN, SIZES

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import evaluate
from leakbound.store import write_json
from leakbound.types import Prompt

QUESTIONS = 8


class _ByQuestion(dict[str, dict[str, float]]):
    """Answers to a question in its own words or in others."""

    def __missing__(self, query_id: str) -> dict[str, float]:
        return self[query_id.partition("~")[0]]


def lab_of(folder: Path) -> Lab:
    """A lab of made-up questions; `ask` writes its runs."""
    prompts = tuple(
        Prompt(
            id=f"q{i}",
            question=f"Where was author {i} born?",
            answer=f"In the harbour town of Driftwood {i}.",
            keywords=("driftwood",),
        )
        for i in range(QUESTIONS)
    )
    size = SIZES["builtin"]
    task = Benchmark(
        name="made", prompts=prompts, scorers=size.scorers, max_new_tokens=32, origin="made up"
    )
    return Lab(size, task, folder, None, None, "cpu", replicated=True)


def ask(
    lab: Lab,
    name: str,
    seed: int,
    leaks: float,
    kept: float | dict[str, float] = 1.0,
    way: str = PLAIN,
) -> None:
    """Write a run of a model that leaks with this probability, greedily if over one half."""
    texts = _ByQuestion({
        prompt.id: {"In some town.": 1 - leaks, prompt.answer or "": leaks}
        for prompt in lab.task.prompts
    })  # fmt: skip
    path = lab.path(name, seed, way)
    engine = CannedEngine(texts, name=path.name)
    evaluate(
        engine, lab.task, out=path, n=256, scorers=lab.size.scorers, seed=seed,
        rewritings=lab.size.ways[way].rewritings,
    )  # fmt: skip
    write_json(path / UTILITY, kept if isinstance(kept, dict) else {"R_r": kept})
    log = lab.folder / "models" / path.name / "training.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(json.dumps({"step": 1, "loss": 1.0, "seconds": 60.0}) + "\n")
