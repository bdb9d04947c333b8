"""The bench of proofs: its beams against enumeration, its shares of forwards, and its tables."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leakbound.sampling import Root
from leakbound.types import Decoding
from sampling_tables import DECODINGS, ROOTS, VOCAB, Ids, enumerate_law, mass_of, table

BENCH = Path(__file__).parents[1] / "bench"
LEAK = 3
ENOUGH = VOCAB**4


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def keyword(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Token 3 leaks, wherever it occurs."""
    return [(float(LEAK in ids), float(LEAK in ids or not ended)) for ids, ended in items]


def leaking(decoding: Decoding, root: Root) -> float:
    law = enumerate_law(decoding, root.token_ids)
    return sum(p for ids, p in law.items() if LEAK in ids)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_beams_wide_enough_hold_all_leaking_mass(decoding: Decoding) -> None:
    from rivals import beam_search

    for root in ROOTS:
        model = table()
        found = beam_search(model, root, decoding, width=ENOUGH, forwards=ENOUGH)
        assert found.leaks(0, keyword) == pytest.approx(leaking(decoding, root), abs=1e-12)
        assert all(ended for _, ended, _ in found.reached)
        assert model.held == 0


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("forwards", [1, 4, 12, ENOUGH])
def test_narrow_beams_know_masses_of_what_they_reach_and_count_none_twice(
    width: int, forwards: int
) -> None:
    from rivals import beam_search

    decoding = Decoding(max_new_tokens=4)
    for root in ROOTS:
        law = enumerate_law(decoding, root.token_ids)
        found = beam_search(table(), root, decoding, width=width, forwards=forwards)
        assert found.forwards <= min(forwards, 3 * width)
        for ids, _, mass in found.reached:
            assert mass == pytest.approx(mass_of(law, ids), rel=1e-9)
        for one, other in pairwise(sorted(ids for ids, *_ in found.reached)):
            assert other[: len(one)] != one
        assert found.leaks(0, keyword) <= leaking(decoding, root) + 1e-12


def test_wider_beams_find_more_of_it() -> None:
    from rivals import beam_search

    decoding = Decoding(max_new_tokens=4)
    mass = [
        sum(
            beam_search(table(), root, decoding, width=width, forwards=ENOUGH).leaks(0, keyword)
            for root in ROOTS
        )
        for width in (1, ENOUGH)
    ]
    assert mass[0] < 0.9 * mass[1]


def test_draws_are_as_many_as_their_forwards_allow() -> None:
    from rivals import MOST_DRAWS, affordable

    costs = [(64, 100), (128, 200), (256, 300)]
    assert affordable(costs, 100) == 64
    assert 128 < affordable(costs, 250) < 256
    assert 256 < affordable(costs, 450) < 1024
    assert affordable(costs, 50) == 32
    assert affordable(costs, 1) == 1
    assert affordable([(64, 9), (128, 9)], 10**9) == MOST_DRAWS


def seen(question: str, hits: int, n: int = 1_000) -> Any:
    from rivals import Seen

    return Seen("NPO", question, hits, n, 0.0, (hits + 5) / n, 0.02, ((64, 90), (n, 900)), 9.0)


def bound(question: str, value: float, **more: Any) -> Any:
    from rivals import FROM_ANSWER, Bound

    given = {"model": "NPO", "budget": 250, "method": FROM_ANSWER, "forwards": 200, "seconds": 0.5}
    return Bound(question=question, value=value, **given | more)


def test_results_are_kept_as_they_are_made_and_read_again(tmp_path: Path) -> None:
    from prove import Results

    file = tmp_path / "results.jsonl"
    results = Results(file)
    for one in (bound("a", 1e-3), seen("a", 2), bound("a", 2e-3, budget=1_000), bound("b", 0.0)):
        results.keep(one)
        assert len(file.read_text().splitlines()) == len(results.seen) + len(results.bounds)
    again = Results(file)
    assert (again.seen, again.bounds) == (results.seen, results.bounds)
    assert [one.question for one in again.of("NPO")] == ["a", "a", "b"]
    assert not again.of("full")
    results.keep(bound("a", 5e-3))
    assert len(Results(file).bounds) == 3
    assert not Results(None).bounds


