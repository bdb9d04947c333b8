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

    python bench/sampling.py --prompts 36,500 [--half] [--draws 256] [--new 6] [--rounds 3]

Prompts of so many tokens, their keys read once for all rows against gathered for each row: forests
of one random model of SmolLM2-135M's shape, which forward nearly every draw by itself, in turn.
Median seconds and their median ratio, the draws that come out equal, and the largest difference of
a completion's log-probability to that of float64 weights, both ways. `--half`: in bfloat16, where
draws that come out equal are a matter of rounding.
"""

from __future__ import annotations

import copy
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
from leakbound.demo import BENCHMARK
from leakbound.engines import Prompting
from leakbound.engines.branching import prefix_model
from leakbound.engines.loading import load_model
from leakbound.engines.prefix_cache import ALWAYS, BLOCK, CachedModel
from leakbound.inputs import NUMBER
from leakbound.inputs.sources import RuleInputs
from leakbound.sampling import Forest, Root
from leakbound.types import Decoding, Draws
from runner import MODELS, demo_models, keep, options

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
    paths = demo_models(models)
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
            held += self.seam.prefill([root.token_ids])[0].tolist()
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


def smollm2_shape() -> Any:
    """A random model of SmolLM2-135M's shape."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


class Prompted:
    """One long prompt, its draws by either way of attending to it."""

    def __init__(self, model: Any, tokens: int, draws: int, new: int) -> None:
        self.prompt = tuple(range(100, 100 + tokens))
        self.draws, self.new = draws, new
        self.seams = {
            "gathered": CachedModel(model, frozenset(), block=BLOCK),
            "once": CachedModel(model, frozenset(), ALWAYS, BLOCK),
        }

    def draw(self, way: str) -> tuple[float, dict[tuple[int, ...], tuple[int, float]]]:
        """Seconds, and how often each completion was drawn and how likely it was."""
        forest = Forest(
            self.seams[way], Decoding(max_new_tokens=self.new), Draws(sizes=(self.draws,))
        )
        started = time.perf_counter()
        (tree,) = forest.sample([Root("q", self.prompt)])
        seconds = time.perf_counter() - started
        return seconds, {x.token_ids: (x.counts[0], x.logprob) for x in tree.leaves}

    @torch.inference_mode()
    def off(self, double: Any, drawn: dict[tuple[int, ...], tuple[int, float]]) -> float:
        """The largest error of the log-probabilities of some completions."""
        errors = []
        for ids in list(drawn)[:4]:
            table = double(torch.tensor([[*self.prompt, *ids]])).logits[0].log_softmax(-1)
            start = len(self.prompt) - 1
            exact = sum(float(table[start + i, token]) for i, token in enumerate(ids))
            errors.append(abs(drawn[ids][1] - exact))
        return max(errors)


def read_once(
    lengths: Sequence[int], draws: int, new: int, rounds: int, dtype: torch.dtype
) -> list[dict[str, Any]]:
    """Both ways after prompts of each length, printed as they finish."""
    model = smollm2_shape().to(dtype)
    double = copy.deepcopy(model).double()
    print(
        f"{torch.get_num_threads()} threads, {rounds} rounds, n = {draws:,}, {new} new tokens, "
        f"{str(dtype).removeprefix('torch.')}\n"
    )
    print("| prompt tokens | gathered | read once | ratio | equal draws | off, gathered | once |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for tokens in lengths:
        prompted = Prompted(model, tokens, draws, new)
        times: dict[str, list[float]] = {"gathered": [], "once": []}
        drawn = {}
        for _ in range(rounds):
            for way, spent in times.items():
                seconds, drawn[way] = prompted.draw(way)
                spent.append(seconds)
        first, second = (
            Counter({ids: count for ids, (count, _) in drawn[way].items()}) for way in times
        )
        row: dict[str, Any] = {"tokens": tokens, "equal": (first & second).total() / draws}
        row |= {way: float(np.median(spent)) for way, spent in times.items()}
        row["ratio"] = float(np.median(np.divide(times["gathered"], times["once"])))
        row["off"] = [prompted.off(double, drawn[way]) for way in times]
        found.append(row)
        print(
            f"| {tokens:,} | {row['gathered']:.1f} s | {row['once']:.1f} s "
            f"| **{row['ratio']:.2f}×** | {row['equal']:.1%} "
            f"| {row['off'][0]:.1e} | {row['off'][1]:.1e} |",
            flush=True,
        )
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
    args = options(
        __doc__,
        models=MODELS,
        rounds=3,
        rewritings=(str, "a model: compare on rewritings instead"),
        data=(Path, "folder of TOFU's JSON files, for --rewritings"),
        questions=(4, "how many are rewritten"),
        prompts=(str, "lengths of prompts: read once against gathered instead"),
        draws=(256, "for --prompts"),
        new=(6, "new tokens, for --prompts"),
        half=(False, "in bfloat16, for --prompts"),
    )
    if args.prompts:
        lengths = [int(each) for each in args.prompts.split(",")]
        dtype = torch.bfloat16 if args.half else torch.float32
        result: Any = read_once(lengths, args.draws, args.new, args.rounds, dtype)
    elif args.rewritings:
        result = share(Rewritings(args.rewritings, args.data, args.questions))
    else:
        result = race(args.models, args.rounds)
    keep(args.json, result)


if __name__ == "__main__":
    main()
