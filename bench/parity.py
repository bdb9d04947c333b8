"""The metrics of a finished run beside OpenUnlearning's definitions, run on the same models.

    residua evaluate MODEL --control RETRAINED --benchmark tofu:forget10 --data TOFU --limit 12 \\
        -n 8 --metrics all --profile openunlearning --device cpu --out RUN
    python bench/parity.py RUN

Theirs come from `tests/openunlearning.py`, a text at a time and slowly. Exit status 1 where a
metric differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from residua.benchmarks import load_benchmark
from residua.evaluation import Study
from residua.evaluation.draws.sample import CONTROL_GREEDY, GREEDY
from residua.store import Arm, Run

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from openunlearning import LLAMA_2_CHAT, Oracle

MOST = 1e-4
PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")


def main() -> None:
    """Print both numbers of every metric, and the largest difference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run of `residua evaluate --metrics all`")
    run = Run.open(parser.parse_args().run)
    study = Study.of(run)
    if study.benchmark is None:
        raise SystemExit(f"{run.path}: no study on record. Make it with `residua evaluate`.")
    task = load_benchmark(**asdict(study.benchmark))
    parts = {part: task.parts()[part]() for part in PARTS}
    model = oracle(run.arms[GREEDY])
    theirs = model.metrics(parts)
    if CONTROL_GREEDY in run.arms:
        theirs |= model.beside(oracle(run.arms[CONTROL_GREEDY]), parts)
    stored = json.loads((run.path / "utility.json").read_text())["arms"]["target"]["metrics"]
    ours = {name: metric["value"] for name, metric in stored.items()}
    print(f"{'metric':42}{'residua':>14}{'theirs':>14}{'difference':>12}")
    for name, value in theirs.items():
        print(f"{name:42}{ours[name]:14.6f}{value:14.6f}{ours[name] - value:12.1e}")
    largest = max(abs(ours[name] - value) for name, value in theirs.items())
    without = [name for name in ours if name not in theirs]
    print(f"largest difference {largest:.1e}; not theirs: {', '.join(without)}")
    raise SystemExit(largest > MOST)


def oracle(arm: Arm) -> Oracle:
    """Their evaluation of the model of an arm of greedy answers."""
    location, asked = arm.spec["model"], arm.spec["fingerprint"]["prompting"]
    model = AutoModelForCausalLM.from_pretrained(location, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(location)
    template = None if asked["chat"] else asked["template"]
    if asked["family"] == "llama-2-chat":
        template = LLAMA_2_CHAT
    return Oracle(model, tokenizer, arm.decoding.max_new_tokens, template)


if __name__ == "__main__":
    main()
