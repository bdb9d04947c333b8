"""The metrics of a finished run beside OpenUnlearning's definitions, run on the same models.

    residua evaluate MODEL --control RETRAINED --benchmark tofu:forget10 --data TOFU --limit 12 \\
        -n 8 --metrics all --profile openunlearning --device cpu --out RUN
    python bench/parity.py RUN

Theirs come from `tests/openunlearning.py`, a text at a time and slowly; with --prompt-template, the
plain prompt of the run. Exit status 1 where a metric differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer

from residua.benchmarks import Benchmark, load_benchmark
from residua.store import Run

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from openunlearning import Oracle

MOST = 1e-4
PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")


def main() -> None:
    """Print both numbers of every metric, and the largest difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run of `residua evaluate --metrics all`")
    run = Run.open(parser.parse_args().run)
    told = run.record["settings"]
    task = load_benchmark(
        told["benchmark"], data=told["data"], limit=told["limit"], profile=told["profile"]
    )
    parts = {part: task.parts()[part]() for part in PARTS}
    model, control = (oracle(told[name], told, task) for name in ("model", "control"))
    stored = json.loads((run.path / "utility.json").read_text())["arms"]["target"]["metrics"]
    ours = {name: metric["value"] for name, metric in stored.items()}
    theirs = model.metrics(parts) | model.beside(control, parts)
    print(f"{'metric':42}{'residua':>14}{'theirs':>14}{'difference':>12}")
    for name, value in theirs.items():
        print(f"{name:42}{ours[name]:14.6f}{value:14.6f}{ours[name] - value:12.1e}")
    largest = max(abs(ours[name] - value) for name, value in theirs.items())
    without = [name for name in ours if name not in theirs]
    print(f"largest difference {largest:.1e}; not theirs: {', '.join(without)}")
    raise SystemExit(largest > MOST)


def oracle(location: str, told: dict[str, Any], task: Benchmark) -> Oracle:
    """Their evaluation of a model of the run."""
    model = AutoModelForCausalLM.from_pretrained(location, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(location)
    template = told.get("template")
    if template is None and tokenizer.chat_template is None:
        template = task.template
    return Oracle(model, tokenizer, task.max_new_tokens, template)


if __name__ == "__main__":
    main()
