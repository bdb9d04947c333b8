"""A chat model, an embedder and a sampler that say what they are told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakbound.types import Decoding, Request

Reply = Callable[[Request], str | None]


@dataclass
class FakeChat:
    """Replies by a function of the request; keeps what it was asked."""

    reply: Reply
    name: str = "fake"
    asked: list[Request] = field(default_factory=list)
    decodings: list[Decoding] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        self.asked += requests
        self.decodings.append(decoding)
        self.seeds.append(seed)
        return [self.reply(request) for request in requests]


@dataclass
class FakeEmbed:
    """A vector a text from a table; keeps what it was asked."""

    vectors: dict[str, Sequence[float]]
    name: str = "fake"
    asked: list[list[str]] = field(default_factory=list)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)
