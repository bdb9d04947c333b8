"""Searches for rare leaks against exact enumeration: nothing too much, and all there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from leakbound.sampling import Root, Settle, TableModel
from leakbound.sampling.prove import Proof, Prover
from leakbound.sampling.search import SearchTree
from leakbound.types import Decoding
from sampling_tables import (
    DECODINGS,
    EOS,
    LEAK,
    ROOTS,
    VOCAB,
    Ids,
    enumerate_law,
    keyword,
    perturbed,
    probabilities,
    table,
    unsettled,
)

PLAIN = Decoding(max_new_tokens=4)


def share(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """The share of four tokens that leaks: graded, and known from below."""
    return [
        (low := ids.count(LEAK) / 4, low if ended else min(low + (4 - len(ids)) / 4, 1.0))
        for ids, ended in items
    ]


def leaking(decoding: Decoding, root: Root) -> list[Ids]:
    return sorted(ids for ids in enumerate_law(decoding, root.token_ids) if LEAK in ids)


def prove(
    forwards: int = 10_000,
    decoding: Decoding = PLAIN,
    *,
    settle: Settle = keyword,
    leads: Sequence[Sequence[Ids]] | None = None,
    model: TableModel | None = None,
    margin: float = 0.0,
    rows: int = 8,
    roots: Sequence[Root] = ROOTS,
) -> list[Proof]:
    model = model or table()
    tree = SearchTree(model, decoding, settle, margin, rows)
    if leads is None:
        leads = [leaking(decoding, root)[:3] for root in roots]
    found = list(Prover(tree, forwards).prove(roots, leads))
    assert model.held == 0
    assert tree.usage.forwards == sum(one.forwards for one in found)
    assert [one.root for one in found] == list(range(len(roots)))
    assert all(one.forwards <= forwards for one in found)
    return found


def require_antichain(proof: Proof) -> None:
    paths = sorted(node.token_ids for node in proof.nodes)
    for one, other in pairwise(paths):
        assert other[: len(one)] != one


def under(law: dict[Ids, float], proof: Proof, value: Settle) -> list[tuple[float, float]]:
    """Of each node the true mass of its outputs, and the smallest of their scores."""
    found = []
    for node in proof.nodes:
        inside = {ids: p for ids, p in law.items() if ids[: len(node.token_ids)] == node.token_ids}
        scores = [value(0, [(ids, True)])[0][0] for ids in inside]
        found.append((sum(inside.values()), min(scores)))
    return found


@pytest.mark.parametrize("leads", [None, [[]] * len(ROOTS)], ids=["led", "without a lead"])
@pytest.mark.parametrize("settle", [keyword, unsettled, share])
@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_with_forwards_enough_all_leaking_mass_is_found(
    decoding: Decoding, settle: Settle, leads: Sequence[Sequence[Ids]] | None
) -> None:
    found_all = prove(decoding=decoding, settle=settle, leads=leads)
    for proof, root in zip(found_all, ROOTS, strict=True):
        law = enumerate_law(decoding, root.token_ids)
        require_antichain(proof)
        for node, (mass, low) in zip(proof.nodes, under(law, proof, settle), strict=True):
            assert math.exp(node.logprob) == pytest.approx(mass, rel=1e-9)
            assert 0 < node.low <= low
        truth = sum(p * settle(0, [(ids, True)])[0][0] for ids, p in law.items())
        if leaking(decoding, root):
            found = sum(math.exp(node.floor) * node.low for node in proof.nodes)
            assert found == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("forwards", [1, 2, 3, 5, 9, 20])
@pytest.mark.parametrize("rows", [1, 8])
def test_a_small_effort_proves_less_and_never_too_much(forwards: int, rows: int) -> None:
    few, more = prove(forwards, rows=rows), prove(forwards + 10, rows=rows)
    for one, other, root in zip(few, more, ROOTS, strict=True):
        law = enumerate_law(PLAIN, root.token_ids)
        require_antichain(one)
        found = [sum(math.exp(node.floor) for node in proof.nodes) for proof in (one, other)]
        truth = sum(p for ids, p in law.items() if LEAK in ids)
        assert found[0] <= found[1] + 1e-12
        assert found[1] <= truth + 1e-12


def test_a_lead_is_followed_to_where_it_leaks_and_counts_what_goes_on_from_there() -> None:
    """One forward, and all outputs that begin with what leaks are one node."""
    root = ROOTS[0]
    lead = next(ids for ids in leaking(PLAIN, root) if ids.index(LEAK) == 1)
    (proof,) = prove(1, leads=[[lead]], roots=[root])
    law = enumerate_law(PLAIN, root.token_ids)
    known = {node.token_ids: math.exp(node.floor) for node in proof.nodes}
    assert known[lead[:2]] == pytest.approx(sum(p for ids, p in law.items() if ids[:2] == lead[:2]))
    assert proof.forwards == 1


def test_leads_that_are_no_leaking_outputs_are_passed_over() -> None:
    root = ROOTS[0]
    clean = next(ids for ids in enumerate_law(PLAIN, root.token_ids) if LEAK not in ids)
    endless, over, empty = (LEAK, 0), (LEAK, EOS, 1, EOS), ()
    (with_these,) = prove(6, leads=[[clean, endless, over, empty]], roots=[root])
    (without,) = prove(6, leads=[[]], roots=[root])
    assert with_these == without


def test_a_prefix_that_strays_from_a_lead_and_may_come_back_goes_before_hopeless_ones() -> None:
    """1 and 2 leak together, and 0 spoils it: 1 3 4 5 2 is found before what begins with 0."""

    def p(prefix: Ids) -> Sequence[float]:
        path = prefix[1:]
        after: dict[Ids, dict[int, float]] = {(): {0: 0.8, 1: 0.2}, (1,): {2: 0.5, 3: 0.5}}
        after |= {(1, 3): {4: 1.0}, (1, 3, 4): {5: 1.0}, (1, 3, 4, 5): {2: 1.0}}
        spoilt = dict.fromkeys((0, 3, 4, 5), 0.25)
        law = spoilt if path[:1] == (0,) else after.get(path, {EOS: 1.0})
        return [law.get(token, 0.0) for token in range(VOCAB)]

    def settle(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
        leaks = [float({1, 2} <= {*ids} and 0 not in ids) for ids, _ in items]
        return [(x, x) if end else (0.0, 1.0) for x, (_, end) in zip(leaks, items, strict=True)]

    decoding, given = Decoding(max_new_tokens=8), {"leads": [[(1, 2, EOS)]], "roots": ROOTS[:1]}
    (proof,) = prove(8, decoding, settle=settle, model=table(p), rows=1, **given)
    assert {node.token_ids for node in proof.nodes} == {(1, 2, EOS), (1, 3, 4, 5, 2, EOS)}
    assert sum(math.exp(node.floor) for node in proof.nodes) == pytest.approx(0.2)


@pytest.mark.parametrize("kind", range(4))
def test_floors_hold_for_all_logits_within_the_margin(kind: int) -> None:
    """A token's log-probability moves by at most the margin, so no mass is below its floor."""
    half = 0.05
    moved = perturbed(probabilities, half, kind)
    for proof, root in zip(prove(margin=2 * half), ROOTS, strict=True):
        law = enumerate_law(PLAIN, root.token_ids, moved)
        for node, (mass, _) in zip(proof.nodes, under(law, proof, keyword), strict=True):
            assert math.exp(node.floor) <= mass + 1e-12
            assert node.floor < node.logprob


