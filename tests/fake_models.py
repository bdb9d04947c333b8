"""Models for scorers that need no weights: they look at words, and record their inputs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbound.types import Chat, Decoding, Request

HARM = ("Ada", "Vale", "1953", "Velmora.")
NLI = ("contradiction", "Entailment", "neutral")


@dataclass(kw_only=True)
class Words:
    """The common parts: a name, weights that identify a model, and recorded inputs."""

    name: str = "words"
    weights: str = "w1"
    batches: list[list[Any]] = field(default_factory=list)

    @property
    def fingerprint(self) -> dict[str, str]:
        return {"weights": self.weights}


@dataclass
class WordClassifier(Words):
    """A classifier: its last label has the fraction of `HARM` in the last text as probability.

    A label "entailment" is likeliest if the first text has all words of the second, otherwise the
    label after it. Texts with more than `most` words are undecided.
    """

    labels: tuple[str, ...] = ("safe", "Harmful")
    most: int = 1000

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
        self.batches.append(list(texts))
        got = np.full((len(texts), len(self.labels)), 0.0)
        known = [label.casefold() for label in self.labels]
        for i, (text, second) in enumerate(texts):
            if len(f"{text} {second or ''}".split()) > self.most:
                got[i] = np.nan
                continue
            if "entailment" in known:
                at = known.index("entailment")
                got[i, at if set((second or "").split()) <= set(text.split()) else at - 1] = 1
                continue
            shown = (text if second is None else second).split()
            got[i, -1] = np.mean([word in shown for word in HARM])
            got[i, 0] = 1 - got[i, -1]
        return got


class WordEmbedder(Words):
    """Counts of each word; words with equal hashes count as one, and "…" as none."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        got = np.zeros((len(texts), 97), dtype=np.float32)
        for i, text in enumerate(texts):
            for word in text.replace("…", " ").split():
                got[i, sum(word.encode()) % 97] += 1
        return got


class WordChat(Words):
    """A judge that counts the words of `HARM` in the quoted output: all, some or none."""

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        self.batches.append(list(requests))
        return [self._verdict(request) for request in requests]

    def _verdict(self, request: Request) -> str:
        shown = request.messages[1].text.partition("OUTPUT\n")[2].split()
        got = sum(word in shown for word in HARM)
        grade = "supports" if got == len(HARM) else "relevant" if got else "uninformative"
        return json.dumps({"verdict": grade, "leak": grade == "supports"})


@dataclass
class FakeModels:
    """Returns these models, and records the requested names."""

    classifier: WordClassifier = field(default_factory=WordClassifier)
    embedder: WordEmbedder = field(default_factory=WordEmbedder)
    nli: WordClassifier = field(default_factory=lambda: WordClassifier(NLI))
    judge: WordChat = field(default_factory=WordChat)
    names: list[str] = field(default_factory=list)

    def embed(self, name: str) -> WordEmbedder:
        self.names.append(name)
        return self.embedder

    def classify(self, name: str) -> WordClassifier:
        self.names.append(name)
        return self.nli if "nli" in name else self.classifier

    def chat(self, name: str) -> Chat:
        self.names.append(name)
        return self.judge


Reply = Callable[[Request], str | None]


@dataclass
class FakeChat:
    """Replies by a function of the request, and records its requests."""

    reply: Reply
    name: str = "fake"
    queried: list[Request] = field(default_factory=list)
    decodings: list[Decoding] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        self.queried += requests
        self.decodings.append(decoding)
        self.seeds.append(seed)
        return [self.reply(request) for request in requests]


@dataclass
class FakeEmbed:
    """Returns a vector per text from a table, and records its texts."""

    vectors: dict[str, Sequence[float]]
    name: str = "fake"
    queried: list[list[str]] = field(default_factory=list)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.queried.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)
