"""What the sampler tells of queries, in texts, against exact enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from sampling_tables import EOS, ROOTS, VOCAB, Ids, enumerate_law, mass_of, probabilities, table

from leakbound.sampling import TableModel
from leakbound.sampling.outputs import FORCED, Sampler
from leakbound.types import Decoding, Draws, Effort, Exploration, Failure, Query, Sample, Usage

QUERIES = [Query(id=root.query_id, prompt_id=root.query_id, text=root.query_id) for root in ROOTS]
DECODING = Decoding(max_new_tokens=3, temperature=0.9, top_p=0.95)
NUMBER = {query.id: root.token_ids for query, root in zip(QUERIES, ROOTS, strict=True)}


class Digits:
    """A token is a digit, the end nothing; a stop string ends a text."""

    def text(self, ids: Ids, stop: Sequence[str]) -> str:
        spelt = "".join(str(i) for i in ids if i != EOS)
        return spelt[: min((spelt.find(s) for s in stop if s in spelt), default=len(spelt))]

    def settled(self, ids: Ids, stop: Sequence[str]) -> str:
        return f"{self.text(ids, stop)}…"

    def stopped(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        return lambda ids: any(s in self.text(ids, ()) for s in stop)


def sampler(model: TableModel | None = None, **settings: object) -> Sampler:
    model = table() if model is None else model
    return Sampler(model, Digits(), lambda q: NUMBER[q.id], Usage(), **settings)  # type: ignore[arg-type]


def test_draws_are_told_by_chunk_with_the_probability_of_their_law() -> None:
    made = sampler(margin=1e-4)
    draws = Draws(sizes=(50, 30), first_chunk=4)
    found = {one.query.id: one for one in made.generate(QUERIES, DECODING, draws)}
    assert set(found) == set(NUMBER)
    for query_id, sample in found.items():
        assert isinstance(sample, Sample)
        assert sample.decoding == DECODING
        drawn = [0, 0]
        law = enumerate_law(DECODING, NUMBER[query_id])
        for one in sample.completions:
            assert one.token_ids is not None
            assert one.count > 0
            drawn[one.chunk - 4] += one.count
            assert one.text == Digits().text(one.token_ids, ())
            assert one.logprob == pytest.approx(math.log(law[one.token_ids]), abs=1e-9)
            assert one.logprob_floor is not None
            assert one.logprob_floor < one.logprob
            assert one.finish_reason == ("stop" if EOS in one.token_ids else "length")
        assert drawn == [50, 30]
    assert made.usage.draws == 80 * len(QUERIES)
    assert made.usage.prompt_tokens == len(QUERIES)
    assert made.usage.seconds > 0


def test_a_shorter_limit_and_a_stop_string_end_completions() -> None:
    how = Decoding(max_new_tokens=5, stop=("1",))
    for sample in sampler().generate(QUERIES, how, Draws(sizes=(200,)), longest=2):
        assert isinstance(sample, Sample)
        assert sample.decoding == how
        for one in sample.completions:
            assert one.token_ids is not None
            assert len(one.token_ids) <= 2
            assert "1" not in one.text
            assert (one.finish_reason == "stop_string") == (1 in one.token_ids)


def test_an_exploration_tells_masses_texts_and_what_is_left() -> None:
    asked: list[tuple[str, str, bool]] = []

    def settle(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        asked.extend((query.id, *text) for text in texts)
        return [(float("3" in text),) * 2 if ended or "3" in text else (0.0, 1.0)
                for text, ended in texts]  # fmt: skip

    effort = Effort(mode="exact", forwards=200)
    made = sampler()
    for found in made.explore(QUERIES, DECODING, effort, settle):
        assert isinstance(found, Exploration)
        law = enumerate_law(DECODING, NUMBER[found.query.id])
        assert found.remainder == pytest.approx(0, abs=1e-9)
        for event in found.events:
            exact = law[event.token_ids] if event.ended else mass_of(law, event.token_ids)
            assert event.mass == pytest.approx(exact, abs=1e-9)
            assert event.text.endswith("…") == (not event.ended)
        assert sum(event.mass for event in found.events) == pytest.approx(1, abs=1e-9)
        assert 0 < found.forwards <= 200
    assert {query_id for query_id, *_ in asked} == set(NUMBER)
    assert made.usage.forwards > 0
    assert all(text.endswith("…") == (not ended) for _, text, ended in asked)


def test_open_prefixes_that_are_too_light_are_not_told_of() -> None:
    def open_ended(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        return [(0.0, 0.0) if ended else (0.0, 1.0) for _, ended in texts]

    effort = Effort(mode="exact", forwards=3)

    def masses(lightest: float) -> list[float]:
        found = sampler(lightest=lightest).explore(QUERIES, DECODING, effort, open_ended)
        return sorted(
            event.mass
            for one in found
            if isinstance(one, Exploration)
            for event in one.events
            if not event.ended
        )

    every, heavy = masses(-math.inf), masses(math.log(0.1))
    assert heavy == [mass for mass in every if mass >= 0.1]
    assert 0 < len(heavy) < len(every)


def test_a_forced_output_has_no_draws_and_an_impossible_one_is_none() -> None:
    law = enumerate_law(DECODING, NUMBER["q2"])
    likeliest = max(law, key=lambda ids: law[ids])
    asked = [(QUERIES[2], likeliest), (QUERIES[0], None), (QUERIES[2], (EOS, EOS))]
    one, *others = sampler().force(asked, DECODING)
    assert others == [None, None]
    assert one is not None
    assert (one.count, one.chunk, one.token_ids) == (0, FORCED, likeliest)
    assert one.text == Digits().text(likeliest, ())
    assert one.logprob == pytest.approx(math.log(law[likeliest]), abs=1e-9)


@pytest.mark.parametrize("explored", [True, False])
def test_a_query_at_which_the_model_breaks_fails_alone(explored: bool) -> None:
    def breaks(prefix: Ids) -> Sequence[float]:
        return [math.nan] * VOCAB if prefix[0] == 3 and len(prefix) > 1 else probabilities(prefix)

    made = sampler(table(breaks))
    settle = lambda query, texts: [(0.0, 1.0) for _ in texts]  # noqa: E731
    effort = Effort(mode="exact", forwards=20)
    found = (
        made.explore(QUERIES, DECODING, effort, settle)
        if explored
        else made.generate(QUERIES, DECODING, Draws(sizes=(40,)))
    )
    failed = [one for one in found if isinstance(one, Failure)]
    assert [one.query.id for one in failed] == ["q3"]
    assert "NaN or infinite after '" in failed[0].reason
    assert "(1 tokens)" in failed[0].reason
