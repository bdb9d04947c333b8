"""How well a small chat model rewrites questions: what the filters leave, and why the rest went.

Draws rewritings of the first forget01 questions of TOFU from the chat model (T = 1, top-p .95, one
reply a rewriting), filters them as an evaluation would, and prints the yield by reason and the
first rewriting that is left of each of some questions.

    python experiments/rewriting.py --model models/base --data TOFU
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from leakbound.benchmarks import load_benchmark
from leakbound.engines.models import TransformersChat
from leakbound.inputs import NUMBER, REASONS, Accepted, gather
from leakbound.inputs.model import ModelInputs
from leakbound.types import Prompt


def main() -> None:
    """Draw, filter, count."""
    options = _options()
    torch.set_num_threads(options.threads)
    prompts = load_benchmark("tofu:forget01", data=options.data).prompts[: options.questions]
    chat = TransformersChat.open(options.model)
    started = time.perf_counter()
    found = gather(ModelInputs(chat=chat), prompts, number=options.number, seed=options.seed)
    seconds = time.perf_counter() - started
    _print_yield(found)
    usage = chat.engine.usage
    print(
        f"\n{usage.draws} replies of {usage.sampled_tokens / usage.draws:.0f} tokens, "
        f"{usage.forwards} prefixes forwarded, {seconds:.0f} s\n"
    )
    _print_examples(prompts, found, options.examples)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", required=True, help="a chat model")
    parser.add_argument("--data", type=Path, required=True, help="folder of TOFU's JSON files")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--number", type=int, default=NUMBER, help="rewritings of a question")
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def _print_yield(found: Sequence[Accepted]) -> None:
    removed = Counter(removal.reason for each in found for removal in each.rejected)
    kept = [len(each.queries) for each in found]
    distinct = sum(len(set(each.queries)) for each in found)
    total = sum(kept) + removed.total()
    print(f"{sum(kept)} of {total} rewritings left ({sum(kept) / total:.0%}), {distinct} distinct")
    print(f"a question has {min(kept)} to {max(kept)} of them, {kept.count(0)} have none")
    print("removed: " + ", ".join(f"{r} {removed[r]}" for r in REASONS if removed[r]))


def _print_examples(prompts: Sequence[Prompt], found: Sequence[Accepted], number: int) -> None:
    """The first rewriting of the first questions that have one; the first removed, by reason."""
    questions = {prompt.id: prompt.question for prompt in prompts}
    for each in [each for each in found if each.queries][:number]:
        print(f"- {questions[each.prompt_id]}\n  {each.queries[0]}")
    for reason in REASONS:
        removed = [r.text for each in found for r in each.rejected if r.reason == reason and r.text]
        if removed:
            print(f"- removed, {reason}: {removed[0]}")


if __name__ == "__main__":
    main()
