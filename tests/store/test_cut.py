"""Parts of about a minute: whatever their sizes, every draw is in one of them, under its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from leakbound.store import Look, Part, Plan, QueryShares
from leakbound.store.plan import Cut, rounds_of
from leakbound.types import Query, from_json, object_of

IDS = [f"q{i}" for i in range(70)]
Key = tuple[str, int]


def cuts(number: int = 12) -> Iterator[Cut]:
    """Any sizes of parts, changing at any of them."""
    rng = np.random.default_rng(number)
    for _ in range(number):
        where = rng.integers(1, 30, size=rng.integers(0, 6)).tolist()
        yield Cut({0: 64} | {k: int(2 ** rng.uniform(0, 13.2)) for k in where}, 8192)


def drawn(parts: Sequence[Part]) -> dict[Key, int]:
    """How many draws of each query each chunk has; each must be drawn once."""
    assert [part.number for part in parts] == list(range(len(parts)))
    found: dict[Key, int] = {}
    for part in parts:
        for i, query_id in enumerate(part.query_ids):
            for j, size in enumerate(
                (part.draws_per_query[i],) if part.draws_per_query else part.sizes
            ):
                assert (query_id, part.first_chunk + j) not in found
                found[query_id, part.first_chunk + j] = size
    return found


@pytest.mark.parametrize("n", [1, 7, 64, 1024, 1500, 30_000])
def test_no_cut_changes_a_draw_of_a_plan(n: int) -> None:
    plan = Plan.of(n)
    for how in cuts():
        assert drawn(plan.parts(IDS, how)) == drawn(plan.parts(IDS, Cut.whole()))


@pytest.mark.parametrize("n", [3, 64, 1500, 5000])
def test_nor_of_rewritings(n: int) -> None:
    queries = [Query(id=f"{q}~{i}", prompt_id=q, text="?") for q in IDS for i in range(3)]
    sharing = QueryShares("fixed", {query.id: n for query in queries})
    for how in cuts():
        parts = sharing.parts(queries, how)
        assert drawn(parts) == drawn(sharing.parts(queries, Cut.whole()))
        for part in parts:  # a question stands whole
            assert len({q.partition("~")[0] for q in part.query_ids}) * 3 == len(part.query_ids)


def test_nor_of_rounds() -> None:
    looks = ({q: Look(64, "open", 64 + 200 * (i % 3)) for i, q in enumerate(IDS)},)

    def flat(how: Cut) -> list[Part]:
        return [part for parts in rounds_of(IDS, 64, looks, how) for part in parts]

    for how in cuts():
        assert drawn(flat(how)) == drawn(flat(Cut.whole()))


@pytest.mark.parametrize("cost", [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 64, 1024])
def test_parts_take_about_a_minute_where_queries_cost_alike(cost: float, n: int) -> None:
    how, number, left = Cut.draws(), 0, 400
    took: list[float] = []
    while left:
        (first, *_) = Plan.of(n).parts(IDS[: min(left, 64)], how, first=number)
        took.append(first.draws * cost)
        how, left = how.after(number, first.draws, took[-1]), left - len(first.query_ids)
        number += 1
    smallest = n * cost  # one query
    assert max(took) <= max(90.0, smallest, 64 * cost)
    assert from_json(Cut, object_of(how)) == how
    assert how.decided == number
    settled = [t for t in took[8:-1] if t < 20]  # small ones only where no larger are allowed
    assert all(t >= min(64, 8192 // n) * smallest * 0.99 for t in settled)


def test_a_part_that_took_too_long_makes_the_next_smaller() -> None:
    how = Cut.draws().after(0, 1024, 1.0)
    assert how.size(1) == 4096
    how = how.after(1, 4096, 600.0)
    assert (how.size(0), how.size(1), how.size(2)) == (64, 4096, 256)
    assert how.after(2, 64, 30.0).size(3) == 256


def test_what_is_left_over_makes_the_next_no_smaller() -> None:
    assert Cut({0: 4096}, 8192).after(0, 64, 10.0).size(1) == 4096


def test_the_size_of_a_part_depends_on_those_before_it_alone() -> None:
    rng = np.random.default_rng(0)
    how = Cut.draws()
    for number in range(40):
        before = [how.size(i) for i in range(number + 1)]
        how = how.after(number, how.size(number), float(rng.lognormal(3, 2)))
        assert [how.size(i) for i in range(number + 1)] == before
        assert 1 <= how.size(number + 1) <= 8192


def test_explored_questions_begin_alone_and_are_four_at_most() -> None:
    how = Plan.exploring().cut()
    for number, size in enumerate((1, 4, 4, 4)):
        assert len(Plan.exploring().parts(IDS, how)[number].query_ids) == size
        how = how.after(number, size, 0.1)