def test_a_model_that_breaks_proves_nothing() -> None:
    def broken(prefix: Ids) -> Sequence[float]:
        p = probabilities(prefix)
        return p if len(prefix) < 3 else [math.nan] * VOCAB

    for proof in prove(model=table(broken), leads=[leaking(PLAIN, root) for root in ROOTS]):
        assert proof.broken_at is not None
        assert proof.nodes == ()


def random_case(seed: int) -> tuple[float, float]:
    """What is proved of a random tree, and the truth: laws, leaks, leads, effort at random."""
    rng = np.random.default_rng([7, seed])
    words, longest = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    sharp, rare = float(rng.choice([0.1, 0.5, 2.0])), float(rng.choice([0.05, 0.3, 0.6]))

    def p(prefix: Ids) -> Sequence[float]:
        own = np.random.default_rng([seed, len(prefix), *prefix])
        law = own.dirichlet(np.full(words, sharp))
        return tuple((law / law.sum()).tolist())

    def score(ids: Ids) -> float:
        return float(np.random.default_rng([seed, 5, *ids]).random() < rare)

    def settle(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
        return [(score(ids),) * 2 if ended else (0.0, 1.0) for ids, ended in items]

    decoding = Decoding(max_new_tokens=longest, top_k=(words - 1) * (seed % 2), temperature=1.3)
    law = enumerate_law(decoding, (0,), p, eos=0)
    leaks = [ids for ids in law if score(ids)]
    rng.shuffle(leaks)
    leads = [tuple(ids) for ids in leaks[: int(rng.integers(0, 4))]]
    model = TableModel(p, vocab_size=words, eos_token_ids=[0])
    tree = SearchTree(model, decoding, settle, 0.0, rows=4)
    prover = Prover(tree, int(rng.integers(1, 40)))
    (proof,) = prover.prove([Root("q", (0,))], [leads])
    require_antichain(proof)
    return (
        sum(math.exp(node.floor) * node.low for node in proof.nodes),
        sum(law[tuple(ids)] for ids in leaks),
    )


@pytest.mark.parametrize("first", [0, pytest.param(250, marks=pytest.mark.slow)])
def test_no_proof_is_above_the_truth_of_random_trees(first: int) -> None:
    found = [random_case(seed) for seed in range(first, 250 if not first else 10_000)]
    assert all(proved <= truth + 1e-9 for proved, truth in found)
    assert sum(proved > 0.5 * truth for proved, truth in found if truth) > 0.3 * len(found)
