"""Models and tokenizers small enough for a test, made of nothing but a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import BertConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from leakbound.engines.loading import LoadedModel

P = ParamSpec("P")
T = TypeVar("T")

_defaults: dict[str, Any] = {"tie_word_embeddings": True}  # as most small models have them
# For tests in which it can matter whether a model reads and writes with the same embeddings:
# of loading and saving, gradients and checkpoints, margins. Fixtures that outlive a test and make
# models take the fixture `embeddings`.
BOTH_KINDS = pytest.mark.parametrize(
    "embeddings",
    [pytest.param(True, id="tied"), pytest.param(False, id="untied", marks=pytest.mark.thorough)],
    indirect=True,
    scope="module",
)
WORDS = ("Question:", "Answer:", "who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob")


@contextmanager
def embeddings_tied(tied: bool) -> Iterator[None]:
    """Models made meanwhile read and write with the same embeddings, or not, unless they say so."""
    before = _defaults["tie_word_embeddings"]
    _defaults["tie_word_embeddings"] = tied
    try:
        yield
    finally:
        _defaults["tie_word_embeddings"] = before


def are_tied() -> bool:
    """How models are made now."""
    return bool(_defaults["tie_word_embeddings"])


def cache_by_kind(function: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache`, with what is found for models of one kind apart from the other's."""
    kept = {kind: cache(function) for kind in (False, True)}

    @wraps(function)
    def found(*args: P.args, **named: P.kwargs) -> T:
        return kept[are_tied()](*args, **named)

    return found


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
        **_defaults,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(vocab_size=vocab, **{**settings, **config})).eval()


def tiny_loaded(
    model: Any = None,
    tokenizer: Any = None,
    *,
    ends: Iterable[int] = (2,),
    context: int | None = 128,
    weights: str = "tiny",
) -> LoadedModel:
    """A model as it is loaded, by default a tiny one of the default words."""
    tokenizer = tokenizer or tiny_tokenizer()
    model = model or tiny_llama(len(tokenizer))
    return LoadedModel(model, tokenizer, frozenset(ends), context, {"weights": weights})


def tiny_bert_config(vocab: int, **config: Any) -> BertConfig:
    """The settings of an encoder of one small layer."""
    return BertConfig(
        vocab_size=vocab,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        **config,
    )


def tiny_model_folder(path: Path, seed: int = 0, **config: Any) -> Path:
    """A model folder on disk with the default words."""
    tokenizer = tiny_tokenizer()
    tiny_llama(len(tokenizer), seed, **config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
