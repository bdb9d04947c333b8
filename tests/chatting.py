"""A small chat model: random, and the same for the same seed."""

from __future__ import annotations

from typing import Any

from leakbound.engines.hf import TransformersEngine
from leakbound.engines.models import Conversations
from leakbound.types import Message, Query, Request
from tiny import WORDS, tiny_llama, tiny_loaded, tiny_tokenizer

TEMPLATE = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' + m['content'] + ' <e> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> assistant' }}{% endif %}"
)


def chat_tokenizer() -> Any:
    """The default words and a template that tells the turns apart."""
    tokenizer = tiny_tokenizer([*WORDS, "<s>", "<e>", "system", "user", "assistant"])
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def chat_engine(**config: Any) -> TransformersEngine:
    """An engine that holds conversations, with a context of 128 tokens."""
    tokenizer = chat_tokenizer()
    model = tiny_llama(len(tokenizer), initializer_range=0.2, **config)
    return TransformersEngine(tiny_loaded(model, tokenizer), Conversations())


def request(name: str, text: str) -> Request:
    """One user turn."""
    return Request(id=name, messages=(Message(role="user", text=text),))


def query(text: str, prefix: str = "", examples: tuple[tuple[str, str], ...] = ()) -> Query:
    """What is asked, after examples and with the opening of an answer."""
    return Query(id=text, prompt_id=text, text=text, prefix=prefix, examples=examples)
