"""One engine in its own process, driven over stdin: it loads models and draws completions.

    PYTHON engine_worker.py forest|transformers|vllm|openvino|ctranslate2 THREADS

Each line is JSON: `{"model": PATH, "work": {...}}` opens a model for work of this size, `{"work":
{...}}` draws n completions of each prompt, T = 1 and nothing truncated. Answers are JSON too; the
output of libraries goes to stderr. Times are seconds from the prompts' token ids to the
completions'.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NO_TOKEN = 2**30
ROWS = 512  # of a batch, at most
COPIES = 256  # of a prompt in a batch of CTranslate2
Drawn = list[list[list[int]]]  # token ids of the draws of each prompt


@dataclass(frozen=True)
class Work:
    """The work of an engine.

    Attributes:
        prompts: the token ids of each.
        n: draws of each prompt.
        new: most tokens of a completion.
        ends: tokens that end it.
        seed: of the draws.
        device, dtype: of the weights, for the engines that can choose.
        rows: that the forest forwards at a time, at most; None: as many as an evaluation does.
    """

    prompts: list[list[int]]
    n: int
    new: int
    ends: list[int]
    seed: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    rows: int | None = None


# An engine: `draw` is timed; `read` gives the token ids of its draws, untimed; `forwarded` are the
# tokens that the last call forwarded, if the engine counts them.


class Forest:
    """leakbound's own: each distinct prefix is forwarded once."""

    def __init__(self, model: Path, work: Work, threads: int) -> None:
        from leakbound.engines.branching import prefix_model
        from leakbound.engines.hf import RowBudget

        loaded = _llama(model, work, threads)
        self.seam, _ = prefix_model(loaded, frozenset(work.ends))
        budget = RowBudget.of(loaded.device)
        self.rows, self.live = budget.rows(loaded, work.new, work.rows)
        self.forwarded: int | None = None

    def draw(self, work: Work) -> Any:
        from leakbound.sampling import Forest, OutputTree, Root
        from leakbound.types import Decoding, Draws

        tree = OutputTree(self.seam, Decoding(max_new_tokens=work.new), rows=self.rows)
        forest = Forest(tree, Draws(sizes=(work.n,), seed=work.seed), live=self.live)
        roots = [Root(str(i), tuple(p)) for i, p in enumerate(work.prompts)]
        trees = sorted(forest.sample(roots), key=lambda tree: tree.root)
        self.forwarded = forest.usage.forwards + sum(map(len, work.prompts))
        return trees

    def read(self, drawn: Any, work: Work) -> Drawn:
        return [
            [list(leaf.token_ids) for leaf in tree.leaves for _ in range(leaf.counts[0])]
            for tree in drawn
        ]


class Transformers:
    """One `generate` call per prompt, read once: its rows continue from keys and values."""

    def __init__(self, model: Path, work: Work, threads: int) -> None:
        self.model = _llama(model, work, threads)
        self.forwarded: int | None = None

    def draw(self, work: Work) -> Any:
        import torch

        torch.manual_seed(work.seed)
        with torch.inference_mode():
            prompts = [torch.tensor([ids], device=work.device) for ids in work.prompts]
            return [self._rows(prompt, work) for prompt in prompts]

    def _rows(self, prompt: Any, work: Work) -> Any:
        known = self.model(prompt[:, :-1], use_cache=True, logits_to_keep=1).past_key_values
        known.batch_repeat_interleave(work.n)
        rows = prompt.expand(work.n, -1)
        return self.model.generate(
            rows,
            past_key_values=known,
            attention_mask=rows.new_ones(rows.shape),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=work.new,
            eos_token_id=work.ends or None,
            pad_token_id=0,
        )

    def read(self, drawn: Any, work: Work) -> Drawn:
        pairs = zip(drawn, work.prompts, strict=True)
        return [[_cut(row, work) for row in out[:, len(p) :].tolist()] for out, p in pairs]


class Vllm:
    """vLLM's offline engine, prompts and draws in one call."""

    def __init__(self, model: Path, work: Work, threads: int) -> None:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        from vllm import LLM

        self.llm = LLM(
            model=str(model),
            skip_tokenizer_init=True,
            dtype=work.dtype,
            generation_config="vllm",
            enable_prefix_caching=True,
            enable_chunked_prefill=False,
            max_model_len=max(64, *(len(prompt) + work.new for prompt in work.prompts)),
            gpu_memory_utilization=0.15 if work.device == "cpu" else 0.8,
            seed=0,
        )
        self.forwarded: int | None = None

    def draw(self, work: Work) -> Any:
        from vllm import SamplingParams

        self.llm.reset_prefix_cache()  # prompts are read again, as by the other engines
        return self.llm.generate(
            [{"prompt_token_ids": prompt} for prompt in work.prompts],
            [
                SamplingParams(
                    n=work.n,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                    seed=(work.seed + 1) * 10**6 + i * work.n,
                    stop_token_ids=work.ends,
                    ignore_eos=not work.ends,
                    max_tokens=work.new,
                    detokenize=False,
                )
                for i in range(len(work.prompts))
            ],
            use_tqdm=False,
        )

    def read(self, drawn: Any, work: Work) -> Drawn:
        return [[_cut(list(out.token_ids), work) for out in request.outputs] for request in drawn]


