"""What every engine owes its callers; a new engine is a row here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from canned import CannedEngine
from residua.engines import Prompting
from residua.engines.hf import TransformersEngine
from residua.engines.loading import LoadedModel
from residua.types import Decoding, Draws, Generate, Query, Sample
from tiny import tiny_llama, tiny_tokenizer

QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who wrote red", "sea", "who wrote blue sky"])
]
DECODING = Decoding(max_new_tokens=4)


def transformers_engine() -> Generate:
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer))
    loaded = LoadedModel(model, tokenizer, frozenset([2]), 128, {"weights": "tiny"})
    return TransformersEngine(loaded, Prompting(template="Question: {question} Answer:"))


def canned_engine() -> Generate:
    return CannedEngine({q.id: {"yes": 0.5, "no": 0.3, "": 0.2} for q in QUERIES})


ENGINES = {"transformers": transformers_engine, "canned": canned_engine}
Make = Callable[[], Generate]


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def draw(engine: Generate, draws: Draws, decoding: Decoding = DECODING) -> dict[str, Sample]:
    found = list(engine.generate(QUERIES, decoding, draws))
    assert all(isinstance(s, Sample) for s in found)
    return {s.query.id: s for s in found if isinstance(s, Sample)}


def counts(sample: Sample, chunk: int) -> Counter[str]:
    tally: Counter[str] = Counter()
    for c in sample.completions:
        if c.chunk == chunk:
            tally[c.text] += c.count
    return tally


def test_every_query_gets_its_draws_chunk_by_chunk(make: Make) -> None:
    found = draw(make(), Draws(sizes=(30, 20), first_chunk=5))
    assert set(found) == {q.id for q in QUERIES}
    for sample in found.values():
        assert sample.n == 50
        assert sample.decoding == DECODING
        assert [sum(counts(sample, c).values()) for c in (5, 6)] == [30, 20]
        assert all(c.count > 0 for c in sample.completions)


def test_completions_of_a_chunk_are_distinct(make: Make) -> None:
    for sample in draw(make(), Draws(sizes=(200,))).values():
        keys = [(c.token_ids or c.text, c.finish_reason, c.chunk) for c in sample.completions]
        assert len(set(keys)) == len(keys)


def test_draws_are_a_function_of_seed_purpose_query_and_chunk(make: Make) -> None:
    base = draw(make(), Draws(sizes=(60, 60)))
    again = draw(make(), Draws(sizes=(60,), first_chunk=1))
    other_seed = draw(make(), Draws(sizes=(60, 60), seed=1))
    other_purpose = draw(make(), Draws(sizes=(60, 60), purpose="pilot"))
    assert draw(make(), Draws(sizes=(60, 60))) == base
    for query in QUERIES:
        assert counts(base[query.id], 1) == counts(again[query.id], 1)
    for other in (other_seed, other_purpose):
        assert any(counts(base[q.id], 0) != counts(other[q.id], 0) for q in QUERIES)
    assert any(counts(base[q.id], 0) != counts(base[q.id], 1) for q in QUERIES)


def test_greedy_is_one_completion(make: Make) -> None:
    for sample in draw(
        make(), Draws(sizes=(7,)), Decoding(temperature=0, max_new_tokens=4)
    ).values():
        assert [c.count for c in sample.completions] == [7]


def test_usage_counts_the_draws_and_the_fingerprint_is_plain_data(make: Make) -> None:
    engine = make()
    draw(engine, Draws(sizes=(10,)))
    assert engine.usage.draws == 30
    assert engine.fingerprint == make().fingerprint
    assert isinstance(engine, Generate)
