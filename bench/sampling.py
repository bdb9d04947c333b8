"""The forest against one `generate` call per question, on the same work.

    python bench/sampling.py [--models demo-run/models] [--rounds 3] [--json FILE]

Both draw n = 1,024 completions of each question at T = 1, untruncated, with the same model,
threads and max_new_tokens, in turn; a ratio is taken in each round, the median is reported. That
both draw from one law is checked by two-sample Kolmogorov-Smirnov tests of the lengths and of the
log-probabilities under the model.

    python bench/sampling.py --rewritings MODEL --data TOFU [--questions 4] [--json FILE]

Rewritings of the first forget01 questions in one forest against one forest each: tokens forwarded,
counted at the model, and CPU time; 20 rule-made ones a question, 64 draws of at most 32 tokens.
The same keys make the same draws both ways but where roundings differ: how many do is told.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from transformers import LlamaConfig, LlamaForCausalLM

from leakbound.benchmarks import load_benchmark
from leakbound.demo import BENCHMARK, Clock, train_models
from leakbound.engines import Prompting
from leakbound.engines.loading import load_model
from leakbound.engines.prefix_cache import prefix_model
from leakbound.inputs import NUMBER
from leakbound.inputs.lists import RuleInputs
from leakbound.sampling import Forest, Root
from leakbound.types import Decoding, Draws

N = 1024
Draw = tuple[np.ndarray, np.ndarray]  # lengths and log-probabilities, one a completion


class Contest:
    """One model, some prompts, and both ways to sample it."""

    def __init__(self, model: Any, eos: frozenset[int], prompts: Sequence[list[int]], new: int):
        self.model, self.eos, self.prompts, self.new = model, eos, prompts, new
        self.seam, _ = prefix_model(model, eos)
        self.saving = 1.0

    def forest(self, seed: int) -> list[Draw]:
        draws = Draws(sizes=(N,), seed=seed)
        forest = Forest(self.seam, Decoding(max_new_tokens=self.new), draws)
        roots = [Root(str(i), tuple(p)) for i, p in enumerate(self.prompts)]
        trees = sorted(forest.sample(roots), key=lambda tree: tree.root)
        self.saving = forest.usage.sampled_tokens / max(forest.usage.forwards, 1)
        return [
            (
                np.repeat([len(x.token_ids) for x in t.leaves], [x.counts[0] for x in t.leaves]),
                np.repeat([x.model_logprob for x in t.leaves], [x.counts[0] for x in t.leaves]),
            )
            for t in trees
        ]

    @torch.inference_mode()
    def generate(self, seed: int) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        return [
            self.model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=self.new,
                num_return_sequences=N,
                eos_token_id=sorted(self.eos) or None,
                pad_token_id=0,
            )
            for prompt in self.prompts
        ]

    @torch.inference_mode()
    def read(self, outputs: Sequence[torch.Tensor], most: int = 256) -> list[Draw]:
        """Lengths and log-probabilities of `generate`'s first completions; not timed."""
        found = []
        for prompt, output in zip(self.prompts, outputs, strict=True):
            ids = output[:most]
            table = self.model(ids).logits[:, len(prompt) - 1 : -1].double().log_softmax(-1)
            new = ids[:, len(prompt) :]
            each = table.gather(2, new[..., None])[..., 0]
            ended = torch.isin(new, torch.tensor(sorted(self.eos))).long()
            inside = ended.cumsum(1) - ended == 0
            found.append((inside.sum(1).numpy(), (each * inside).sum(1).numpy()))
        return found


def compare(name: str, contest: Contest, rounds: int) -> dict[str, Any]:
    """Time both in turn; medians, the median ratio, and the smallest p-value of equal laws."""
    ours, theirs, p_values = [], [], []
    for seed in range(rounds):
        started = time.perf_counter()
        forest = contest.forest(seed)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        outputs = contest.generate(seed)
        theirs.append(time.perf_counter() - started)
        if not seed:
            for a, b in zip(forest, contest.read(outputs), strict=True):
                for x, y in zip(a, b, strict=True):  # rounded: equal completions must tie
                    p_values.append(stats.ks_2samp(x.round(4), y.round(4)).pvalue)
    ratio = float(np.median(np.array(theirs) / np.array(ours)))
    return {
        "model": name,
        "questions": len(contest.prompts),
        "forest_s": float(np.median(ours)),
        "generate_s": float(np.median(theirs)),
        "ratio": ratio,
        "saving": contest.saving,
        "smallest_p": float(min(p_values)),
        "tests": len(p_values),
    }


