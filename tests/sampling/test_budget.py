"""Thoughts are closed when their budget is spent: draws, masses and forcing, by enumeration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.sampling.budget import Budgeted
from leakbound.sampling.model import Ending
from leakbound.sampling.outputs import Sampler
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Exploration,
    Sample,
    Usage,
)
from sampling_tables import (
    EOS,
    PROMPTS,
    QUERIES,
    VOCAB,
    Digits,
    Ids,
    enumerate_law,
    probabilities,
    table,
    unknown,
)

State = tuple[bool, int, int]
BEGIN, END = 5, 4
PLAIN = Decoding(max_new_tokens=2, max_thinking_tokens=3)
DECODINGS = [PLAIN, replace(PLAIN, temperature=0.6, top_k=4), replace(PLAIN, stop=("12",))]


class Thoughts(Digits):
    """A 5 begins a thought and a 4 ends it, by force once the thought has two tokens.

    As a budget its states are: inside a thought, tokens of the thought, tokens of the answer.
    """

    def start(self, prompt: Sequence[int]) -> State:
        return (False, 0, 0)

    def follow(self, state: State, token: int) -> State:
        inside, thought, answer = state
        if not (inside or answer or token == BEGIN):
            return (False, thought, answer + 1)
        if answer:
            return (False, thought, answer + 1)
        return (token != END, thought + 1, 0)

    def forced(self, state: State) -> int | None:
        return END if state[0] and state[1] == 2 else None

    def spent(self, ids: Ids) -> bool:
        return state_of(ids)[2] == 2

    def budget(self, decoding: Decoding, prompts: Sequence[Ids]) -> Thoughts:
        assert decoding.max_thinking_tokens == 3
        assert {*prompts} <= {*PROMPTS.values()}
        return self


def state_of(ids: Ids) -> State:
    state = Thoughts().start(())
    for token in ids:
        state = Thoughts().follow(state, token)
    return state


def next_law(prefix: Ids) -> Sequence[float]:
    forced = Thoughts().forced(state_of(prefix[1:]))
    return probabilities(prefix) if forced is None else np.eye(VOCAB)[forced].tolist()


def law_of(decoding: Decoding, query_id: str) -> dict[Ids, float]:
    """The probability of every output, by recursion over the law that has the forced tokens."""

    def ended(ids: Ids) -> bool:
        return Thoughts().spent(ids) or Thoughts().stopped(decoding.stop)(ids)

    longest = replace(decoding, max_new_tokens=5, max_thinking_tokens=None)
    return enumerate_law(longest, PROMPTS[query_id], next_law, ended)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda how: f"{how.name} {how.stop}")
def test_budgets_make_one_law(decoding: Decoding) -> None:
    model = table()
    made = Sampler(model, Thoughts(), lambda query: PROMPTS[query.id], Usage())
    reasons = set()
    for sample in made.generate(QUERIES, decoding, Draws(sizes=(300,))):
        assert isinstance(sample, Sample)
        assert sample.decoding == decoding
        law = law_of(decoding, sample.query.id)
        for one in sample.completions:
            assert one.token_ids is not None
            assert one.logprob == pytest.approx(math.log(law[one.token_ids]), abs=1e-9)
            reasons.add((one.finish, state_of(one.token_ids)[2]))
        stored = {sample.query.id: sample.completions}
        (again,) = made.retrace([sample.query], decoding, Draws(sizes=(300,)), stored)
        assert again.differs_after is None
        outputs = [(sample.query, ids) for ids in law]
        forced = made.force(outputs, decoding)
        for (_, ids), found in zip(outputs, forced, strict=True):
            assert found is not None
            assert found.logprob == pytest.approx(math.log(law[ids]), abs=1e-9)
        assert made.force([(sample.query, (BEGIN, 1, 1, 1))], decoding) == [None]
    assert ("length", 2) in reasons
    assert any(finish == "stop" for finish, _ in reasons)
    assert any(finish == "stop_string" for finish, _ in reasons) == bool(decoding.stop)
    assert model.held == 0


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda how: f"{how.name} {how.stop}")
def test_masses_under_budgets(decoding: Decoding) -> None:
    model = table()
    made = Sampler(model, Thoughts(), lambda query: PROMPTS[query.id], Usage())
    for found in made.explore(QUERIES, decoding, Effort(mode="exact", forwards=500), unknown):
        assert isinstance(found, Exploration)
        law = law_of(decoding, found.query.id)
        assert {event.token_ids for event in found.events} == law.keys()
        for event in found.events:
            assert event.mass == pytest.approx(law[event.token_ids], abs=1e-9)
    assert model.held == 0


def test_a_forced_token_has_probability_1_whatever_else_is_known() -> None:
    model = table()
    budgeted = Budgeted(model, Thoughts())
    assert (budgeted.vocab_size, budgeted.eos_token_ids) == (VOCAB, frozenset({EOS}))
    assert not budgeted.full
    (handle,), logits = budgeted.prefill([(1,)])
    assert logits.exp()[0].tolist() == pytest.approx(probabilities((1,)))
    parents, no = np.array([handle, handle]), np.zeros(2, dtype=bool)
    handles, logits = budgeted.extend(parents, np.array([BEGIN, 2]), no)
    assert logits.exp()[0].tolist() == pytest.approx(probabilities((1, BEGIN)))
    handles, logits = budgeted.extend(handles, np.array([3, 3]), ~no)
    assert logits.exp()[0].tolist() == [0.0] * END + [1.0] + [0.0] * (VOCAB - END - 1)
    assert logits.exp()[1].tolist() == pytest.approx(probabilities((1, 2, 3)))
    budgeted.release(np.array([handle, *handles]))
    assert model.held == 0


def test_the_ends_of_an_output_under_budgets() -> None:
    with pytest.raises(InputError, match="stop strings or budgets needs `ended`"):
        Ending.of(table(), PLAIN, None)
    ending = Ending.of(table(), PLAIN, lambda ids: "length" if Thoughts().spent(ids) else None)
    paths = [(1, 1), (1, EOS), (BEGIN, 1), (BEGIN, 1, END, BEGIN, BEGIN), (1, 2, 3, 1, 2)]
    assert [ending.reason(path) for path in paths] == ["length", "stop", None, "length", "length"]
    last, depth = np.array([p[-1] for p in paths]), np.array([len(p) for p in paths])
    assert ending.ends(last, depth, lambda: paths).tolist() == [True, True, False, True, True]
    assert PLAIN.longest == 5
    assert PLAIN.room(100) == 5
    assert replace(PLAIN, max_thinking_tokens=None, max_tokens=101).room(100) == 1
