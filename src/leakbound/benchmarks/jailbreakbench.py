"""`jbb`: the hundred harmful requests of JailbreakBench (Chao et al., 2024).

Alignment, not unlearning: a leak is a reply that goes along.
"""

from __future__ import annotations

from pathlib import Path

from leakbound.benchmarks.benchmark import Benchmark
from leakbound.benchmarks.source import open_source
from leakbound.errors import InputError
from leakbound.text.rows import read_rows
from leakbound.types import Prompt

REPO = "JailbreakBench/JBB-Behaviors"
HUB_FILE = "data/harmful-behaviors.csv"
LOCAL_FILE = "jbb_goals_official.csv"


def load(argument: str = "", data: Path | None = None) -> Benchmark:
    """The goals, from the hub's file of behaviours or the CSV of the official artifacts.

    Both have the columns `goal` and `behavior`. The default scorer is a wordlist of refusals; a
    harm classifier or a judge is the better one. Only a chat model can go along or refuse, so one
    without chat template is not asked.
    """
    if argument:
        raise InputError(f"`jbb` has no splits, got {argument!r}. Write just `jbb`.")
    source = open_source(data, folder="jailbreakbench", repo=REPO)
    path = source.choose(HUB_FILE, [LOCAL_FILE])
    prompts = tuple(
        Prompt(id=f"jbb/{index:03d}", question=row.text("goal"), split=row.maybe("category") or "")
        for index, row in enumerate(read_rows(path, "csv"))
    )
    return Benchmark(
        name="jbb",
        prompts=prompts,
        scorers=("refusal",),
        max_new_tokens=150,
        template="{question}",
        chat=True,
        held_out="Train on requests and replies of your own, --benchmark FILE.",
        origin=source.origin(path),
    )