def contests(models: Path) -> dict[str, Contest]:
    """The demo's full, unlearned and control models, and a random one of 27 M parameters."""
    task = load_benchmark(BENCHMARK)
    paths = train_models(models, task, Clock(models.parent / "phases.json"))
    prompting = Prompting(template=task.template)
    made = {}
    for label, path in paths.items():
        loaded = load_model(str(path))
        prompts = [prompting.encode(loaded.tokenizer, p.question) for p in task.prompts[::8]]
        made[f"demo, {label}"] = Contest(loaded.model, loaded.eos_token_ids, prompts, 48)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16384,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=6,
        num_attention_heads=8,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    prompt = list(range(100, 120))
    made["random, 27 M"] = Contest(LlamaForCausalLM(config).eval(), frozenset(), [prompt], 32)
    return made


class Rewritings:
    """The prompts of rewritten questions, sampled together or one after the other."""

    def __init__(self, location: str, data: Path, questions: int) -> None:
        loaded = load_model(location)
        self.seam, _ = prefix_model(loaded.model, loaded.eos_token_ids)
        self.forwarded = 0
        loaded.model.register_forward_pre_hook(self._count, with_kwargs=True)
        prompts = load_benchmark("tofu:forget01", data=data).prompts[:questions]
        prompting = Prompting(system="You are a helpful assistant.")
        self.roots = [
            Root(f"{prompt.id}#{i}", tuple(prompting.encode(loaded.tokenizer, text)))
            for prompt, texts in zip(
                prompts, RuleInputs().rewritings(prompts, NUMBER, seed=0), strict=True
            )
            for i, text in enumerate(texts)
        ]

    def _count(self, _: Any, __: Any, inputs: dict[str, Any]) -> None:
        self.forwarded += inputs["input_ids"].numel()

    def measure(self, batches: Sequence[Sequence[Root]]) -> tuple[dict[str, Any], Counter[Any]]:
        """Draw from the batches one after the other: what it cost, and the draws."""
        self.forwarded, extended, drawn = 0, 0, Counter[Any]()
        started = time.process_time()
        for batch in batches:
            forest = Forest(self.seam, Decoding(max_new_tokens=32), Draws(sizes=(64,)))
            for tree in forest.sample(batch):
                name = batch[tree.root].query_id
                drawn.update({(name, x.token_ids): x.counts[0] for x in tree.leaves})
            extended += forest.usage.forwards
        cost = {
            "prompt_tokens": self.forwarded - extended,
            "drawn_prefixes": extended,
            "cpu_s": time.process_time() - started,
        }
        return cost, drawn

    @torch.inference_mode()
    def read(self, *, hold: bool) -> float:
        """CPU seconds of reading the prompts alone, what was read before being held or not."""
        started, held = time.process_time(), []
        for root in self.roots:
            held.append(self.seam.prefill(root.token_ids)[0])
            if not hold:
                self.seam.release(np.array([held.pop()]))
        seconds = time.process_time() - started
        self.seam.release(np.array(held, dtype=np.int64))
        return seconds


def share(rewritings: Rewritings) -> dict[str, Any]:
    """Both ways, printed as they finish."""
    roots = rewritings.roots
    total = sum(len(root.token_ids) for root in roots)
    print(f"{len(roots)} queries, {total:,} prompt tokens, {torch.get_num_threads()} threads\n")
    print("| way | prompt tokens forwarded | drawn prefixes | CPU | prompts alone |")
    print("|---|---|---|---|---|")
    found: dict[str, Any] = {}
    draws = []
    for way, batches in {"one by one": [[root] for root in roots], "together": [roots]}.items():
        alone = rewritings.read(hold=way == "together")
        cost, drawn = rewritings.measure(batches)
        draws.append(drawn)
        found[way] = cost | {"prompts_cpu_s": alone}
        print(
            f"| {way} | {cost['prompt_tokens']:,} | {cost['drawn_prefixes']:,} "
            f"| {cost['cpu_s']:.1f} s | {alone:.1f} s |",
            flush=True,
        )
    first, second = draws
    found["equal"] = (first & second).total() / first.total()
    print(f"\n{found['equal']:.2%} of {first.total():,} draws are equal")
    return found


def race(models: Path, rounds: int) -> list[dict[str, Any]]:
    """Every contest, printed as it finishes."""
    print(f"{torch.get_num_threads()} threads, {rounds} rounds, n = {N:,}\n")
    print("| model | questions | forest | generate | ratio | prefix saving | smallest KS p |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name, contest in contests(models).items():
        row = compare(name, contest, rounds)
        rows.append(row)
        print(
            f"| {name} | {row['questions']} | {row['forest_s']:.2f} s | {row['generate_s']:.1f} s "
            f"| **{row['ratio']:.1f}×** | {row['saving']:.1f}× "
            f"| {row['smallest_p']:.3f} of {row['tests']} |",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("demo-run/models"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rewritings", metavar="MODEL", help="compare on rewritings instead")
    parser.add_argument("--data", type=Path, help="folder of TOFU's JSON files, for --rewritings")
    parser.add_argument("--questions", type=int, default=4, help="how many are rewritten")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.rewritings:
        result = share(Rewritings(options.rewritings, options.data, options.questions))
    else:
        result = race(options.models, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
