"""Draw with vLLM's offline engine, for models `vllm:MODEL` or `vllm:MODEL?lora=FOLDER&…`.

vLLM draws each completion separately. If answers share few prefixes, vLLM is
many times faster than one process of transformers. Every sampling setting is
passed explicitly. So the model's generation config is ignored, and no top-k,
penalty or watermark is added. Probabilities from vLLM have no measured margin,
so exact masses, teacher-forced texts and exploring need the transformers
engine.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import yaml

from leakbound.engines.files import files_digest, first_line
from leakbound.engines.loading import Checkpoint, end_notes, ordinary_tokens
from leakbound.engines.prompting import Prompting, require_room
from leakbound.engines.tokens import Detokenizer, words_of
from leakbound.errors import InputError, ModelError
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Failure,
    Finish,
    JsonObject,
    Parts,
    Query,
    Sample,
    Usage,
)

_SEED_BITS = 62  # sample i of a call takes seed + i, which must stay below 2**63
_OFFERED = (
    *("temperature", "top_p", "top_k", "stop"),
    *("max_new_tokens", "max_tokens", "max_thinking_tokens"),
)
_COLDEST = 0.01  # vLLM raises lower temperatures above 0 to this temperature
_LARGER = "raise `max_model_len` after the `?` of the model's name"
_ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
_RANKS = (8, 16, 32, 64, 128, 256, 512)  # ranks of adapters that vLLM accepts
# Options for the layout on the machine, which change the distribution only by rounding.
_LAYOUT = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "distributed_executor_backend",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "cpu_offload_gb",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enforce_eager",
    "load_format",
    "block_size",
)
# Part of the fingerprint: stored runs are compared by these words.
_ASSUMED = (
    "vLLM draws each token from the distribution that its sampler computes in float32; its "
    "distance from the model's own distribution is not bounded"
)
_Key: TypeAlias = tuple[int, tuple[int, ...], Finish]  # of equal draws: chunk, ids and finish
# Options that may change the distribution: they are part of the fingerprint.
_DISTRIBUTION = ("max_model_len", "quantization", "kv_cache_dtype", "lora")


class VllmEngine:
    """Draw completions with vLLM; see `Generate` for the contract.

    Draws are keyed by (seed, purpose, query, chunk). They are repeatable only on the same machine
    in the same batches, and possibly not even there. The fingerprint states this, so stored draws
    are never drawn again.

    Args:
        llm: a `vllm.LLM` with the model loaded.
        checkpoint: the model's files.
        prompting: how questions become prompts.
        options: the options of `llm`, with `lora` for the folder of an adapter.
    """

    def __init__(
        self, llm: Any, checkpoint: Checkpoint, prompting: Prompting, options: Mapping[str, Any]
    ) -> None:
        self.usage, self.prompting = Usage(), prompting
        self.llm, self._checkpoint, self._options = llm, checkpoint, options
        self._lora = Path(options["lora"]) if "lora" in options else None
        self._tokenizer, own = checkpoint.tokenizer, checkpoint.eos_token_ids
        self._ends = self.prompting.ends(self._tokenizer, own)
        self._text = Detokenizer(self._tokenizer, self._ends)
        self.fingerprint: JsonObject = self._fingerprint()
        """The model's files, the prompting, and the options that may change the distribution."""
        self.usage.notes += end_notes(self._tokenizer, own, self._ends)
        self.usage.notes += self.prompting.notes(self._tokenizer)

    @classmethod
    def open(
        cls,
        location: str,
        prompting: Prompting,
        *,
        queries: Sequence[Query] = (),
        dtype: str = "float32",
        device: str = "auto",
        trust_remote_code: bool = False,
    ) -> VllmEngine:
        """Check the model's files, then load it into vLLM.

        Args:
            location: `MODEL` or `MODEL?name=value&…`, values as YAML.
            prompting: how questions become prompts.
            queries: queries whose prompts are made before the weights are loaded.
            dtype: the type of the computation: "float32" (default), "bfloat16", "float16" or
                "auto".
            device: not used: vLLM is built for one kind of device.
            trust_remote_code: whether to run code from the model's repository.

        Returns:
            The engine.

        Raises:
            InputError: an unknown dtype or option, an option without a value, or a prompt of
                `queries` that cannot be made. Also an adapter that lacks a file or has too high a
                rank.
            ModelError: a model that cannot be used, or that vLLM cannot load.
        """
        model, _, written = location.partition("?")
        options = _options(written)
        checkpoint = Checkpoint.open(
            model, dtype=dtype, device="cpu", trust_remote_code=trust_remote_code
        )
        checkpoint.require_sound()
        for query in queries:
            prompting.encode(checkpoint.tokenizer, query)
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        # If vLLM runs in this process, batches do not depend on timing.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm import LLM
        from vllm.platforms import current_platform

        own = {name: value for name, value in options.items() if name != "lora"}
        adapter = _adapter_options(Path(options["lora"])) if "lora" in options else {}
        try:
            llm = LLM(
                model=str(checkpoint.files.folder),
                dtype=dtype,
                trust_remote_code=trust_remote_code,
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                enable_prefix_caching=True,
                seed=0,
                # On the CPU a seeded request cannot be prefilled in pieces, because vLLM would
                # reset its random generator by an offset, which CPU generators do not support.
                **({"enable_chunked_prefill": False} if current_platform.is_cpu() else {}),
                **own,
                **adapter,
            )
        except (ValueError, RuntimeError, OSError, TypeError) as error:
            raise ModelError(
                f"vLLM cannot load `{model}`: {first_line(error)} "
                "Fix the options after the `?`, or load it with transformers."
            ) from error
        return cls(llm, checkpoint, prompting, options)

    def _fingerprint(self) -> JsonObject:
        import vllm

        lora = self._lora
        adapter = None if lora is None else files_digest([lora / name for name in _ADAPTER])
        options = {k: v for k, v in self._options.items() if k in _DISTRIBUTION and k != "lora"}
        return {
            **self._checkpoint.fingerprint,
            "engine": "vllm",
            "vllm": getattr(vllm, "__version__", None) or version("vllm"),
            "options": options,
            "adapter": adapter,
            "prompting": self.prompting.describe(self._tokenizer),
            "end_tokens": sorted(self._ends),
            "ordinary_end_tokens": ordinary_tokens(self._tokenizer, self._checkpoint.eos_token_ids),
            "repeatable": False,
            "assumes": [_ASSUMED],
        }

    @property
    def machine(self) -> JsonObject:
        """The options that affect the exact draws, but not their distribution."""
        return {k: v for k, v in self._options.items() if k in _LAYOUT}

    def words(self, texts: Sequence[str]) -> list[list[str | None]]:
        """See `Tokenizes.words`."""
        return words_of(self._tokenizer, texts)

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError for a decoding or query that vLLM cannot handle.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.

        Raises:
            InputError: adaptive temperature, a temperature between 0 and 0.01, a query that does
                not fit together with its completion, or that the chat template refuses.
            ModelError: a chat template that leaves the question out.
        """
        if others := decoding.beyond(*_OFFERED):
            raise InputError(
                f"vLLM does not support {' or '.join(others)}, got {decoding.name!r}. Use the "
                "transformers engine: write the model's name without `vllm:`."
            )
        if 0 < decoding.temperature < _COLDEST:
            raise InputError(
                f"vLLM does not draw at a temperature between 0 and {_COLDEST}, got "
                f"{decoding.temperature:g}. Use 0, or at least {_COLDEST}."
            )
        limit = self.llm.llm_engine.model_config.max_model_len
        prompts = [self.prompting.encode(self._tokenizer, query) for query in queries]
        for query, ids in zip(queries, prompts, strict=True):
            require_room(query, len(ids), decoding, limit, _LARGER)
        if decoding.max_thinking_tokens is not None:
            self._text.budget(decoding, prompts)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample per query, or a Failure if probabilities are NaN.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.
            draws: the draws of each query, and their keys.

        Returns:
            An iterator in the order of the queries.

        Raises:
            InputError: a prompt that the chat template refuses.
            ModelError: vLLM returned more or fewer completions than requested, or a chat template
                leaves the question out.
        """
        calls = [(query, *chunk) for query in queries for chunk in draws.chunks(query.id)]
        prompts = {q: tuple(self.prompting.encode(self._tokenizer, q)) for q in queries}
        adapter = None
        if self._lora is not None:
            from vllm.lora.request import LoRARequest

            adapter = LoRARequest("adapter", 1, str(self._lora))
        started = time.perf_counter()
        answered = self.llm.generate(
            [{"prompt_token_ids": [*prompts[query]]} for query, *_ in calls],
            [
                self._sampling(n, decoding, len(prompts[query]), _seed_of(draws, query, chunk))
                for query, chunk, n in calls
            ],
            use_tqdm=False,
            lora_request=adapter,
        )
        self.usage.seconds += time.perf_counter() - started
        outputs: dict[Query, list[tuple[int, Any]]] = {query: [] for query in queries}
        for (query, chunk, size), answer in zip(calls, answered, strict=True):
            # All greedy answers are equal, and vLLM returns only one.
            completed = list(answer.outputs) * (size if decoding.greedy else 1)
            if len(completed) != size:
                raise ModelError(
                    f"vLLM returned {len(completed)} of {size} completions of query {query.id!r}. "
                    "These completions are not kept. Run the same command again."
                )
            outputs[query] += [(chunk, output) for output in completed]
        for query, drawn in outputs.items():
            self.usage.prompt_tokens += len(prompts[query])
            yield self._result(query, decoding, drawn, prompts[query])

    def _sampling(self, n: int, decoding: Decoding, length: int, seed: int) -> Any:
        """Return every sampling setting of vLLM for a prompt of `length` tokens."""
        from vllm import SamplingParams

        marks = "watermarking" in inspect.signature(SamplingParams).parameters  # not in old vLLM
        plain = {"watermarking": False} if marks else {}
        return SamplingParams(
            n=1 if decoding.greedy else n,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            top_k=decoding.top_k,
            min_p=0.0,
            presence_penalty=0.0,
            frequency_penalty=0.0,
            repetition_penalty=1.0,
            seed=seed,
            stop=list(decoding.stop),
            stop_token_ids=sorted(self._ends),
            ignore_eos=False,
            max_tokens=decoding.room(length),
            min_tokens=0,
            logprobs=0,
            skip_special_tokens=True,
            **plain,
        )

    def _result(
        self,
        query: Query,
        decoding: Decoding,
        drawn: Sequence[tuple[int, Any]],
        prompt: tuple[int, ...],
    ) -> Sample | Failure:
        """Return the draws of a query; equal draws of a chunk are counted together."""
        limited = decoding.max_thinking_tokens is not None
        budget = self._text.budget(decoding, [prompt]) if limited else None
        counts: Counter[_Key] = Counter()
        kept: dict[_Key, Completion] = {}
        for chunk, output in drawn:
            ids = tuple(output.token_ids)
            if not math.isfinite(output.cumulative_logprob):
                text = self._tokenizer.decode(ids)
                return Failure(
                    query=query,
                    reason=f"the model's probabilities are NaN or infinite in {text[:80]!r}",
                )
            finish: Finish = "error"  # vLLM aborted it: it counts as missing
            if output.finish_reason == "stop":
                finish = "stop_string" if isinstance(output.stop_reason, str) else "stop"
            elif output.finish_reason == "length":
                finish = "length"
            if budget is not None and (within := budget.cut(ids)) != ids:
                ids, finish = within, "length"
            key = (chunk, ids, finish)
            counts[key] += 1
            if key not in kept:
                parts = self._text.parts(ids, decoding.stop, prompt)
                kept[key] = _completion(key, output, parts, decoding)
        tokens = sum(len(output.token_ids) for _, output in drawn)
        self.usage.draws += len(drawn)
        self.usage.sampled_tokens += tokens
        self.usage.forwards += tokens
        completions = tuple(replace(kept[key], count=count) for key, count in counts.items())
        return Sample(query=query, decoding=decoding, completions=completions)


