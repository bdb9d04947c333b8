"""Compare the metrics of two evaluations with OpenUnlearning's definitions, on the same models.

    python bench/parity.py --model MODEL --retrained RETRAINED --data TOFU --out FOLDER

evaluates MODEL on twelve questions per part, with RETRAINED as its control, as

    leakbound evaluate MODEL --control RETRAINED --benchmark tofu:forget10 --data TOFU --limit 12 \\
        -n 8 --metrics all --profile openunlearning --device cpu --out FOLDER/chat

under the chat template, and again with Phi-1.5's plain prompt. The same command resumes. Their
values come from `tests/openunlearning.py`, one text at a time and slowly: on two CPU cores a model
of 135 M parameters takes an hour in total. Exit status 1 if a metric differs by more than 1e-4, or
if leakbound lacks one of theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer

from leakbound.store import CONTROL_GREEDY, GREEDY, Arm, Run
from runner import options, report

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from openunlearning import LLAMA_2_CHAT, PLAIN, Oracle

MOST = 1e-4
PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")
OPTIONS = "--benchmark tofu:forget10 --limit 12 -n 8 --metrics all --profile openunlearning"
PROMPTS: dict[str, tuple[str, ...]] = {"chat": (), "plain": ("--prompt-template", PLAIN)}


def main() -> None:
    """Evaluate under both prompts, and print both numbers of every metric of each."""
    given = options(
        __doc__,
        model=(str, "a chat model's folder"),
        retrained=(str, "the folder of what it is compared with"),
        data=(str, "a folder with TOFU's files"),
        out=(Path, "a folder for both runs"),
    )
    if None in (given.model, given.retrained, given.data, given.out):
        raise SystemExit("nothing compared: name --model, --retrained, --data and --out")
    rows = []
    for name, prompt in PROMPTS.items():
        out = given.out / name
        command = [sys.executable, "-m", "leakbound", "evaluate", given.model, *OPTIONS.split()]
        command += ["--control", given.retrained, "--data", given.data, "--out", out, *prompt]
        command += ["--device", "cpu"]
        subprocess.run(command, check=True)
        rows += [{"prompt": name} | row for row in compared(Run.open(out))]
    report(given.json, rows)
    raise SystemExit(max(abs(row["difference"]) for row in rows) > MOST)


def compared(run: Run) -> Iterator[dict[str, Any]]:
    """Compare the metrics of a run with theirs."""
    task = run.study.load()
    parts = {part: task.parts()[part]() for part in PARTS}
    model = oracle(run.arms[str(GREEDY)])
    theirs = model.metrics(parts) | model.against(oracle(run.arms[str(CONTROL_GREEDY)]), parts)
    stored = json.loads((run.path / "utility.json").read_text())["arms"]["target"]["metrics"]
    ours = {name: metric["value"] for name, metric in stored.items()}
    for name, value in theirs.items():
        difference = ours[name] - value
        yield {"metric": name, "leakbound": ours[name], "theirs": value, "difference": difference}
    print("not theirs:", [name for name in ours if name not in theirs])


def oracle(arm: Arm) -> Oracle:
    """Run their evaluation of the model of an arm of greedy answers."""
    location, wanted = arm.spec.model, arm.spec.fingerprint["prompting"]
    model = AutoModelForCausalLM.from_pretrained(location, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(location)
    template = None if wanted["chat"] else wanted["template"]
    if wanted["family"] == "llama-2-chat":
        template = LLAMA_2_CHAT
    return Oracle(model, tokenizer, arm.decoding.max_new_tokens, template)


if __name__ == "__main__":
    main()
