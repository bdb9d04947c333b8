"""The interface of vLLM's offline engine, over a small model of transformers.

It follows vLLM 0.32. Sample i of a call has its seed plus i. An end token is the last id of a
completion. A greedy draw has log-probabilities at T = 1. Settings from the files of the model apply
unless `generation_config` excludes them. Several greedy answers per call are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from transformers import AutoModelForCausalLM, AutoTokenizer

from leakbound.types import Decoding
from sampling_tables import next_law

__version__ = "0.0.fake"


@dataclass
class SamplingParams:
    """Settings of a call; an unknown one is a TypeError, as in vLLM."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.05  # differs from vLLM, so that an omitted setting is noticed
    presence_penalty: float = 1.0
    frequency_penalty: float = 1.0
    repetition_penalty: float = 2.0
    seed: int | None = None
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = True
    max_tokens: int = 16
    min_tokens: int = 1
    logprobs: int | None = None
    skip_special_tokens: bool = False
    watermarking: bool | None = None

    def require_plain(self) -> None:
        """Only temperature, top-p, top-k and ends shape the draws."""
        assert (self.min_p, self.presence_penalty, self.frequency_penalty) == (0, 0, 0)
        assert self.repetition_penalty == 1
        assert not self.ignore_eos
        assert not self.min_tokens
        assert self.watermarking is False
        assert self.logprobs == 0
        assert self.n == 1 or self.temperature, "n must be 1 when using greedy sampling"
        assert self.seed is not None


@dataclass
class LoRARequest:
    """An adapter in a folder."""

    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass
class LLM:
    """Draws token by token; `broken` makes every probability NaN, `short` loses a completion."""

    options: dict[str, Any]
    broken: bool = False
    short: bool = False
    queried: list[tuple[Any, Any]] = field(default_factory=list)

    def __init__(self, **options: Any) -> None:
        self.options, self.queried, self.broken, self.short = options, [], False, False
        if options.get("tensor_parallel_size", 1) > 1:
            raise ValueError("World size (2) is larger than the number of available GPUs (0).\nno")
        folder = Path(options["model"])
        written = max(file.stat().st_mtime_ns for file in folder.iterdir())
        self._tokenizer, context, self._logits = _loaded(folder, written)
        longest = options.get("max_model_len") or context
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=longest))

    def generate(
        self,
        prompts: Sequence[dict[str, list[int]]],
        sampling_params: Sequence[SamplingParams],
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
    ) -> list[Any]:
        assert not use_tqdm
        got = []
        for prompt, params in zip(prompts, sampling_params, strict=True):
            params.require_plain()
            self.queried.append((params, lora_request))
            ids = tuple(prompt["prompt_token_ids"])
            drawn = [self._draw(ids, params, i) for i in range(params.n - self.short)]
            got.append(SimpleNamespace(outputs=drawn))
        return got

    def _draw(self, prompt: tuple[int, ...], params: SamplingParams, i: int) -> Any:
        assert params.seed is not None
        chance = np.random.default_rng(params.seed + i)
        ids: list[int] = []
        total, reason, stop_reason = 0.0, "length", None
        while len(ids) < params.max_tokens:
            logits = self._logits((*prompt, *ids))
            p, seen = _law_of(logits, params)
            token = int(chance.choice(len(p), p=p)) if params.temperature else int(logits.argmax())
            ids.append(token)
            total += float(np.log(seen[token]))
            if token in params.stop_token_ids:
                reason = "stop"
                break
            if params.stop:
                text = self._tokenizer.decode(ids, skip_special_tokens=True)
                if stopped := [stop for stop in params.stop if stop in text]:
                    reason, stop_reason = "stop", stopped[0]
                    break
        return SimpleNamespace(
            token_ids=ids,
            cumulative_logprob=float("nan") if self.broken else total,
            finish_reason=reason,
            stop_reason=stop_reason,
        )


@cache
def _loaded(folder: Path, written: int) -> tuple[Any, int, Callable[[tuple[int, ...]], np.ndarray]]:
    """The tokenizer, the context and the logits of a model whose files were last written then."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()

    @cache
    @torch.inference_mode()
    def logits(ids: tuple[int, ...]) -> np.ndarray:
        return model(torch.tensor([ids])).logits[0, -1].double().numpy()  # type: ignore[no-any-return]

    return AutoTokenizer.from_pretrained(folder), model.config.max_position_embeddings, logits


def _law_of(logits: np.ndarray, params: SamplingParams) -> tuple[np.ndarray, np.ndarray]:
    """Return the distribution of a token, and the probabilities that are returned for it."""
    plain = softmax(logits)
    if not params.temperature:
        return plain, plain
    how = Decoding(temperature=params.temperature, top_p=params.top_p, top_k=params.top_k)
    law = next_law(plain.tolist(), how)
    return law, law


def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the fake as the module `vllm` for a test."""
    for name, members in {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams, "__version__": __version__},
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
        "vllm.platforms": {"current_platform": SimpleNamespace(is_cpu=lambda: True)},
    }.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
