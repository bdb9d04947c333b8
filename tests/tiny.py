"""Models and tokenizers small enough for a test, made of nothing but a seed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("Question:", "Answer:", "who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob")


def tiny_tokenizer(words: Iterable[str] = WORDS, **settings: Any) -> PreTrainedTokenizerFast:
    """One token a word; `<pad>`, `<unk>` and `</s>` are 0, 1 and 2."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", "</s>", *words])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{**special, **settings})


def tiny_llama(vocab: int, seed: int = 0, **config: Any) -> LlamaForCausalLM:
    """A random Llama of two small layers, the same for the same seed."""
    settings: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 128,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(vocab_size=vocab, **{**settings, **config})).eval()


def tiny_model_folder(path: Path, seed: int = 0, **config: Any) -> Path:
    """A model folder on disk with the default words."""
    tokenizer = tiny_tokenizer()
    tiny_llama(len(tokenizer), seed, **config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
