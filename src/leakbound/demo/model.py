"""Make a small Llama and its tokenizer from the built-in data and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from leakbound.engines.loading import save_model
from leakbound.types import Prompt

VOCABULARY = 1536
END = "<|end|>"
PAD = "<|pad|>"
MARKS = ("<think>", "</think>", "<|user|>", "<|assistant|>")
# The template of a model that can think; `enable_thinking=False` starts with an empty thought.
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<|assistant|>\n' -}}
{%- if loop.last -%}
{{- '<think>\n' + (message.reasoning_content or '') + '\n</think>\n\n' -}}
{%- endif -%}
{%- else -%}
{{- '<|user|>\n' -}}
{%- endif -%}
{{- message.content + '<|end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}
{{- '<think>\n\n</think>\n\n' -}}
{%- endif -%}
{%- endif -%}
"""


def write_untrained(path: Path, prompts: Sequence[Prompt], template: str, seed: int) -> None:
    """Save a random model with a tokenizer trained on these prompts, unless `path` exists.

    If the prompts have thoughts, the model is a chat model, and its template includes thoughts.
    """
    if path.exists():
        return
    texts = [text for p in prompts for text in (template, p.question, p.answer or "")]
    thoughts = [text for p in prompts if p.thought for text in (p.thought, *p.alternate_answers)]
    tokenizer = _tokenizer([*texts, *thoughts], MARKS if thoughts else ())
    if thoughts:
        tokenizer.chat_template = CHAT_TEMPLATE
    save_model(_model(tokenizer, seed), tokenizer, path)


def _tokenizer(texts: Sequence[str], marks: Sequence[str]) -> Any:
    """Return a byte-level BPE tokenizer, trained so that words of the data become single tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, PAD, *marks],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token=PAD)


def _model(tokenizer: Any, seed: int) -> Any:
    """Return a random Llama of 0.9 million parameters in four layers."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