def _seed_of(draws: Draws, query: Query, chunk: int) -> int:
    """Return the first of the consecutive seeds of a chunk's draws.

    Sample i of a call uses this seed plus i. The seed is a digest, because chunks with consecutive
    seeds would share draws. Two chunks of n draws overlap with probability below n / 2**61.
    """
    named = json.dumps([draws.seed, draws.purpose, query.id, chunk]).encode()
    return int.from_bytes(hashlib.sha256(named).digest()[:8]) >> (64 - _SEED_BITS)


def _completion(key: _Key, output: Any, parts: Parts, decoding: Decoding) -> Completion:
    chunk, ids, finish = key
    drawn = float(output.cumulative_logprob)
    complete = len(ids) == len(output.token_ids)  # the output was not cut at a budget
    return Completion(
        answer=parts.answer,
        thought=parts.thought,
        finish=parts.finish or finish,
        tokens=len(ids),
        token_ids=ids,
        count=1,
        chunk=chunk,
        # For a greedy draw vLLM reports the untruncated model's probability at T = 1.
        logprob=0.0 if decoding.greedy else drawn if complete else None,
        model_logprob=drawn
        if decoding.temperature == 0
        or ((decoding.temperature == 1 and not decoding.truncated) and complete)
        else None,
    )


def _options(written: str) -> dict[str, Any]:
    """Parse vLLM's options in a query string (YAML values); raise InputError if one is unknown."""
    options = {k: yaml.safe_load(v) for k, v in parse_qsl(written, keep_blank_values=True)}
    if "data_parallel_size" in options:
        raise InputError(
            f"`data_parallel_size={options['data_parallel_size']}` does not work within one vLLM "
            "process. Omit it, and run several processes on parts of the questions."
        )
    for name, value in options.items():
        if name not in _LAYOUT + _DISTRIBUTION or value is None:
            raise InputError(
                f"`{name}={'' if value is None else value}` is not an option for vLLM. Use "
                f"{', '.join(sorted(_LAYOUT + _DISTRIBUTION))}; each needs a value."
            )
    for name in _ADAPTER if "lora" in options else ():
        if not (Path(options["lora"]) / name).is_file():
            raise InputError(f"`{options['lora']}` has no {name}. Pass a PEFT adapter's folder.")
    return options


def _adapter_options(folder: Path) -> dict[str, Any]:
    """Return vLLM's options for the adapter in a folder."""
    stated = json.loads((folder / _ADAPTER[0]).read_text(encoding="utf-8"))
    rank = next((rank for rank in _RANKS if rank >= int(stated["r"])), None)
    if rank is None:
        raise InputError(
            f"the PEFT adapter in `{folder}` must have at most rank {_RANKS[-1]}, got "
            f"{stated['r']}. Merge it into its base model."
        )
    return {"enable_lora": True, "max_lora_rank": rank, "max_loras": 1}
