"""Engines that keep every promise pass; engines that lie about one are named for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.testing import FakeEngine, check_engine
from leakbound.types import Completion, Decoding, Draws, Failure, Query, Sample

QUERIES = [Query(id=f"q{i}", prompt_id=f"q{i}", text=f"who {i}") for i in range(2)]
OUTPUTS = {
    "q0": {"it is Ann": 0.5, "Bob wrote all of it": 0.2, "no": 0.2, "": 0.1},
    "q1": {"no idea at all": 0.7, "it was Ann": 0.3},
}


class Lying(FakeEngine):
    """Draws under `lie(decoding)` and `forget(draws)`, and says it did what it was asked."""

    def lie(self, decoding: Decoding) -> Decoding:
        return decoding

    def forget(self, draws: Draws) -> Draws:
        return draws

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        for found in super().generate(queries, self.lie(decoding), self.forget(draws)):
            yield replace(found, decoding=decoding) if isinstance(found, Sample) else found


class IgnoresTemperature(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return decoding if decoding.greedy else replace(decoding, temperature=1.0)


class IgnoresGreedy(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return replace(decoding, temperature=decoding.temperature or 1.0)


class IsColder(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return replace(decoding, temperature=decoding.temperature**1.5)


class IgnoresTopP(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return replace(decoding, top_p=1.0)


class IgnoresTopK(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return replace(decoding, top_k=0)


class IgnoresLength(Lying):
    def lie(self, decoding: Decoding) -> Decoding:
        return replace(decoding, max_new_tokens=64)


class IgnoresSeed(Lying):
    def forget(self, draws: Draws) -> Draws:
        return replace(draws, seed=0)


class IgnoresPurpose(Lying):
    def forget(self, draws: Draws) -> Draws:
        return replace(draws, purpose="score")


class IgnoresChunk(Lying):
    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        drawn = list(super().generate(queries, decoding, replace(draws, first_chunk=0)))
        for each in drawn:
            moved = each.completions if isinstance(each, Sample) else ()
            yield replace(
                each,
                completions=tuple(replace(c, chunk=c.chunk + draws.first_chunk) for c in moved),
            )


class IgnoresQuery(Lying):
    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        own = draws.draws_per_query
        for query in queries:
            same = replace(query, id="q0")
            mine = replace(draws, draws_per_query={"q0": own[query.id]} if own else {})
            for found in super().generate([same], decoding, mine):
                yield replace(found, query=query)


class SaysNothingOfTokens(Lying):
    """Honest, with no token ids and no probabilities, as a server is."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        for found in super().generate(queries, decoding, draws):
            assert isinstance(found, Sample)
            yield replace(
                found,
                completions=tuple(
                    Completion(text=c.text, token_ids=None, count=c.count, chunk=c.chunk)
                    for c in found.completions
                ),
            )


def test_an_honest_engine_passes() -> None:
    check_engine(FakeEngine(OUTPUTS), QUERIES)
    check_engine(SaysNothingOfTokens(OUTPUTS), QUERIES)


@pytest.mark.parametrize("seed", range(20))
def test_no_false_alarm_under_any_law(seed: int) -> None:
    """Of 20 laws none fails, where one in a million does."""
    rng = np.random.default_rng(seed)
    texts = ["red sky", "red sea", "blue", "green sky at night", ""]
    laws = {q.id: dict(zip(texts, rng.dirichlet([4, 3, 2, 1, 1]), strict=True)) for q in QUERIES}
    exact = {q: {t: float(p) for t, p in law.items()} for q, law in laws.items()}
    check_engine(FakeEngine(exact), QUERIES)


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        (IgnoresTemperature, "`temperature` must be as asked"),
        (IgnoresGreedy, "`temperature` must be as asked"),
        (IsColder, "`temperature` must be as asked"),
        (IgnoresTopP, "`top_p` must be as asked"),
        (IgnoresTopK, "`top_k` must be as asked"),
        (IgnoresLength, "`max_new_tokens` must be as asked, 1, got"),
        (IgnoresSeed, "another seed must give other draws"),
        (IgnoresPurpose, "another purpose must give other draws"),
        (IgnoresChunk, "the same seed, purpose, query and chunk|another chunk"),
        (IgnoresQuery, "another query must give other draws"),
    ],
)
def test_an_engine_that_lies_is_named_for_it(engine: type[FakeEngine], named: str) -> None:
    with pytest.raises(InputError, match=f"({named}).*{engine.__name__}"):
        check_engine(engine(OUTPUTS), QUERIES)


def test_what_cannot_be_told_is_not_passed() -> None:
    even = {"q0": {"red": 0.5, "blue": 0.5}, "q1": {"red": 0.25, "blue": 0.25, "sea": 0.5}}
    with pytest.raises(InputError, match="nothing can be told of the temperature"):
        check_engine(FakeEngine({"q0": even["q0"]}), QUERIES[:1])
    check_engine(FakeEngine(even), QUERIES)
    sure = {"q0": {"red": 0.999, "blue": 0.001}}
    with pytest.raises(InputError, match="got almost always the same answer"):
        check_engine(FakeEngine(sure), QUERIES[:1])
    with pytest.raises(InputError, match=r"query 'q0' must be drawn, got: .* logits are NaN"):
        check_engine(FakeEngine(OUTPUTS, broken=["q0"]), QUERIES)
