"""How a question's outputs are shared among its queries."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.evaluation.drawing.queries import share
from leakbound.store import QueryShares
from leakbound.store.plan import Cut
from leakbound.types import Query


def asked(questions: int = 3, rewritings: int = 4) -> list[Query]:
    """Questions, each followed by its rewritings."""
    found: list[Query] = []
    for i in range(questions):
        found.append(Query(id=f"p{i}", prompt_id=f"p{i}", text="?"))
        for j in range(rewritings):
            found.append(Query(id=f"p{i}~{j:02d}", prompt_id=f"p{i}", text="?", source="rules"))
    return found


def of(sharing: QueryShares, prompt: str) -> list[int]:
    return [
        n for query_id, n in sharing.draws_per_query.items() if query_id.partition("~")[0] == prompt
    ]


def test_allocated_draws_the_query_of_every_output() -> None:
    queries = asked(questions=2000)
    sharing = share(queries, "allocated", 20, 0)
    drawn = np.array(list(sharing.draws_per_query.values())).reshape(2000, 5)
    assert (drawn.sum(axis=1) == 20).all()
    assert (drawn == 0).any()
    # uniform multinomial: mean n/5, variance n (1/5)(4/5), questions independent of one another
    assert drawn.mean(axis=0) == pytest.approx(4, abs=0.2)
    assert drawn.var(axis=0) == pytest.approx(3.2, rel=0.15)
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.1


def test_an_allocation_is_a_function_of_seed_and_prompt() -> None:
    first = share(asked(), "allocated", 50, 0)
    assert share(asked(), "allocated", 50, 0) == first
    assert of(share(asked(1), "allocated", 50, 0), "p0") == of(first, "p0")
    assert share(asked(), "allocated", 50, 1) != first
    assert of(first, "p0") != of(first, "p1")


def test_fixed_gives_every_query_as_many_and_needs_one_for_each() -> None:
    assert set(share(asked(), "fixed", 23, 0).draws_per_query.values()) == {4}
    assert len(share(asked(), "fixed", 23, 0).draws_per_query) == 15
    with pytest.raises(InputError, match=r"got 4 for the 5 of 'p0'\. Raise it"):
        share(asked(), "fixed", 4, 0)


def test_fresh_asks_every_rewriting_once_and_never_the_question() -> None:
    draws = share(asked(), "fresh", 4, 0).draws_per_query
    assert set(draws.values()) == {1}
    assert len(draws) == 12
    assert not {"p0", "p1", "p2"} & set(draws)
    with pytest.raises(InputError, match="no rewriting of any question"):
        share(asked(rewritings=0), "fresh", 4, 0)


def test_parts_hold_whole_questions_and_every_draw_once() -> None:
    for n, parts in ((1024, 2), (3000, 5)):
        queries = asked(questions=9)
        sharing = share(queries, "allocated", n, 0)
        drawn: dict[str, int] = {}
        found = sharing.parts(queries, Cut.whole())
        for part in found:
            for query_id, count in zip(part.query_ids, part.draws_per_query, strict=True):
                assert 0 < count <= 1024
                drawn[query_id] = drawn.get(query_id, 0) + count
            assert part.sizes == (max(part.draws_per_query),)
            assert part.draws == sum(part.draws_per_query) <= 8192
        assert drawn == sharing.draws_per_query
        assert len(found) == parts
        first = [part for part in found if part.first_chunk == 0]
        where = {q: part.number for part in first for q in part.query_ids}
        assert all(where[f"p{i}"] == where[f"p{i}~00"] for i in range(9))


def test_a_query_with_many_draws_gets_them_in_chunks() -> None:
    sharing = QueryShares("fixed", {"p0": 2500, "p0~00": 10})
    parts = sharing.parts(asked(1, 1), Cut.whole())
    assert [(p.query_ids, p.draws_per_query, p.first_chunk) for p in parts] == [
        (("p0", "p0~00"), (1024, 10), 0),
        (("p0",), (1024,), 1),
        (("p0",), (452,), 2),
    ]
