"""Classifiers small enough for a test, made of nothing but a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
)

from tiny import WORDS, tiny_llama, tiny_tokenizer

SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "max_position_embeddings": 24, "initializer_range": 0.5}


def pair_tokenizer(words: Sequence[str] = WORDS, **settings: Any) -> Any:
    """One token a word, and a separator between the two texts of a pair."""
    tokenizer = tiny_tokenizer(words, **settings)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def sequence_classifier(
    path: Path, labels: Sequence[str] = ("safe", "harmful"), seed: int = 0, **config: Any
) -> Path:
    """A folder with a random BERT that has a head for these labels."""
    tokenizer = pair_tokenizer()
    named = {"id2label": dict(enumerate(labels)), "label2id": {l: i for i, l in enumerate(labels)}}
    made = {**SMALL, **HEADS, **named, **config}
    settings = BertConfig(vocab_size=len(tokenizer), pad_token_id=0, **made)
    return _saved(path, seed, BertForSequenceClassification, settings, tokenizer)


def causal_sequence_classifier(path: Path, seed: int = 0) -> Path:
    """A folder with a random Llama that has such a head, and knows of no padding."""
    tokenizer = pair_tokenizer(pad_token=None)
    settings = LlamaConfig(
        vocab_size=len(tokenizer), **SMALL, **HEADS, num_labels=3, eos_token_id=2
    )
    return _saved(path, seed, LlamaForSequenceClassification, settings, tokenizer)


def yes_no_model(path: Path, seed: int = 0, words: Sequence[str] = ("yes", "Yes", "NO")) -> Path:
    """A folder with a random causal model whose tokenizer has these words beside the default."""
    tokenizer = tiny_tokenizer([*WORDS, *words])
    tiny_llama(len(tokenizer), seed, initializer_range=0.5).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def _saved(path: Path, seed: int, kind: Any, settings: Any, tokenizer: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind(settings).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
