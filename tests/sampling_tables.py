"""Small random tables, and the exact distribution of their completions by recursion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from leakbound.sampling import Root, TableModel
from leakbound.types import Decoding, Event, Finish, Parts, Query

VOCAB, EOS, LEAK = 7, 6, 3
ROOTS = [Root(f"q{i}", (i,)) for i in range(5)]
QUERIES = [Query(id=root.query_id, prompt_id=root.query_id, text=root.query_id) for root in ROOTS]
PROMPTS = {query.id: root.token_ids for query, root in zip(QUERIES, ROOTS, strict=True)}
Ids = tuple[int, ...]
Table = Callable[[Ids], Sequence[float]]

DECODINGS = [
    Decoding(max_new_tokens=4),
    Decoding(max_new_tokens=4, temperature=0.6),
    Decoding(max_new_tokens=4, temperature=1.7, top_k=3),
    Decoding(max_new_tokens=4, top_p=0.75),
    Decoding(max_new_tokens=4, temperature=0.8, top_k=5, top_p=0.9),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7),
]
ONE_STEP = [
    Decoding(),
    Decoding(temperature=0.4),
    Decoding(temperature=2.5),
    Decoding(top_k=2),
    Decoding(top_k=3),
    Decoding(top_k=7, temperature=0.5),
    Decoding(top_p=0.1),
    Decoding(top_p=0.5),
    Decoding(top_p=0.6),
    Decoding(top_p=0.61),
    Decoding(top_p=0.8),
    Decoding(top_p=0.9),
    Decoding(top_p=0.99, temperature=1.5),
    Decoding(top_k=5, top_p=0.8, temperature=0.7),
    Decoding(top_k=4, top_p=0.7, temperature=1.5),
    Decoding(temperature=0),
    Decoding(top_k=1),
]
"""Distributions of a next token; `.5 + .3` of the tests' table reaches .8 in spite of rounding."""


@cache
def probabilities(prefix: Ids) -> Sequence[float]:
    """Return a separate distribution for every prefix; some tokens are impossible."""
    rng = np.random.default_rng([len(prefix), *prefix])
    p = rng.dirichlet(np.full(VOCAB, 0.4))
    p[p < 0.02] = 0
    return tuple((p / p.sum()).tolist())


def perturbed(table: Table, half: float, kind: int) -> Table:
    """Shift every logit by at most `half`, depending on the prefix; by `half` if `kind` is even."""

    @cache
    def moved(prefix: Ids) -> Sequence[float]:
        rng = np.random.default_rng([99, kind, len(prefix), *prefix])
        by = rng.uniform(-1, 1, VOCAB) if kind % 2 else rng.choice([-1.0, 1.0], VOCAB)
        p = np.asarray(table(prefix)) * np.exp(half * by)
        return tuple((p / p.sum()).tolist())

    return moved


def table(of: Table = probabilities) -> TableModel:
    return TableModel(of, vocab_size=VOCAB, eos_token_ids=[EOS])


def breaking(broken: Callable[[Ids], bool]) -> TableModel:
    """A model whose logits are unusable after some prefixes."""
    return table(lambda prefix: [math.nan] * VOCAB if broken(prefix) else probabilities(prefix))


def unsettled(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Score whether a completion has the token `LEAK`; only its end settles it."""
    return [(float(LEAK in ids),) * 2 if ended else (0.0, 1.0) for ids, ended in items]


def keyword(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Score like `unsettled`, but the token settles the score."""
    return [(float(LEAK in ids), float(LEAK in ids or not ended)) for ids, ended in items]


def unknown(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
    """Return scores about which nothing is known."""
    return [(0.0, 1.0)] * len(events)


class Digits:
    """Decode tokens as digits and the end as nothing; a stop string ends a text."""

    def parts(self, ids: Ids, stop: Sequence[str], prompt: Ids = ()) -> Parts:
        spelt = "".join(str(i) for i in ids if i != EOS)
        return Parts(None, spelt[: min((spelt.find(s) for s in stop if s in spelt), default=None)])

    def settled(self, ids: Ids, stop: Sequence[str], prompt: Ids = ()) -> Parts:
        return Parts(None, f"{self.parts(ids, stop).answer}…")

    def stopped(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        return lambda ids: any(s in self.parts(ids, ()).answer for s in stop)


def says_12(ids: Ids) -> bool:
    """Return whether the stop string "12" ends these tokens."""
    return "12" in "".join(map(str, ids))


def stops_12(ids: Ids) -> Finish | None:
    """Return the finish for a sampler."""
    return "stop_string" if says_12(ids) else None


def next_law(p: Sequence[float], decoding: Decoding, greedy: bool = False) -> np.ndarray:
    """Next-token probabilities from the definition in `Decoding`, in plain loops."""
    if greedy or decoding.greedy:
        return (np.arange(len(p)) == np.argmax(p)).astype(float)
    weights = np.array([x ** (1 / decoding.temperature) for x in p])
    order = sorted(range(len(p)), key=lambda i: (-weights[i], i))[: decoding.top_k or len(p)]
    total, seen, kept = sum(weights[i] for i in order), 0.0, []
    for i in order:
        kept.append(i)
        seen += weights[i]
        if seen >= decoding.top_p * total - 1e-12:
            break
    weights = np.array([w if i in kept else 0.0 for i, w in enumerate(weights)])
    return np.asarray(weights / weights.sum())


@cache
def enumerate_law(
    decoding: Decoding,
    prompt: Ids,
    of: Table = probabilities,
    ended: Callable[[Ids], bool] = lambda path: False,
    eos: int = EOS,
) -> dict[Ids, float]:
    """Every completion with its exact probability, for tests to read."""
    law: dict[Ids, float] = {}

    def visit(path: Ids, mass: float, confidence: float) -> None:
        p = np.asarray(of(prompt + path))
        confidence += p.max()
        threshold = decoding.adaptive_temperature
        greedy = threshold is not None and confidence / (len(path) + 1) > threshold
        weights = next_law(p, decoding, greedy)
        for token in np.flatnonzero(weights):
            child = (*path, int(token))
            if token == eos or len(child) == decoding.max_new_tokens or ended(child):
                law[child] = mass * weights[token]
            else:
                visit(child, mass * weights[token], confidence)

    visit((), 1.0, 0.0)
    return law


def mass_of(law: dict[Ids, float], prefix: Ids) -> float:
    """Return the mass of all completions with this prefix."""
    return sum(p for path, p in law.items() if path[: len(prefix)] == prefix)
