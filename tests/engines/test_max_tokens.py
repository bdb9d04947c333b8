"""A limit on prompt and completion together, and prompts with examples, through the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.errors import InputError
from leakbound.evaluation.drawing.explore import require_explores
from leakbound.types import Decoding, Draws, Effort, Query, Sample
from tiny import tiny_loaded

PROMPTING = Prompting(template="Question: {question} Answer: ")
QUERIES = [
    Query(id=f"q{i}", prompt_id=f"q{i}", text=text)
    for i, text in enumerate(["who wrote red", "who", "who wrote sea", "who wrote blue sky sea"])
]
LENGTHS = {"q0": 5, "q1": 3, "q2": 5, "q3": 7}


@pytest.fixture(scope="module")
def engine(embeddings: None) -> TransformersEngine:
    return TransformersEngine(tiny_loaded(), PROMPTING)


def drawn(engine: TransformersEngine, queries: list[Query], decoding: Decoding) -> list[Sample]:
    found = engine.generate(queries, decoding, Draws(sizes=(60,)))
    return sorted((s for s in found if isinstance(s, Sample)), key=lambda s: s.query.id)


@pytest.mark.parametrize("new", [200, 4])
def test_a_completion_has_the_room_that_its_prompt_leaves(
    engine: TransformersEngine, new: int
) -> None:
    both = Decoding(max_tokens=9, max_new_tokens=new)
    samples = drawn(engine, QUERIES, both)
    assert [s.query.id for s in samples] == list(LENGTHS)
    for sample in samples:
        room = min(new, 9 - LENGTHS[sample.query.id])
        (alone,) = drawn(engine, [sample.query], Decoding(max_new_tokens=room))
        assert sample.decoding == both
        assert {c.token_ids: c.count for c in sample.completions} == {
            c.token_ids: c.count for c in alone.completions
        }
        assert max(len(c.token_ids or ()) for c in sample.completions) == room


def test_a_prompt_that_leaves_no_room_is_refused(engine: TransformersEngine) -> None:
    engine.check(QUERIES, Decoding(max_tokens=8))
    with pytest.raises(InputError, match="'q3' has 7 prompt tokens, which leaves none of the 7"):
        engine.check(QUERIES, Decoding(max_tokens=7))
    engine.check(QUERIES, Decoding(max_tokens=128))
    with pytest.raises(InputError, match="'q0' has 5 prompt tokens; with max_new_tokens 124 that"):
        engine.check(QUERIES, Decoding(max_tokens=129))


def test_it_has_no_exact_mode(engine: TransformersEngine) -> None:
    effort = Effort(mode="exact", forwards=4)
    with pytest.raises(InputError, match="max_tokens 9 bounds prompt and completion together"):
        list(engine.explore(QUERIES, Decoding(max_tokens=9), effort, lambda *_: []))
    with pytest.raises(InputError, match="has no exact mode"):
        engine.force([(QUERIES[0], "Ann")], Decoding(max_tokens=9))


def test_what_it_draws_has_no_known_mass(engine: TransformersEngine) -> None:
    assert require_explores(engine, "target", Decoding()) is engine
    with pytest.raises(InputError, match="'target' cannot be explored: max_tokens 9 bounds"):
        require_explores(engine, "target", Decoding(max_tokens=9))


def test_examples_are_part_of_the_prompt(engine: TransformersEngine) -> None:
    shown = replace(QUERIES[1], examples=(("who wrote", "Ann"),))
    spelled = replace(QUERIES[1], text="who wrote Answer: Ann Question: who")
    decoding = Decoding(max_new_tokens=4)
    (one,), (other,) = (drawn(engine, [q], decoding) for q in (shown, spelled))
    assert one.completions == other.completions
    for a, b in zip(engine.read([(shown, "red")]), engine.read([(spelled, "red")]), strict=True):
        assert a.logprobs.tolist() == b.logprobs.tolist()
    assert engine.read([(shown, "red")])[0].logprobs[0] != pytest.approx(
        engine.read([(QUERIES[1], "red")])[0].logprobs[0], abs=1e-9
    )
