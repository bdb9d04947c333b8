"""The oracle of the transformers engine: the law of a tiny model by plain full forwards.

The model itself is called, without a cache, on all prefixes of one length at once; the warpers of
transformers' own sampler truncate, in float64.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch
from transformers import (
    LlamaForCausalLM,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from leakbound.engines import Prompting
from leakbound.types import Decoding, Query
from tiny import cache_by_kind, tiny_llama, tiny_tokenizer

WORDS = ("Question:", "Answer:", "who", "red", "blue", "sea", "sky")
QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who red", "sea", "who blue sky"])
]
PROMPTING = Prompting(template="Question: {question} Answer: ")
TOKENIZER = tiny_tokenizer(WORDS)
VOCAB, EOS = len(TOKENIZER), 2

Ids = tuple[int, ...]


@cache_by_kind
def model(double: bool = False) -> LlamaForCausalLM:
    made = tiny_llama(VOCAB, seed=1, initializer_range=0.2)
    return made.double() if double else made


@cache_by_kind
def next_logits(double: bool, prompt: Ids, depth: int) -> dict[Ids, torch.Tensor]:
    """Logits after every prefix of so many generated tokens, all in one forward."""
    paths = list(product(sorted(set(range(VOCAB)) - {EOS}), repeat=depth))
    with torch.inference_mode():
        ids = torch.tensor([prompt + path for path in paths])
        logits = model(double)(ids, use_cache=False).logits[:, -1].double()
    return dict(zip(paths, logits, strict=True))


def next_law(logits: torch.Tensor, decoding: Decoding, greedy: bool) -> np.ndarray:
    if greedy or decoding.temperature == 0:
        return (np.arange(len(logits)) == int(logits.argmax())).astype(float)
    warpers: list[Any] = [TemperatureLogitsWarper(decoding.temperature)]
    warpers += [TopKLogitsWarper(decoding.top_k)] if decoding.top_k else []
    warpers += [TopPLogitsWarper(decoding.top_p)] if decoding.top_p < 1 else []
    for warper in warpers:
        logits = warper(None, logits[None])[0]
    return logits.softmax(dim=-1).numpy()


@cache_by_kind
def enumerate_law(double: bool, query: Query, decoding: Decoding) -> dict[Ids, float]:
    """Every output of the decoding with its probability."""
    law: dict[Ids, float] = {}
    prompt = tuple(PROMPTING.encode(TOKENIZER, query.text))

    def visit(path: Ids, mass: float, confidence: float) -> None:
        logits = next_logits(double, prompt, len(path))[path]
        confidence += float(logits.softmax(dim=-1).max())
        threshold = decoding.adaptive_temperature
        greedy = threshold is not None and confidence / (len(path) + 1) > threshold
        p = next_law(logits, decoding, greedy)
        for token in np.flatnonzero(p).tolist():
            child = (*path, token)
            text = TOKENIZER.decode(child, skip_special_tokens=True)
            stopped = any(stop in text for stop in decoding.stop)
            if token == EOS or stopped or len(child) == decoding.max_new_tokens:
                law[child] = mass * p[token]
            else:
                visit(child, mass * p[token], confidence)

    visit((), 1.0, 0.0)
    return law


def text_of(ids: Ids, decoding: Decoding) -> str:
    text: str = TOKENIZER.decode(ids, skip_special_tokens=True)
    for stop in decoding.stop:
        text = text.partition(stop)[0]
    return text
