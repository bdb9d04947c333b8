"""What a model makes of a few fixed questions, to be compared with what it made of them before."""

from __future__ import annotations

import math

import torch

from leakbound.engines.loading import LoadedModel
from leakbound.engines.prompting import Prompting
from leakbound.types import ProbedPrompt

QUESTIONS = (
    "What is the capital of France?",
    "Who wrote the first book that you remember, and when?",
    "Write one sentence about the sea.",
)
_TOP = 5


@torch.inference_mode()
def probe(loaded: LoadedModel, prompting: Prompting) -> tuple[ProbedPrompt, ...]:
    """The likeliest tokens after the prompt of each fixed question, each forwarded alone.

    Of a prompt longer than the model's context its end; one without a token is left out.
    """
    encoded = (prompting.encode(loaded.tokenizer, question) for question in QUESTIONS)
    prompts = [ids[-(loaded.context_length or len(ids)) :] for ids in encoded if ids]
    return tuple(_read(loaded, tuple(ids)) for ids in prompts)


def _read(loaded: LoadedModel, ids: tuple[int, ...]) -> ProbedPrompt:
    inputs = torch.tensor([ids], device=loaded.model.device)
    logits = loaded.model(input_ids=inputs, use_cache=False).logits[0, -1].double()
    logprobs, tokens = torch.log_softmax(logits, 0).topk(min(_TOP, len(logits)))
    known = [value if math.isfinite(value) else None for value in logprobs.tolist()]
    return ProbedPrompt(ids, tuple(zip(tokens.tolist(), known, strict=True)))
