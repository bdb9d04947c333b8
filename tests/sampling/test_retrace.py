"""Stored outputs against the draws of their keys: roundings are allowed for, inventions are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from leakbound.sampling import Forest, Root
from leakbound.sampling.law import pick
from leakbound.sampling.retrace import Retraced, Retracer, StoredOutputs, may_split
from leakbound.types import Decoding, Draws
from sampling_tables import (
    DECODINGS,
    EOS,
    ROOTS,
    VOCAB,
    Ids,
    Table,
    perturbed,
    probabilities,
    table,
)

MARGIN = 0.03
Stored = dict[str, StoredOutputs]


def drawn(
    decoding: Decoding, draws: Draws, roots: Sequence[Root] = ROOTS, of: Table = probabilities
) -> Stored:
    """What is stored of these roots."""
    found: Stored = {}
    for tree in Forest(table(of), decoding, draws).sample(list(roots)):
        found[roots[tree.root].query_id] = [
            (leaf.token_ids, {draws.first_chunk + i: n for i, n in enumerate(leaf.counts) if n})
            for leaf in tree.leaves
        ]
    return found


def retrace(
    decoding: Decoding,
    draws: Draws,
    stored: Mapping[str, StoredOutputs],
    roots: Sequence[Root] = ROOTS,
    margin: float = 0.0,
) -> dict[int, Retraced]:
    model = table()
    forest = Retracer(model, decoding, draws, margin=margin)
    found = {one.root: one for one in forest.retrace(list(roots), stored)}
    assert model.held == 0
    return found


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_draws_are_their_own(decoding: Decoding) -> None:
    draws = Draws(sizes=(40, 40, 7), first_chunk=3, seed=5, purpose="score:target")
    for margin in (0.0, MARGIN):
        found = retrace(decoding, draws, drawn(decoding, draws), margin=margin)
        assert set(found) == set(range(len(ROOTS)))
        assert all(one.differs_at is None and one.excused == 0 for one in found.values())


@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_roundings_within_the_margin_are_allowed_for(decoding: Decoding, kind: int) -> None:
    """Of another batch, each logit moved by at most half of it; what comes after is followed."""
    draws = Draws(sizes=(300,), seed=kind)
    stored = drawn(decoding, draws, of=perturbed(probabilities, MARGIN / 2, kind))
    found = retrace(decoding, draws, stored, margin=MARGIN)
    assert [one.differs_at for one in found.values()] == [None] * len(ROOTS)
    if decoding.adaptive_temperature is None:
        assert max(one.excused for one in found.values()) > 1


def test_the_same_roundings_are_no_excuse_without_a_margin() -> None:
    draws = Draws(sizes=(300,), seed=1)
    stored = drawn(DECODINGS[0], draws, of=perturbed(probabilities, MARGIN / 2, 1))
    assert any(one.differs_at is not None for one in retrace(DECODINGS[0], draws, stored).values())


def fewer(outputs: StoredOutputs) -> StoredOutputs:
    (ids, counts), *others = outputs
    return [(ids, {c: n - 1 for c, n in counts.items() if n > 1}), *others]


def moved(outputs: StoredOutputs) -> StoredOutputs:
    """All draws of one output given to another."""
    (_, counts), (other, theirs), *others = sorted(outputs, key=lambda each: -total(each))
    chunks = {*counts, *theirs}
    return [(other, {c: counts.get(c, 0) + theirs.get(c, 0) for c in chunks}), *others]


def invented(outputs: StoredOutputs) -> StoredOutputs:
    """The heaviest output replaced by one that nobody drew."""
    heaviest, seen = max(outputs, key=total), {ids for ids, _ in outputs}
    every = itertools.product(range(VOCAB - 1), repeat=3)
    new = next((*ids, EOS) for ids in every if (*ids, EOS) not in seen)
    return [(new if each is heaviest else each[0], each[1]) for each in outputs]


def cut_short(outputs: StoredOutputs) -> StoredOutputs:
    """An output that ends before it is over."""
    longest = max(outputs, key=lambda each: len(each[0]))
    return [(each[0][:-1] if each is longest else each[0], each[1]) for each in outputs]


def longer(outputs: StoredOutputs) -> StoredOutputs:
    """The last output goes on after its end."""
    *others, last = sorted(outputs, key=lambda each: each[0])
    return [*others, ((*last[0], 0), last[1])]


def total(output: tuple[Ids, Mapping[int, int]]) -> int:
    return sum(output[1].values())


FORGERIES: dict[str, Callable[[StoredOutputs], StoredOutputs]] = {
    "dropped": lambda outputs: outputs[1:],
    "none": lambda outputs: [],
    "other chunk": lambda all_: [(ids, {1 - c: n for c, n in own.items()}) for ids, own in all_],
    "fewer": fewer,
    "moved": moved,
    "invented": invented,
    "cut short": cut_short,
    "longer": longer,
}


@pytest.mark.parametrize("margin", [0.0, 1e-4])
@pytest.mark.parametrize("name", FORGERIES)
def test_what_was_not_drawn_is_found(name: str, margin: float) -> None:
    """In the question where it was done, and in no other, also of the same prompt."""
    forge = FORGERIES[name]
    roots = [Root("a", (1,)), Root("b", (2,)), Root("c", (1,))]
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(64, 64), seed=2)
    stored = drawn(decoding, draws, roots)
    forged = {**stored, "a": forge(stored["a"])}
    found = retrace(decoding, draws, forged, roots, margin)
    assert [found[i].differs_at is None for i in range(3)] == [False, True, True]
    known = {"none": (), "longer": max(ids for ids, _ in stored["a"])}
    assert found[0].differs_at == known.get(name, found[0].differs_at)
    both = retrace(decoding, draws, {**forged, "c": forge(stored["c"])}, roots, margin)
    assert [both[i].differs_at is None for i in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    "other", [Draws(sizes=(64,), seed=3), Draws(sizes=(64,), seed=2, purpose="attack")]
)
def test_draws_of_other_keys_are_found(other: Draws) -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(64,), seed=2)
    found = retrace(decoding, draws, drawn(decoding, other), margin=1e-4)
    assert all(one.differs_at is not None for one in found.values())


def test_each_query_has_its_own_number_of_draws() -> None:
    share = {"q0": 5, "q1": 64, "q2": 1, "q3": 9, "q4": 33}
    draws = Draws(sizes=(64,), seed=2, draws_per_query=share)
    stored = drawn(DECODINGS[0], draws)
    assert all(one.differs_at is None for one in retrace(DECODINGS[0], draws, stored).values())
    more = Draws(sizes=(64,), seed=2, draws_per_query={**share, "q3": 10})
    found = retrace(DECODINGS[0], more, stored)
    assert [i for i, one in found.items() if one.differs_at is not None] == [3]


def test_where_the_model_breaks_nothing_may_be_stored() -> None:
    def broken(prefix: tuple[int, ...]) -> Sequence[float]:
        return (math.nan,) * VOCAB if prefix[0] == 1 else probabilities(prefix)

    decoding, draws = Decoding(max_new_tokens=3), Draws(sizes=(16,), seed=2)
    sound = drawn(decoding, draws)
    forest = Retracer(table(broken), decoding, draws)
    found = {one.root: one for one in forest.retrace(ROOTS, {**sound, "q1": []})}
    assert all(one.differs_at is None for one in found.values())
    forest = Retracer(table(broken), decoding, draws)
    found = {one.root: one for one in forest.retrace(ROOTS, {**sound, "q2": []})}
    assert [i for i, one in sorted(found.items()) if one.differs_at is not None] == [1, 2]


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_any_token_that_moved_logits_pick_may_be_picked(decoding: Decoding) -> None:
    """Draws of one step, logits moved in any way within half the margin, near ties among them."""
    rng = np.random.default_rng(7)
    confidence = np.array([1.3]), np.array([2])
    for _ in range(150):
        logits = torch.from_numpy(rng.normal(0, 2, (1, 9)))
        logits[0, 3] = logits[0, 5] + rng.choice([0, 1e-3, -1e-3])
        moved = logits + torch.from_numpy(rng.uniform(-MARGIN / 2, MARGIN / 2, (1, 9)))
        u = rng.uniform(size=30)
        picks = pick(moved, decoding, np.zeros(30, dtype=np.int64), u, confidence)
        tokens, counts = (x.tolist() for x in np.unique(picks.tokens, return_counts=True))
        split = dict(zip(tokens, counts, strict=True))
        assert may_split(logits, decoding, u, split, confidence, MARGIN)


@pytest.mark.parametrize("decoding", DECODINGS[:5], ids=lambda d: d.name)
def test_a_split_is_allowed_if_some_assignment_of_draws_makes_it(decoding: Decoding) -> None:
    """By an oracle that tries every way to hand six draws to three tokens."""
    rng = np.random.default_rng(8)
    confidence = np.array([0.0]), np.array([1])
    told = []
    for _ in range(60):
        logits = torch.from_numpy(rng.normal(0, 1, (1, 3)))
        u = rng.uniform(size=6)

        def may(u: Any, split: dict[int, int], logits: torch.Tensor = logits) -> bool:
            return may_split(logits, decoding, u, split, confidence, 0.4)

        one = [{t for t in range(3) if may(u[i : i + 1], {t: 1})} for i in range(6)]
        ways = {tuple(way.count(t) for t in range(3)) for way in itertools.product(*one)}
        for counts in itertools.product(range(7), repeat=3):
            if sum(counts) == 6:
                split = {t: n for t, n in enumerate(counts) if n}
                allowed = may(u, split)
                assert allowed == (counts in ways)
                told.append(allowed)
    assert {True, False} == set(told)


def test_a_nucleus_wider_than_is_looked_at_first_is_told() -> None:
    flat, u = torch.zeros(1, 300, dtype=torch.float64), np.array([0.1, 0.8])
    confidence, decoding = (np.array([0.0]), np.array([1])), Decoding(top_p=0.9)
    one, other = pick(flat, decoding, np.zeros(2, dtype=np.int64), u, confidence).tokens.tolist()
    assert may_split(flat, decoding, u, {one: 1, other: 1}, confidence, 0.0)
    assert not may_split(flat, decoding, u, {one: 1, 299: 1}, confidence, 0.0)


def test_what_no_uniform_picks_is_refused_at_the_very_edge() -> None:
    """A token of no mass, and the first one that truncation leaves out."""
    confidence = np.array([0.0]), np.array([1])
    whole = torch.tensor([[0.0, -math.inf, 0.0]])
    assert not may_split(whole, Decoding(), np.array([0.5]), {1: 1}, confidence, 0.0)
    assert may_split(whole, Decoding(), np.array([0.5]), {2: 1}, confidence, 0.0)
    kept = torch.tensor([[2.0, 1.0, 0.0]])
    last = np.array([1 - 2.0**-53])
    assert not may_split(kept, Decoding(top_k=2), last, {2: 1}, confidence, 0.0)
    assert may_split(kept, Decoding(top_k=2), last, {1: 1}, confidence, 0.0)


def test_where_the_switch_of_adaptive_temperature_is_in_doubt_either_step_is_allowed() -> None:
    """Its mean confidence lies within the margin of the threshold, on either side of it."""
    logits = torch.tensor([[1.0, 0.0]])
    p_max = 1 / (1 + math.exp(-1))
    u = np.array([0.1, 0.9])
    confidence = np.array([0.0]), np.array([1])
    for nudge in (-1e-4, 1e-4):
        decoding = Decoding(adaptive_temperature=p_max + nudge)
        for split in ({0: 2}, {0: 1, 1: 1}):
            assert may_split(logits, decoding, u, split, confidence, 0.01)
        greedy = may_split(logits, decoding, u, {0: 2}, confidence, 0.0)
        assert greedy == (nudge < 0)
        assert may_split(logits, decoding, u, {0: 1, 1: 1}, confidence, 0.0) != greedy