class OpenVino:
    """OpenVINO GenAI's continuous batching, completely in float32, one call per prompt."""

    def __init__(self, model: Path, work: Work, threads: int) -> None:
        import openvino_genai as api

        self.api = api
        scheduler = api.SchedulerConfig()
        scheduler.cache_size = 4  # GB
        # A request's sequences advance together or not at all.
        scheduler.max_num_batched_tokens = max(ROWS, 2 * work.n)
        scheduler.max_num_seqs = work.n
        self.pipeline = api.LLMPipeline(
            str(model),
            "CPU",
            scheduler_config=scheduler,
            INFERENCE_PRECISION_HINT="f32",
            KV_CACHE_PRECISION="f32",
            INFERENCE_NUM_THREADS=threads,
        )
        self.forwarded: int | None = None

    def draw(self, work: Work) -> Drawn:
        import numpy as np
        from openvino import Tensor

        how = self.api.GenerationConfig()
        how.do_sample, how.temperature, how.top_p = True, 1.0, 1.0  # top_k is off
        how.num_return_sequences, how.max_new_tokens = work.n, work.new
        how.stop_token_ids, how.ignore_eos = set(work.ends), not work.ends
        how.eos_token_id = work.ends[0] if work.ends else _NO_TOKEN
        got = []
        for i, prompt in enumerate(work.prompts):
            how.rng_seed = (work.seed + 1) * len(work.prompts) + i
            ids = np.array([prompt], dtype=np.int64)
            inputs = self.api.TokenizedInputs(Tensor(ids), Tensor(np.ones_like(ids)))
            got.append(self.pipeline.generate(inputs, how).tokens)
        return got

    def read(self, drawn: Drawn, work: Work) -> Drawn:
        return [[_cut(tokens, work) for tokens in each] for each in drawn]


class CTranslate2:
    """CTranslate2's generator: batches of a prompt's last token; the other tokens are read first,
    once.

    256 copies per batch were fastest, of 32 to 1,024, and faster than hypotheses of one input,
    whose log-probabilities are summed. The model's vocabulary must call each token by its id. A
    thread of the library is seeded once: later draws continue from the first one's seed.
    """

    def __init__(self, model: Path, work: Work, threads: int) -> None:
        import ctranslate2 as api

        self.api = api
        one = {"inter_threads": 1, "intra_threads": threads}
        self.generator = api.Generator(str(model), "cpu", compute_type=work.dtype, **one)
        self.forwarded: int | None = None

    def draw(self, work: Work) -> Any:
        self.api.set_random_seed(work.seed)
        return [self._copies([str(token) for token in prompt], work) for prompt in work.prompts]

    def _copies(self, prompt: list[str], work: Work) -> list[Any]:
        got: list[Any] = []
        while len(got) < work.n:
            got += self.generator.generate_batch(
                [prompt[-1:]] * min(COPIES, work.n - len(got)),
                static_prompt=prompt[:-1],
                cache_static_prompt=bool(got),  # not from one call of `draw` to the next
                include_prompt_in_result=False,
                beam_size=1,
                sampling_topk=0,  # all of them
                sampling_topp=1.0,
                sampling_temperature=1.0,
                max_length=work.new,
                end_token=work.ends,
                return_end_token=True,
            )
        return got

    def read(self, drawn: Any, work: Work) -> Drawn:
        return [[list(copy.sequences_ids[0]) for copy in each] for each in drawn]


ENGINES: dict[str, type[Any]] = {
    each.__name__.lower(): each for each in (Forest, Transformers, Vllm, OpenVino, CTranslate2)
}


def _llama(model: Path, work: Work, threads: int) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils.logging import disable_progress_bar

    torch.set_num_threads(threads)
    disable_progress_bar()
    dtype = getattr(torch, work.dtype)
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=dtype).eval().to(work.device)
    loaded.generation_config = GenerationConfig()
    return loaded


def _cut(tokens: list[int], work: Work) -> list[int]:
    """Return the tokens up to the first that ends the completion, which counts."""
    for k, token in enumerate(tokens):
        if token in work.ends:
            return tokens[: k + 1]
    return tokens


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries
    engine: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        work = Work(**request["work"])
        if "model" in request:
            engine = ENGINES[name](Path(request["model"]), work, threads)
            print(json.dumps({"loaded": request["model"]}), file=answers)
            continue
        started, used = time.perf_counter(), time.process_time()
        drawn = engine.draw(work)
        seconds = time.perf_counter() - started
        answer = {
            "seconds": seconds,
            "cpu": time.process_time() - used,
            "forwarded": engine.forwarded,
            "drawn": engine.read(drawn, work),
        }
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
