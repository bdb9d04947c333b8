"""The forest on a GPU: the parts of a step, and tokens per second against other engines.

    python bench/gpu.py [--shape 1B | --model FOLDER] [--sharp 1 25] [--device cuda]
        [--dtype bfloat16] [--rows 64 256 1024] [--prompt 100] [--prompts 16] [--draws 1024]
        [--new 40] [--rounds 3] [--fewer 1024] [--vllm PYTHON] [--json FILE]

Without a model, a random one of a SHAPE (tiny, 135M, 1B, 8B) is made; `sharp` multiplies its
logits: by 1 draws share almost nothing, by 25 half of their prefixes. The defaults take ten minutes
on an H100 or H200.

A step: ROWS rows, each with half of NEW tokens after a prompt of PROMPT, are forwarded: after one
prompt and after PROMPTS prompts, with keys gathered for each row and read once per prompt. The
table has median milliseconds, with the device synchronised. It also has the distribution (a draw
per row; float64 over the vocabulary), and the forest itself, measured with a model that costs
nothing.

A race: DRAWS of PROMPTS prompts by the forest, with the rows of an evaluation and with FEWER; by
one `generate` call per prompt; and by vLLM if the interpreter of its environment is given. Each
runs in its own process, one after the other. The table has median tokens per second; loading and a
small first draw are not timed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from leakbound.engines.prefix_cache import ALWAYS, CachedModel, Cascade
from leakbound.sampling import Forest, OutputTree, Root
from leakbound.sampling.distribution import pick
from leakbound.types import Decoding, Draws
from peers.engine_worker import Work
from race import Contest, Engine, race
from runner import keep, markdown, options

SHAPES = {  # vocabulary, width, inner width, layers, heads, heads of keys and values
    "tiny": (256, 32, 64, 2, 4, 2),
    "135M": (49152, 576, 1536, 30, 9, 3),
    "1B": (128256, 2048, 8192, 16, 32, 8),
    "8B": (128256, 4096, 14336, 32, 32, 8),
}


def write_model(shape: str, sharp: float, folder: Path, device: str, dtype: str) -> Path:
    """Write a random model of a shape, its logits `sharp` times as large."""
    vocabulary, width, middle, layers, heads, shared = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=middle,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        max_position_embeddings=4096,
        initializer_range=1 / width**0.5,  # logits about as far apart as a normal's draws
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = LlamaForCausalLM(config).to(getattr(torch, dtype))
    model.model.norm.weight.data.mul_(sharp)
    model.save_pretrained(folder)
    return folder


class Free:
    """A model that costs nothing: the same logits after every prefix."""

    vocab_size, eos_token_ids, full = 64, frozenset[int](), False

    def __init__(self, rows: int) -> None:
        self.logits = torch.randn(rows, self.vocab_size, generator=torch.Generator().manual_seed(0))
        self.next = 0

    def prefill(self, prompts: Any) -> tuple[Any, torch.Tensor]:
        return self._new(len(prompts)), self.logits[: len(prompts)]

    def extend(self, parents: Any, *_: Any) -> tuple[Any, torch.Tensor]:
        return self._new(len(parents)), self.logits[: len(parents)]

    def release(self, handles: Any) -> None:
        pass

    def _new(self, count: int) -> Any:
        self.next += count
        return np.arange(self.next - count, self.next)


class Laboratory:
    """A loaded model, and the timing of its steps."""

    def __init__(self, folder: Path, device: str, dtype: str, rounds: int) -> None:
        self.device, self.rounds = device, rounds
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self.model = loaded.eval().to(device)

    def timed(self, work: Callable[[], Any]) -> float:
        """Return median milliseconds, after one call that is not counted."""
        spent = []
        for _ in range(self.rounds + 1):
            self._wait()
            started = time.perf_counter()
            work()
            self._wait()
            spent.append(1000 * (time.perf_counter() - started))
        return median(spent[1:])

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.accelerator.synchronize()

    def forward(
        self, cascade: Cascade | None, rows: int, prompts: int, prompt: int, depth: int
    ) -> tuple[float, torch.Tensor]:
        """Time a step of rows with `depth` tokens after one of the prompts; also return logits."""
        seam = CachedModel(self.model, frozenset(), cascade)
        vocabulary, prompts = seam.vocab_size, min(prompts, rows)
        roots, _ = seam.prefill(
            [
                [(i + 1) % vocabulary, *(k % vocabulary for k in range(1, prompt))]
                for i in range(prompts)
            ]
        )
        handles, logits = np.sort(np.resize(np.array(roots), rows)), torch.empty(0)
        over = np.zeros(rows, dtype=bool)

        def step() -> None:
            nonlocal handles, logits, over
            tokens = np.arange(rows) % vocabulary
            handles, logits = seam.extend(handles, tokens, over)
            over = np.ones(rows, dtype=bool)

        for _ in range(depth - 1):
            step()
        return self.timed(step), logits

    def drawing(self, logits: torch.Tensor) -> float:
        """Draw from each row."""
        rows = np.arange(len(logits))
        u, known = np.random.default_rng(0).random(len(rows)), (np.zeros(len(rows)), rows * 0 + 1)
        return self.timed(lambda: pick(logits, Decoding(), rows, u, known, 1e-5))


def forest_alone(rows: int, new: int) -> float:
    """Return the forest's processor milliseconds for these rows, with its small model."""
    tree = OutputTree(Free(rows), Decoding(max_new_tokens=new), rows=rows)
    forest = Forest(tree, Draws(sizes=(rows,)))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # others would wait for work, and be counted
    started = time.process_time()
    list(forest.sample([Root("q", (1,))]))
    torch.set_num_threads(threads)
    return 1000 * (time.process_time() - started) / max(forest.usage.forwards, 1) * rows


