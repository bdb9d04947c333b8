"""What an engine that reads answers owes its callers; a new one is a row here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from test_engines import QUERIES, peaked_llama, state_space, transformers_engine

from leakbound.types import Decoding, Differentiates, Draws, Query, Reading, Reads, Sample

READERS: dict[str, Callable[[], Reads]] = {
    "transformers": lambda: transformers_engine(peaked_llama()),
    "transformers, float64": lambda: transformers_engine(peaked_llama().double()),
    "transformers, no cache": lambda: transformers_engine(state_space()),
}
TEXTS = [
    (query, answer) for query in QUERIES for answer in ("red", "red sky", "", "blue sky sea red")
]


@pytest.fixture(scope="module", params=READERS.values(), ids=READERS.keys())
def reader(request: pytest.FixtureRequest) -> Reads:
    made: Reads = request.param()
    return made


def same(found: Reading, other: Reading) -> None:
    assert (found.token_ids, found.text) == (other.token_ids, other.text)
    for field in dataclasses.fields(Reading)[2:]:
        ours, theirs = getattr(found, field.name), getattr(other, field.name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5, err_msg=field.name)


def test_a_reading_is_of_one_pair_whatever_is_read_beside_it(reader: Reads) -> None:
    together = reader.read(TEXTS)
    backwards = reader.read([*TEXTS[::-1], TEXTS[0]])
    for pair, found, other in zip(TEXTS, together, backwards[-2::-1], strict=True):
        same(found, other)
        (alone,) = reader.read([pair])
        same(found, alone)
    same(backwards[-1], together[0])
    assert reader.read([]) == []


def test_readings_are_laws_of_every_token_and_the_end(reader: Reads) -> None:
    for (_, answer), found in zip(TEXTS, reader.read(TEXTS), strict=True):
        assert len(found.token_ids) == len(answer.split()) + 1
        assert found.text.split() == answer.split()
        assert found.logprobs.dtype == np.float64
        for field in dataclasses.fields(Reading)[2:]:
            assert getattr(found, field.name).shape == (len(found.token_ids),)
        assert (found.logprobs <= np.log(found.confidence) + 1e-9).all()
        assert ((found.logprobs >= np.log(found.confidence) - 1e-9) == found.top).all()
        entropy = -found.mean
        assert (entropy >= -np.log(found.confidence) - 1e-9).all()
        assert (found.std >= 0).all()


def test_what_is_read_is_the_law_that_is_drawn_from(reader: Reads) -> None:
    n = 4000
    draws = Draws(sizes=(n,))
    for sample in reader.generate(QUERIES, Decoding(max_new_tokens=1), draws):  # type: ignore[attr-defined]
        assert isinstance(sample, Sample)
        query: Query = sample.query
        (read,) = reader.read([(query, "red")])
        p = math.exp(read.logprobs[0])
        drawn = sum(c.count for c in sample.completions if c.text.strip() == "red")
        assert abs(drawn - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1


def test_gradients_move_with_the_answer(reader: Reads) -> None:
    if not isinstance(reader, Differentiates):
        pytest.skip("it does not differentiate")
    pairs = [(QUERIES[0], "red"), (QUERIES[0], "blue sky"), (QUERIES[1], "red")]
    norms = reader.gradient_norms(pairs)
    assert all(math.isfinite(norm) and norm > 0 for norm in norms)
    assert norms == pytest.approx([reader.gradient_norms([pair])[0] for pair in pairs], rel=1e-5)
    assert len(set(norms)) == 3
