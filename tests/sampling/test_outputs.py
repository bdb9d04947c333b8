"""Draws, masses and forced outputs of queries as texts, against exact enumeration.

With stop strings, and with token budgets for the thought and for the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.sampling import Forest, OutputTree, TableModel, force
from leakbound.sampling.outputs import FORCED, Sampler
from leakbound.sampling.stems import Leaf
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Event,
    Failure,
    Query,
    Usage,
)
from sampling_tables import (
    EOS,
    PROMPTS,
    QUERIES,
    ROOTS,
    VOCAB,
    Digits,
    Ids,
    breaking,
    enumerate_law,
    mass_of,
    probabilities,
    stops_12,
    table,
    unknown,
)

State = tuple[bool, int, int]
BEGIN, END = 5, 4
PLAIN = Decoding(max_new_tokens=3, temperature=0.9, top_p=0.95)
THINKS = Decoding(max_new_tokens=2, max_thinking_tokens=3)
ADAPTIVE = Decoding(max_new_tokens=3, adaptive_temperature=0.7)
COLD, STOPPED = replace(THINKS, temperature=0.6, top_k=4), replace(THINKS, stop=("12",))
HOW = [PLAIN, THINKS, COLD, STOPPED]


class Thoughts(Digits):
    """A 5 begins a thought; a 4 ends it, by force once the thought has two tokens.

    The states of the budget: inside a thought, tokens of the thought, tokens of the answer.
    """

    def start(self, prompt: Sequence[int]) -> State:
        return (False, 0, 0)

    def follow(self, state: State, token: int) -> State:
        inside, thought, answer = state
        if answer or not (inside or token == BEGIN):
            return (False, thought, answer + 1)
        return (token != END, thought + 1, 0)

    def forced(self, state: State) -> int | None:
        return END if state[0] and state[1] == 2 else None

    def spent(self, ids: Ids) -> bool:
        return self.state_of(ids)[2] == 2

    def budget(self, decoding: Decoding, prompts: Sequence[Ids]) -> Thoughts:
        assert decoding.max_thinking_tokens == 3
        assert {*prompts} <= {*PROMPTS.values()}
        return self

    def state_of(self, ids: Ids) -> State:
        state = self.start(())
        for token in ids:
            state = self.follow(state, token)
        return state


SPELLS = Thoughts()


def named(how: Decoding) -> str:
    return f"{how.name} {how.longest} {how.stop}"


def law_of(decoding: Decoding, query_id: str) -> dict[Ids, float]:
    """Return the probability of every output, by recursion; forced tokens are included."""
    thinks = decoding.max_thinking_tokens is not None

    def ended(ids: Ids) -> bool:
        return (thinks and SPELLS.spent(ids)) or SPELLS.stopped(decoding.stop)(ids)

    def following(prefix: Ids) -> Sequence[float]:
        forced = SPELLS.forced(SPELLS.state_of(prefix[1:])) if thinks else None
        return probabilities(prefix) if forced is None else np.eye(VOCAB)[forced].tolist()

    longest = replace(decoding, max_new_tokens=decoding.longest, max_thinking_tokens=None)
    return enumerate_law(longest, PROMPTS[query_id], following, ended)


def forced(
    keys: Sequence[tuple[int, Ids]],
    decoding: Decoding,
    model: TableModel | None = None,
    **settings: Any,
) -> list[Leaf | None]:
    model = table() if model is None else model
    got = force(OutputTree(model, decoding, **settings), ROOTS, keys)
    assert model.live == 0
    return got


def sampler(model: TableModel | None = None, **settings: Any) -> Sampler:
    model = table() if model is None else model
    return Sampler(model, SPELLS, lambda query: PROMPTS[query.id], Usage(), **settings)


@pytest.mark.parametrize("decoding", [*HOW, ADAPTIVE], ids=named)
def test_draws_and_forced_outputs_have_exact_probabilities(decoding: Decoding) -> None:
    model, reasons, draws = table(), set[str](), Draws(sizes=(200, 100), first_chunk=4)
    made, other = sampler(model, margin=1e-4), sampler(model)
    for sample in made.generate(QUERIES, decoding, draws):
        assert sample.decoding == decoding
        law, drawn = law_of(decoding, sample.query.id), Counter[int]()
        for one in sample.completions:
            assert one.count > 0
            drawn[one.chunk] += one.count
            assert one.answer == SPELLS.parts(one.token_ids, decoding.stop).answer
            assert one.logprob == pytest.approx(math.log(law[one.token_ids]), abs=1e-9)
            assert one.logprob_floor < one.logprob
            assert (one.finish == "stop") == (EOS in one.token_ids)
            reasons.add(one.finish)
        assert drawn == {4: 200, 5: 100}
        stored = {sample.query.id: sample.completions}
        (again,) = other.retrace([sample.query], decoding, draws, stored)
        assert again.differs_after is None
        outputs = [(sample.query, ids) for ids in (*law, (BEGIN, 1, 1, 1))]
        *got, impossible = other.force(outputs, decoding)
        assert impossible is None
        for ids, forced_one in zip(law, got, strict=True):
            assert forced_one.logprob == pytest.approx(math.log(law[ids]), abs=1e-9)
    assert reasons == {"stop", "length", *(["stop_string"] if decoding.stop else [])}
    assert (made.usage.draws, made.usage.prompt_tokens) == (300 * len(QUERIES), len(QUERIES))
    assert made.usage.seconds > 0
    assert model.live == 0


@pytest.mark.parametrize("decoding", HOW, ids=named)
def test_an_exploration_has_exact_masses_and_texts(decoding: Decoding) -> None:
    wanted: list[tuple[str, str, bool]] = []

    def settle(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
        wanted.extend((query.id, e.answer, e.ended) for e in events)
        return [(float("3" in e.answer), float("3" in e.answer or not e.ended)) for e in events]

    made = sampler(model := table())
    for got in made.explore(QUERIES, decoding, Effort(mode="exact", forwards=500), settle):
        law = law_of(decoding, got.query.id)
        assert got.remainder == pytest.approx(0, abs=1e-9)
        for event in got.events:
            exact = law[event.token_ids] if event.ended else mass_of(law, event.token_ids)
            assert event.mass == pytest.approx(exact, abs=1e-9)
            assert event.answer.endswith("…") == (not event.ended)
        assert sum(event.mass for event in got.events) == pytest.approx(1, abs=1e-9)
        assert 0 < got.forwards <= 500
    assert {query_id for query_id, *_ in wanted} == set(PROMPTS)
    assert all(text.endswith("…") == (not ended) for _, text, ended in wanted)
    assert made.usage.forwards > 0
    assert model.live == 0


def test_the_ends_of_an_output_under_budgets() -> None:
    with pytest.raises(InputError, match="stop strings or budgets needs `ended`"):
        _ = OutputTree(table(), THINKS).ending
    tree = OutputTree(table(), THINKS, ended=lambda ids: "length" if SPELLS.spent(ids) else None)
    ending = tree.ending
    paths = [(1, 1), (1, EOS), (BEGIN, 1), (BEGIN, 1, END, BEGIN, BEGIN), (1, 2, 3, 1, 2)]
    assert [ending.reason(path) for path in paths] == ["length", "stop", None, "length", "length"]
    last, depth = np.array([p[-1] for p in paths]), np.array([len(p) for p in paths])
    assert ending.ends(last, depth, lambda: paths).tolist() == [True, True, False, True, True]
    assert (THINKS.longest, THINKS.room(100)) == (5, 5)
    assert replace(THINKS, max_thinking_tokens=None, max_tokens=101).room(100) == 1


def test_a_shorter_limit_and_a_stop_string_end_completions() -> None:
    how = Decoding(max_new_tokens=5, stop=("1",))
    for sample in sampler().generate(QUERIES, how, Draws(sizes=(200,)), longest=2):
        assert (sample.n, sample.decoding) == (200, how)
        for one in sample.completions:
            assert len(one.token_ids) <= 2
            assert "1" not in one.answer
            assert (one.finish == "stop_string") == (1 in one.token_ids)


def test_open_prefixes_that_are_too_light_are_left_out() -> None:
    def open_ended(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
        return [(0.0, 0.0) if event.ended else (0.0, 1.0) for event in events]

    effort = Effort(mode="exact", forwards=3)

    def masses(lightest: float) -> list[float]:
        got = sampler(lightest=lightest).explore(QUERIES, PLAIN, effort, open_ended)
        return sorted(event.mass for one in got for event in one.events if not event.ended)

    every, heavy = masses(-math.inf), masses(math.log(0.1))
    assert heavy == [mass for mass in every if mass >= 0.1]
    assert 0 < len(heavy) < len(every)


def test_a_forced_beginning_has_the_mass_of_its_outputs() -> None:
    law, made = enumerate_law(PLAIN, PROMPTS["q2"]), sampler()
    likeliest = max(law, key=lambda ids: law[ids])
    begun = max(law, key=lambda ids: (len(ids), law[ids]))[:1]
    outputs = [(QUERIES[2], ids) for ids in (likeliest, (EOS, EOS), begun)]
    one, *others = made.force([*outputs, (QUERIES[0], None)], PLAIN)
    assert others == [None, None, None]
    assert (one.count, one.chunk, one.token_ids) == (0, FORCED, likeliest)
    assert one.answer == Digits().parts(likeliest, ()).answer
    assert one.logprob == pytest.approx(math.log(law[likeliest]), abs=1e-9)
    (one,) = made.force(outputs[2:], PLAIN, beginnings=True)
    assert (one.finish, one.token_ids) == ("unknown", begun)
    assert one.logprob == pytest.approx(math.log(mass_of(law, begun)), abs=1e-9)


@pytest.mark.parametrize("explored", [True, False])
def test_only_the_query_that_breaks_the_model_fails(explored: bool) -> None:
    made = sampler(breaking(lambda prefix: prefix[0] == 3 and len(prefix) > 1))
    effort = Effort(mode="exact", forwards=20)
    got = (
        made.explore(QUERIES, PLAIN, effort, unknown)
        if explored
        else made.generate(QUERIES, PLAIN, Draws(sizes=(40,)))
    )
    failed = [one for one in got if isinstance(one, Failure)]
    assert [one.query.id for one in failed] == ["q3"]
    assert "NaN or infinite after '" in failed[0].reason
    assert "(1 tokens)" in failed[0].reason


def test_a_forced_output_equals_a_drawn_one() -> None:
    decoding = Decoding(max_new_tokens=4, temperature=0.7, top_p=0.9)
    forest = Forest(OutputTree(table(), decoding, 1e-3), Draws(sizes=(200,)))
    for tree in forest.sample(ROOTS):
        keys = [(tree.root, leaf.token_ids) for leaf in tree.leaves]
        for leaf, one in zip(tree.leaves, forced(keys, decoding, margin=1e-3), strict=True):
            assert one.finish == leaf.finish
            for name in ("logprob", "floor", "model_logprob", "confidence"):
                assert math.isclose(getattr(one, name), getattr(leaf, name), abs_tol=1e-9)


def test_only_what_is_complete_and_was_not_before_is_an_output() -> None:
    flat = table(lambda prefix: [1 / VOCAB] * VOCAB)
    decoding = Decoding(max_new_tokens=4, stop=("12",))
    cases = {
        (): None,
        (0,): None,  # stops before its end
        (EOS,): "stop",
        (0, EOS): "stop",
        (EOS, 0): None,
        (EOS, EOS): None,
        (0, 0, 0, 0): "length",
        (0, 0, 0, EOS): "stop",
        (0, 0, 0, 0, EOS): None,
        (1, 2): "stop_string",
        (1, 2, EOS): None,
        (0, 1, 2): "stop_string",
    }
    keys = [(0, ids) for ids in cases]
    got = forced(keys, decoding, flat, ended=stops_12)
    assert [leaf and leaf.finish for leaf in got] == list(cases.values())
    for ids, leaf in zip(cases, got, strict=True):
        if leaf is not None:
            assert math.isclose(leaf.logprob, -len(ids) * math.log(VOCAB))


def test_each_distinct_prefix_is_forwarded_once() -> None:
    class Counted(TableModel):
        forwards = 0

        def extend(self, parents, tokens, takes_over):  # type: ignore[no-untyped-def]
            self.forwards += len(tokens)
            return super().extend(parents, tokens, takes_over)

    half = [0.5, 0, 0, 0, 0, 0, 0.5]
    model = Counted(lambda prefix: half, vocab_size=VOCAB, eos_token_ids=[EOS])
    keys = [(0, (0, 0, EOS)), (0, (0, EOS)), (0, (0, 0, EOS)), (0, (1, 0, 0, EOS))]
    got = forced(keys, Decoding(max_new_tokens=5), model)
    assert [leaf and round(math.exp(leaf.logprob), 12) for leaf in got] == [
        0.125, 0.25, 0.125, None,
    ]  # fmt: skip
    assert model.forwards == 2


def test_unusable_logits_prove_nothing() -> None:
    model = table(lambda prefix: [math.nan if prefix == (0, 5) else 1 / VOCAB] * VOCAB)
    keys = [(0, (5, EOS)), (0, (4, EOS)), (1, (5, EOS))]
    got = forced(keys, Decoding(max_new_tokens=5), model)
    assert [leaf is None for leaf in got] == [True, False, False]