def steps(laboratory: Laboratory, args: Any) -> Iterator[dict[str, Any]]:
    """Time the parts of a step of each number of rows."""
    depth = max(args.new // 2, 1)
    for rows in args.rows:
        row: dict[str, Any] = {"rows": rows}
        for prompts in (1, args.prompts):
            for way, cascade in {"gathered": None, "once": ALWAYS}.items():
                row[f"{way}, {prompts}"], logits = laboratory.forward(
                    cascade, rows, prompts, args.prompt, depth
                )
        row |= {"law": laboratory.drawing(logits), "forest": forest_alone(rows, args.new)}
        yield row


def races(folder: Path, args: Any, scratch: Path) -> Iterator[dict[str, Any]]:
    """Time each engine after the other."""
    prompts = [[1 + i, *range(2, args.prompt + 1)] for i in range(args.prompts)]
    work = Work(prompts, args.draws, args.new, [], device=args.device, dtype=args.dtype)
    known: list[tuple[str, str, int | None]] = [("forest", sys.executable, None)]
    known += [("forest", sys.executable, rows) for rows in args.fewer]
    known += [("transformers", sys.executable, None), ("vllm", args.vllm, None)]
    for worker, python, rows in known:
        name = f"{worker}, {rows:,} rows" if rows else worker
        contest, threads = Contest(name, folder, replace(work, rows=rows)), torch.get_num_threads()
        engines = [Engine(name, worker, python)] if python else []
        got, failed = race(contest, engines, threads, args.rounds, scratch)
        for why in failed.values():
            yield {"engine": name, "tokens_s": float("nan"), "forwarded": why}
        for times in got.values():
            tokens = sum(len(ids) for each in times.drawn for ids in each)  # tokens of every round
            speed = tokens / median(times.seconds)
            yield {"engine": name, "tokens_s": speed, "forwarded": times.tokens[0]}


def main() -> None:
    args = options(
        __doc__,
        shape="1B",
        model=(Path, "a model's folder, in place of a random one"),
        sharp=[1.0, 25.0],
        device="cuda" if torch.cuda.is_available() else "cpu",
        dtype="bfloat16",
        rows=[64, 256, 1024],
        prompt=100,
        prompts=16,
        draws=1024,
        new=40,
        rounds=3,
        fewer=[1024],
        vllm=(str, "the interpreter of an environment that has it"),
    )
    name = torch.cuda.get_device_name() if args.device == "cuda" else args.device
    print(f"{name}, torch {torch.__version__}, {args.dtype}, {args.model or args.shape}\n")
    got: dict[str, Any] = {"device": name, "steps": [], "races": []}
    with tempfile.TemporaryDirectory() as scratch:
        for i, sharp in enumerate([1.0] if args.model else args.sharp):
            folder = args.model or Path(scratch, f"sharp-{sharp:g}")
            if not args.model:
                write_model(args.shape, sharp, folder, args.device, args.dtype)
            if not i:
                laboratory = Laboratory(folder, args.device, args.dtype, args.rounds)
                made = list(steps(laboratory, args))
                got["steps"] = made
                print(f"milliseconds\n\n{markdown(made)}")
                del laboratory
                if args.device == "cuda":
                    torch.cuda.empty_cache()
            print(f"\nlogits × {sharp:g}\n")
            rows = list(races(folder, args, Path(scratch)))
            print(markdown(rows))
            got["races"] += [{"sharp": sharp} | row for row in rows]
    keep(args.json, got)


if __name__ == "__main__":
    main()
