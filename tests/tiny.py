"""Models and tokenizers small enough for a test, made from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)

from leakbound.engines import hf
from leakbound.engines.chats import Conversations
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel
from leakbound.engines.margin import shape_margin
from leakbound.sampling.model import PrefixModel
from leakbound.types import Message, Query, Request

P = ParamSpec("P")
T = TypeVar("T")

_defaults: dict[str, Any] = {"tie_word_embeddings": True}  # like most small models
# For tests in which tied embeddings can matter: loading, saving, gradients, checkpoints, margins.
BOTH_KINDS = pytest.mark.parametrize(
    "embeddings",
    [pytest.param(True, id="tied"), pytest.param(False, id="untied", marks=pytest.mark.thorough)],
    indirect=True,
    scope="module",
)
WORDS = ("Question:", "Answer:", "who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob")
_margins: dict[str, float] = {}


def _margin_once(model: PrefixModel, prompts: Sequence[tuple[int, ...]] = ()) -> float:
    """Measure like `shape_margin`, only once for equal models, which takes a tenth of a second.

    A model with a part that a test replaced or hooked is measured each time.
    """
    inner = getattr(model, "_model", None)
    parts = () if inner is None else inner.modules()
    changed = (
        vars(m).keys() & {"forward"} or m._forward_hooks or m._forward_pre_hooks for m in parts
    )
    if inner is None or any(changed):
        return shape_margin(model, prompts)
    digest = hashlib.sha256(repr((type(model), model.eos_token_ids, prompts)).encode())
    settings = (getattr(model, "cascade", None), torch.get_num_threads(), type(inner))
    digest.update(f"{settings} {inner.config._attn_implementation} {inner.config}".encode())
    for name, tensor in inner.state_dict().items():
        digest.update(f"{name} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    key = digest.hexdigest()
    if key not in _margins:
        _margins[key] = shape_margin(model, prompts)
    return _margins[key]


vars(hf)["shape_margin"] = _margin_once  # each engine would measure again


@contextmanager
def embeddings_tied(tied: bool) -> Iterator[None]:
    """Set whether models have tied embeddings by default, during the `with`."""
    before = _defaults["tie_word_embeddings"]
    _defaults["tie_word_embeddings"] = tied
    try:
        yield
    finally:
        _defaults["tie_word_embeddings"] = before


def are_tied() -> bool:
    """Return whether models have tied embeddings by default."""
    return bool(_defaults["tie_word_embeddings"])


def cache_by_kind(function: Callable[P, T]) -> Callable[P, T]:
    """Cache like `functools.cache`, separately for each kind of model."""
    kept = {kind: cache(function) for kind in (False, True)}

    @wraps(function)
    def cached(*args: P.args, **named: P.kwargs) -> T:
        return kept[are_tied()](*args, **named)

    return cached


def tiny_tokenizer(words: Iterable[str] = WORDS, **settings: Any) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per word; `<pad>`, `<unk>` and `</s>` are 0, 1 and 2."""
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


def tiny_gpt2(layers: int = 1) -> GPT2LMHeadModel:
    size = {"n_embd": 8, "n_layer": layers, "n_head": 2, "vocab_size": 12, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=2)).eval()


def even_llama(vocab: int, steps: int) -> tuple[LlamaForCausalLM, float]:
    """Return a model that draws all tokens equally, and the probability of one before the end."""
    model = tiny_llama(vocab)
    model.lm_head.weight.data.zero_()
    return model, sum((1 - 2 / vocab) ** i / vocab for i in range(steps))


def tiny_loaded(
    model: Any = None,
    tokenizer: Any = None,
    *,
    ends: Iterable[int] = (2,),
    context: int | None = 128,
    weights: str = "tiny",
) -> LoadedModel:
    """Return a loaded model, by default a tiny one with the default words."""
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


def tiny_model_folder(
    path: Path, seed: int = 0, tokenizer: PreTrainedTokenizerFast | None = None, **config: Any
) -> Path:
    """Write a model folder, by default with the default words."""
    tokenizer = tokenizer or tiny_tokenizer()
    tiny_llama(len(tokenizer), seed, **config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def edit(path: Path, **changes: object) -> None:
    """Change values of a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 2, "max_position_embeddings": 24, "initializer_range": 0.5}


def pair_tokenizer(words: Sequence[str] = WORDS, **settings: Any) -> Any:
    """Return a tokenizer with one token per word and a separator between the texts of a pair."""
    tokenizer = tiny_tokenizer(words, **settings)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def sequence_classifier(
    path: Path, labels: Sequence[str] = ("safe", "harmful"), seed: int = 0, **config: Any
) -> Path:
    """Write a folder with a random BERT that has a head for these labels."""
    tokenizer = pair_tokenizer()
    named = {"id2label": dict(enumerate(labels)), "label2id": {l: i for i, l in enumerate(labels)}}
    made = {**SMALL, **HEADS, **named, **config}
    settings = BertConfig(vocab_size=len(tokenizer), pad_token_id=0, **made)
    return _saved(path, seed, BertForSequenceClassification, settings, tokenizer)


def causal_sequence_classifier(path: Path, seed: int = 0) -> Path:
    """Write a folder with a random Llama that has such a head and no padding token."""
    tokenizer = pair_tokenizer(pad_token=None)
    settings = LlamaConfig(
        vocab_size=len(tokenizer), **SMALL, **HEADS, num_labels=3, eos_token_id=2
    )
    return _saved(path, seed, LlamaForSequenceClassification, settings, tokenizer)


def yes_no_model(path: Path, seed: int = 0, words: Sequence[str] = ("yes", "Yes", "NO")) -> Path:
    """Return a folder with a random causal model that also has these words."""
    return tiny_model_folder(path, seed, tiny_tokenizer([*WORDS, *words]), initializer_range=0.5)


def _saved(path: Path, seed: int, kind: Any, settings: Any, tokenizer: Any) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind(settings).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


TEMPLATE = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> assistant' }}{% endif %}"
)


def chat_tokenizer() -> Any:
    """The default words, and a template that marks the turns."""
    tokenizer = tiny_tokenizer([*WORDS, "<s>", "<e>", "system", "user", "assistant"])
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def chat_engine(**config: Any) -> TransformersEngine:
    """Return an engine of conversations with a context of 128 tokens."""
    tokenizer = chat_tokenizer()
    model = tiny_llama(len(tokenizer), initializer_range=0.2, **config)
    return TransformersEngine(tiny_loaded(model, tokenizer), Conversations())


def request(name: str, text: str) -> Request:
    """Return a request with one user turn."""
    return Request(id=name, messages=(Message(role="user", text=text),))


def query(text: str, prefix: str = "", examples: tuple[tuple[str, str], ...] = ()) -> Query:
    """Return a query after examples, with the opening of an answer."""
    return Query(id=text, prompt_id=text, text=text, prefix=prefix, examples=examples)