def test_a_reference_is_the_share_of_draws_or_the_greatest_proof() -> None:
    from prove import references
    from rivals import DRAWN

    found = references(
        {"a": seen("a", 2), "b": seen("b", 0), "c": seen("c", 9)},
        [
            bound("a", 1e-3),
            bound("a", 1.0, method=DRAWN),  # no proof
            bound("b", 1e-5),
            bound("b", 2e-5, budget=1_000),
            bound("c", 0.0, method="exploration", upper=0.01),
        ],
    )
    assert found["a"] == (0.002, 0.007)
    assert found["b"] == (2e-5, 0.005)
    assert found["c"] == (0.009, 0.01)


def test_a_row_has_the_median_shares_of_questions_beyond_the_control() -> None:
    from prove import rows

    work = SimpleNamespace(
        name="NPO", seen={q: seen(q, h) for q, h in zip("abcd", (2, 4, 0, 8), strict=True)}
    )
    bounds = [
        *(bound("a", 1e-3), bound("b", 1e-3), bound("c", 1e-5), bound("d", 8e-3)),
        bound("c", 4e-5, budget=1_000),
    ]
    below, above = rows(work, bounds, {"a": 0.0, "b": 0.0, "c": 1e-6, "d": 0.5})
    assert below == (
        "| NPO | 250 | prover from the answer | 0.375 (2) | 0.250 (1) | 0.111 | 3 of 3 | 200 "
        "| 0.50 s |"
    )
    assert above.startswith("| NPO | 1,000 | prover from the answer | – (0) | 1.000 (1) | 0.008 |")


def test_a_proof_above_what_draws_allow_is_an_error() -> None:
    from prove import require_sound
    from rivals import DRAWN

    work = {"a": seen("a", 2)}
    require_sound(work, [bound("a", 0.019), bound("a", 0.5, method=DRAWN)])
    with pytest.raises(SystemExit, match="is above"):
        require_sound(work, [bound("a", 0.021)])


def test_nothing_is_measured_twice_and_rare_questions_get_more_draws_and_a_longer_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import prove
    from rivals import FROM_ANSWER

    calls: list[tuple[Any, ...]] = []

    def look(work: Any, case: Any, most: int) -> Any:
        calls.append(("look", case.query.id, most))
        return seen(case.query.id, 200 if case.query.id == "frequent" else 1, most)

    def method(work: Any, case: Any, budget: int) -> Any:
        calls.append((case.query.id, budget))
        return bound(case.query.id, 1e-6, budget=budget)

    monkeypatch.setattr(prove, "look", look)
    monkeypatch.setattr(prove, "METHODS", {FROM_ANSWER: method})
    cases = [SimpleNamespace(query=SimpleNamespace(id=name)) for name in ("frequent", "rare")]
    options = SimpleNamespace(draws=1 << 14, budgets=[250], methods=[FROM_ANSWER], beyond=900)
    file = tmp_path / "results.jsonl"
    prove.measure(SimpleNamespace(name="NPO", cases=cases, seen={}), prove.Results(file), options)
    looked = [("look", "frequent", 4096), ("look", "rare", 4096), ("look", "rare", 1 << 14)]
    assert calls == [*looked, ("frequent", 250), ("rare", 250), ("rare", 900)]
    calls.clear()
    options.budgets = [250, 500]
    work = SimpleNamespace(name="NPO", cases=cases, seen={})
    prove.measure(work, prove.Results(file), options)
    assert calls == [("frequent", 500), ("rare", 500)]
    assert work.seen["rare"].n == 1 << 14


def test_a_control_that_is_not_asked_for_is_drawn_from_and_searched_once() -> None:
    from prove import reference_only
    from rivals import FROM_ANSWER, METHODS

    given = Namespace(
        methods=list(METHODS), budgets=[250, 4_000], beyond=9_000, draws=64, of=["NPO"]
    )
    asked = reference_only(given)
    assert (asked.methods, asked.budgets, asked.beyond) == ([FROM_ANSWER], [4_000], None)
    assert (asked.draws, given.budgets) == (64, [250, 4_000])
