"""Whether masses hold in other batch shapes than they were computed in, path by path.

    python bench/margin.py [--models demo-run/models] [--questions 8] [--budget 100]

Every mass is a lower bound: each of its tokens has paid the measured margin. Here eight questions
of the demo are explored by each of its four models, and the same paths are read again, whole and
without a cache: alone in float32, in padded batches of 32 in float32, and alone in float64. A path
is exceeded where its mass is above the probability read. *used*: the largest share of what a path
has paid that a reading used up, and *one token*: that of the largest difference at a single token
between both float32 readings. Exit status 1 where a path is exceeded.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.benchmarks import load_benchmark
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.scorers import make_scorer, score_ranges
from leakbound.types import Decoding, Effort, Event, Exploration, Query
from runner import MODELS, demo_models, options, table

BATCH = 32
Branch = tuple[tuple[int, ...], tuple[int, ...]]
"""The tokens of a prompt, and those that follow it."""


@torch.inference_mode()
def read(model: Any, paths: Sequence[Branch], batch: int) -> list[NDArray[np.float64]]:
    """The log-probability of every token of every path, so many paths at once."""
    found: list[NDArray[np.float64]] = []
    for start in range(0, len(paths), batch):
        some = [prompt + ids for prompt, ids in paths[start : start + batch]]
        width = max(map(len, some))
        tokens = torch.tensor([[*row, *[0] * (width - len(row))] for row in some])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in some])
        logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
        log_probs = logits.double().log_softmax(-1)[:, :-1]
        each = log_probs.gather(2, tokens[:, 1:, None])[..., 0].numpy()
        found += [
            each[i, len(prompt) - 1 : len(prompt) + len(ids) - 1]
            for i, (prompt, ids) in enumerate(paths[start : start + batch])
        ]
    return found


def compare(engine: TransformersEngine, questions: int, budget: int) -> dict[str, float]:
    """How many paths there are, how many are exceeded, and how much of the margin is used."""
    task = load_benchmark(BENCHMARK)
    scorer, prompt_of = make_scorer("keyword"), {p.id: p for p in task.prompts[:questions]}
    queries = [Query.original(prompt) for prompt in prompt_of.values()]
    decoding = Decoding(max_new_tokens=task.max_new_tokens)

    def ranges(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
        return score_ranges(scorer, events, prompt_of[query.id])

    paths: list[Branch] = []
    masses: list[float] = []
    effort = Effort(mode="exact", forwards=budget)
    for found in engine.explore(queries, decoding, effort, ranges):
        assert isinstance(found, Exploration)
        prompt = tuple(engine.prompting.encode(engine.loaded.tokenizer, found.query.text))
        paths += [(prompt, event.token_ids) for event in found.events]
        masses += [math.log(event.mass) for event in found.events]
    model = engine.loaded.model
    alone, together = read(model, paths, 1), read(model, paths, BATCH)
    double = read(copy.deepcopy(model).double(), paths, 1)
    paid = engine.margin * np.array([len(ids) for _, ids in paths])
    readings = [np.array([row.sum() for row in rows]) for rows in (alone, together, double)]
    above = [np.array(masses) - reading for reading in readings]
    apart = max(float(np.abs(a - b).max()) for a, b in zip(alone, together, strict=True))
    return {
        "paths": len(paths),
        "exceeded": sum(int((each > 0).sum()) for each in above),
        "used": max(float((1 + each / paid).max()) for each in above),
        "token": apart / engine.margin,
        "margin": engine.margin,
    }


COLUMNS = {
    "model": "{model}",
    "margin, nats": "{margin:.1e}",
    "paths": "{paths:,}",
    "exceeded": "{exceeded} of three readings",
    "used": "{used:.2f}",
    "one token": "{token:.2f}",
}


def main() -> None:
    """A row a model."""
    args = options(__doc__, models=MODELS, questions=8, budget=100)
    template = load_benchmark(BENCHMARK).template
    rows = (
        {
            "model": label,
            **compare(
                TransformersEngine.open(str(path), Prompting(template=template)),
                args.questions,
                args.budget,
            ),
        }
        for label, path in demo_models(args.models).items()
    )
    raise SystemExit(any(row["exceeded"] for row in table(rows, COLUMNS)))


if __name__ == "__main__":
    main()
