"""All metrics of a whole evaluation in one pass, against one pass for each metric.

    python bench/evaluation.py [--data TOFU] [--model FOLDER] [--limit N] [--json FILE]

The demo's model is shown what its metrics need: of TOFU's forget10 where its folder is given, else
of 200 fictitious authors, a tenth of them to be forgotten. Three ways: *one pass* reads each text
once, the texts of a question in one row; *a pass a metric* reads what each metric needs anew, in
the same rows; *a pass a metric, each text alone* is what evaluations usually do.

Metrics that are made of others (model utility, mean recall, forget quality, privleak) have no pass
of their own, and neither have greedy answers and gradients, which are made once whichever way.
Tokens are counted at the model, padding included, times in CPU seconds. That all ways give the
same is checked reading by reading.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines import Prompting
from leakbound.engines.loading import LoadedModel, load_model
from leakbound.engines.reading import Reader
from leakbound.evaluation.planning.metrics import choose, longest_first
from leakbound.types import Query, Reading
from runner import MODELS, demo_models, keep, options, table

AUTHORS = "fictitious:authors=200,forget=20"
MADE_OF_OTHERS = ("model_utility", "r_avg", "forget_quality", "privleak")
TOLERANCE = 1e-5
BLOCK = 256  # texts read at once, as in a run

Texts = list[tuple[Query, str]]
Readings = dict[tuple[Query, str], Reading]


@dataclass
class Cost:
    """What a way took, and what it found."""

    tokens: int
    seconds: float
    texts: int
    readings: Readings


def metrics_that_read(task: Benchmark) -> list[str]:
    """The metrics with a pass of their own."""
    return [
        name
        for name, metric in choose(["all"], task, control=True).metrics.items()
        if name not in MADE_OF_OTHERS
        and any(need.kinds and not need.gradient_norm for need in metric.needs)
    ]


def texts_of(names: Sequence[str], task: Benchmark) -> Texts:
    """What one pass for these metrics reads, in the order of a run."""
    wanted = choose(names, task, control=True)
    return [(asked.query, asked.text) for asked in longest_first(wanted.texts())]


def measure(reader: Reader, each: Sequence[Texts]) -> Cost:
    """Read the texts of every pass."""
    tokens = 0

    def count(_: Any, __: Any, inputs: Mapping[str, Any]) -> None:
        nonlocal tokens
        tokens += inputs["input_ids"].numel()

    hook = reader.loaded.model.register_forward_pre_hook(count, with_kwargs=True)
    started, found = time.process_time(), Readings()
    for texts in each:
        for at in range(0, len(texts), BLOCK):
            block = texts[at : at + BLOCK]
            found.update(zip(block, reader.read(block), strict=True))
    hook.remove()
    return Cost(tokens, time.process_time() - started, sum(map(len, each)), found)


def difference(one: Readings, other: Readings) -> float:
    """The largest difference of any number of any reading, relative where that is above 1."""
    names = [field.name for field in fields(Reading) if field.name not in ("token_ids", "top")]
    pairs = [
        (getattr(one[text], name), getattr(other[text], name)) for text in other for name in names
    ]
    return max(float((np.abs(a - b) / np.maximum(1, np.abs(b))).max()) for a, b in pairs)


COLUMNS = {
    "way": "{way}",
    "texts read": "{texts:,}",
    "tokens forwarded": "{tokens:,}",
    "tokens against one pass": "{ratios[tokens]:.1f}×",
    "CPU": "{cpu_s:.1f} s",
    "CPU against one pass": "{ratios[seconds]:.1f}×",
}


def costs(ways: Mapping[str, tuple[Reader, Sequence[Texts]]]) -> Iterator[dict[str, Any]]:
    """What each way took, beside the first."""
    first: Cost | None = None
    for name, (reader, each) in ways.items():
        cost = measure(reader, each)
        first = first or cost
        ratios = {"tokens": cost.tokens / first.tokens, "seconds": cost.seconds / first.seconds}
        yield {
            "way": name,
            "texts": cost.texts,
            "tokens": cost.tokens,
            "cpu_s": cost.seconds,
            "ratios": ratios,
            "difference": difference(first.readings, cost.readings),
        }


def compare(loaded: LoadedModel, task: Benchmark) -> list[dict[str, Any]]:
    """Every way, printed as it finishes."""
    names = metrics_that_read(task)
    once, by_metric = [texts_of(names, task)], [texts_of([name], task) for name in names]
    prompting = Prompting(template=task.template, default_system=task.system)
    together = Reader(loaded, prompting, shares=True)
    alone = Reader(loaded, prompting, shares=False)
    print(f"{task.name}: {len(names)} metrics that read; {torch.get_num_threads()} threads\n")
    ways = {
        "one pass": (together, once),
        "a pass a metric": (together, by_metric),
        "a pass a metric, each text alone": (alone, by_metric),
    }
    rows = table(costs(ways), COLUMNS)
    worst = max(row["difference"] for row in rows)
    print(f"\nlargest difference of a reading: {worst:.1e}, at most {TOLERANCE:.0e} allowed")
    if worst > TOLERANCE:
        raise SystemExit("the ways do not give the same")
    return rows


def main() -> None:
    args = options(
        __doc__,
        data=(Path, "folder of TOFU's JSON files"),
        model=(str, "instead of the demo's, which is trained where it is not"),
        limit=(int, "the first prompts of every part"),
    )
    model = args.model or str(demo_models(MODELS)["full"])
    # The demo's tokenizer never saw TOFU: answers outgrow its context, and cost the same.
    loaded = replace(load_model(model), context_length=None)
    spec = AUTHORS if args.data is None else "tofu:forget10"
    keep(args.json, compare(loaded, load_benchmark(spec, data=args.data, limit=args.limit)))


if __name__ == "__main__":
    main()
