"""Explored trees and searches for rare leaks against exact enumeration.

Checks masses, the remainder and its draws, and that leak masses are never too large and complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from leakbound.sampling import Explorer, Forest, OutputTree, Root, Settle, TableModel, Tree, philox
from leakbound.sampling import explore as explore_module
from leakbound.sampling.explore import Exploring, certain_mass, plant, split
from leakbound.sampling.prove import prove as prove_roots
from leakbound.sampling.search import forward
from leakbound.types import Decoding, Draws, Effort
from sampling_tables import (
    DECODINGS,
    EOS,
    LEAK,
    ROOTS,
    VOCAB,
    Ids,
    breaking,
    enumerate_law,
    keyword,
    mass_of,
    perturbed,
    probabilities,
    says_12,
    stops_12,
    table,
    unsettled,
)
from suites import require_fit

PLAIN = Decoding(max_new_tokens=4)
STOPPED = replace(PLAIN, stop=("12",))


def ends_of(decoding: Decoding) -> Callable[[Ids], bool]:
    return says_12 if decoding.stop else lambda ids: False


def explore(
    mode: str,
    forwards: int,
    decoding: Decoding = PLAIN,
    *,
    settle: Settle = unsettled,
    margin: float = 0.0,
    seed: int = 0,
    rows: int = 8,
    model: TableModel | None = None,
    roots: Sequence[Root] = ROOTS,
) -> list[Tree]:
    model = model or table()
    effort = Effort(mode=mode, forwards=forwards, seed=seed)  # type: ignore[arg-type]
    tree = OutputTree(model, decoding, margin, rows, ended=stops_12)
    got = list(Explorer(tree, settle, effort).explore(roots))
    assert model.live == 0
    broken = any(each.broken_at is not None for each in got)
    assert broken or tree.usage.forwards == sum(each.forwards for each in got)
    assert [each.root for each in got] == list(range(len(roots)))
    return got


@pytest.fixture
def few_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only two tokens of a prefix be children; all others form lumps of weight."""
    monkeypatch.setattr(explore_module, "CHILDREN", 2)


@pytest.mark.parametrize("decoding", [*DECODINGS, STOPPED], ids=lambda d: f"{d.name} {d.stop}")
@pytest.mark.parametrize(("mode", "forwards"), [("exact", 12), ("exact", 500), ("hybrid", 40)])
def test_masses_are_exact_and_add_up(decoding: Decoding, mode: str, forwards: int) -> None:
    reasons = set()
    for each in explore(mode, forwards, decoding, settle=keyword, roots=ROOTS[:3]):
        law = enumerate_law(decoding, ROOTS[each.root].token_ids, ended=ends_of(decoding))
        for node in each.nodes:
            assert math.isclose(math.exp(node.logprob), mass_of(law, node.token_ids), abs_tol=1e-12)
            assert node.floor == node.logprob
            assert node.ended == (node.token_ids in law)
            assert (node.finish == "stop_string") == ends_of(decoding)(node.token_ids)
            reasons.add(node.finish)
            assert (node.low, node.high) == keyword(0, [(node.token_ids, node.ended)])[0]
        require_antichain(each)
        total = math.fsum(math.exp(node.floor) for node in each.nodes) + each.remainder
        assert math.isclose(total, 1, abs_tol=1e-12)  # no token is rare enough for a lump
        assert (each.remainder > 0) == bool(each.leaves)
        assert each.explored <= forwards
    assert reasons >= {"stop", *(["stop_string"] if decoding.stop else [])}


@pytest.mark.usefixtures("few_children")
def test_lumps_are_what_the_nodes_leave() -> None:
    for each in explore("exact", 60):
        model = table()
        left = 0.0
        opened = {node.token_ids[:d] for node in each.nodes for d in range(len(node.token_ids))}
        for prefix in opened:
            p = sorted(model.probabilities(ROOTS[each.root].token_ids + prefix))
            law = enumerate_law(PLAIN, ROOTS[each.root].token_ids)
            left += mass_of(law, prefix) * sum(p[:-2])
        total = math.fsum(math.exp(node.logprob) for node in each.nodes)
        assert math.isclose(total, 1 - left, abs_tol=1e-12)
    for each in explore("hybrid", 60):
        total = math.fsum(math.exp(node.logprob) for node in each.nodes) + each.remainder
        assert math.isclose(total, 1, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("decoding", "margin"), [*((d, 0.05) for d in DECODINGS), (PLAIN, 1e-4), (DECODINGS[4], 1e-4)]
)
@pytest.mark.usefixtures("few_children")
def test_floors_hold_for_all_logits_in_the_margin(decoding: Decoding, margin: float) -> None:
    exact = explore("exact", 60, decoding, margin=margin, roots=ROOTS[:3])
    hybrid = explore("hybrid", 40, decoding, margin=margin, roots=ROOTS[:3])
    for kind in range(3):
        moved = perturbed(probabilities, margin / 2, kind)
        for got in (exact, hybrid):
            for each in got:
                law = enumerate_law(decoding, ROOTS[each.root].token_ids, moved)
                seen = 0.0
                for node in each.nodes:
                    mass = mass_of(law, node.token_ids)
                    assert math.exp(node.floor) <= mass + 1e-12
                    seen += mass
                assert each.remainder <= 1 - seen + 1e-12
    assert any(node.floor > -math.inf for each in exact for node in each.nodes)
    assert any(each.remainder > 0 for each in hybrid)


def grown(
    model: TableModel, root: Root, forwards: int, decoding: Decoding = PLAIN, margin: float = 0.0
) -> Exploring:
    """Explore this number of prefixes one after the other."""
    tree = OutputTree(model, decoding, margin, rows=1)
    search = Explorer(tree, unsettled, Effort(mode="auto", forwards=100)).begin(0, root)
    for _ in range(forwards):
        forward(tree, [(search, prefix) for prefix in search.next_batch(1)], split)
    search.settle_all()
    return search


def closed(search: Exploring) -> set[Ids]:
    return {node.token_ids for node in search.nodes}


@pytest.mark.usefixtures("few_children")
def test_the_remainder_is_certain_but_for_the_margin() -> None:
    model, margin = table(), 0.01
    for root in ROOTS:
        search = grown(model, root, 0, margin=margin)
        law = enumerate_law(PLAIN, root.token_ids)
        left = sum(p for ids, p in law.items() if ids not in closed(search))
        assert math.isclose(certain_mass(search), left * math.exp(-margin), abs_tol=1e-12)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
@pytest.mark.parametrize("batches", [0, 6])
@pytest.mark.usefixtures("few_children")
@pytest.mark.thorough
def test_draws_follow_the_distribution_without_the_events(decoding: Decoding, batches: int) -> None:
    n = 20_000
    for root in ROOTS[1:3]:
        model = table()
        search = grown(model, root, batches, decoding)
        kept, draws = model.live, Draws(sizes=(n,), seed=3)
        starts = plant(search, decoding, draws, 0.0)
        got = []
        for rows in (1000, 3):
            forest = Forest(OutputTree(model, decoding, rows=rows), draws)
            (tree,) = forest.sample([Root(root.query_id, root.token_ids, starts)])
            got.append(tree)
            assert model.live == kept
        assert got[0] == got[1]
        law = enumerate_law(decoding, root.token_ids)
        rest = {k: p for k, p in law.items() if k not in closed(search)}
        remainder = sum(rest.values())
        assert math.isclose(certain_mass(search), remainder, abs_tol=1e-12)
        assert sum(leaf.counts[0] for leaf in tree.leaves) == n
        require_fit({leaf.token_ids: leaf.counts[0] for leaf in tree.leaves}, rest)
        for leaf in tree.leaves:
            assert math.isclose(leaf.logprob, math.log(law[leaf.token_ids]), abs_tol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("few_children")
@pytest.mark.parametrize("mode", ["hybrid", "auto"])
def test_masses_and_draws_together_are_unbiased(mode: str) -> None:
    truth = [
        sum(p for k, p in enumerate_law(PLAIN, root.token_ids).items() if LEAK in k)
        for root in ROOTS
    ]
    runs = []
    for seed in range(60):
        row = []
        for each in explore(mode, 24, seed=seed):
            value = math.fsum(math.exp(node.logprob) * node.low for node in each.nodes)
            n = sum(leaf.counts[0] for leaf in each.leaves)
            hits = sum(leaf.counts[0] for leaf in each.leaves if LEAK in leaf.token_ids)
            assert n, "this effort leaves a remainder to draw from"
            row.append(value + each.remainder * hits / n)
        runs.append(row)
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0) / math.sqrt(len(runs))
    assert (np.abs(mean - truth) < 4 * error + 1e-12).all()


def test_an_exact_effort_is_never_exceeded() -> None:
    """Also for an effort that cannot pay for a single draw."""
    got = [(n, each) for n in (1, 5, 30) for each in explore("exact", n)]
    got += [(15, each) for each in explore("hybrid", 15, Decoding(max_new_tokens=16))]
    for forwards, each in got:
        assert each.explored == each.forwards == forwards
        assert each.leaves == ()


def test_exploration_is_best_first() -> None:
    for each in explore("exact", 10, rows=1):
        law = enumerate_law(PLAIN, ROOTS[each.root].token_ids)
        opened = {n.token_ids[:d] for n in each.nodes for d in range(1, len(n.token_ids))}
        least = min(mass_of(law, prefix) for prefix in opened)
        assert all(math.exp(n.logprob) <= least + 1e-12 for n in each.nodes if not n.ended)


def long(prefix: Ids) -> list[float]:
    """Outputs of about eight tokens; half of the mass is spread at every step."""
    rng = np.random.default_rng([7, *prefix])
    p = 0.5 * rng.dirichlet(np.full(VOCAB, 0.5))
    p[rng.integers(VOCAB - 1)] += 0.38
    p[EOS] += 0.12
    return list(p)


@pytest.mark.thorough
def test_the_total_comes_out_near_the_effort() -> None:
    decoding = Decoding(max_new_tokens=20)
    for mode in ("hybrid", "auto"):
        got = [explore(mode, 600, decoding, model=table(long), seed=seed) for seed in range(2)]
        spent = [each.forwards / 600 for some in got for each in some]
        assert 0.75 < np.median(spent) < 1.3
        assert np.mean([0.6 < each < 1.6 for each in spent]) > 0.7


def test_a_hybrid_explores_at_least_a_quarter() -> None:
    decoding = Decoding(max_new_tokens=20)
    for each in explore("hybrid", 400, decoding, model=table(long), roots=ROOTS[:2]):
        assert each.explored >= 100
        assert sum(leaf.counts[0] for leaf in each.leaves) > 10
        assert each.explored < each.forwards


def test_auto_explores_little_of_a_diffuse_distribution() -> None:
    def diffuse(prefix: Ids) -> list[float]:
        return [0.16, 0.16, 0.16, 0, 0.16, 0.16, 0.2]

    longer = Decoding(max_new_tokens=20)
    for each in explore("auto", 400, longer, model=table(diffuse), roots=ROOTS[:1]):
        assert each.explored < 100
        assert sum(leaf.counts[0] for leaf in each.leaves) > 30


@pytest.mark.parametrize("mode", ["hybrid", "auto"])
def test_a_tree_that_is_known_whole_has_no_draws(mode: str) -> None:
    for each in explore(mode, 10_000):
        assert (each.leaves, each.remainder) == ((), 0.0)
        assert {n.token_ids for n in each.nodes} == set(
            enumerate_law(PLAIN, ROOTS[each.root].token_ids)
        )


def test_settled_prefixes_are_events_next_to_draws() -> None:
    got = explore("hybrid", 40, settle=keyword)
    assert any(each.leaves for each in got)
    for each in got:
        events = {node.token_ids for node in each.nodes}
        assert any(not node.ended for node in each.nodes)
        assert all(node.ended or node.token_ids[-1] == LEAK for node in each.nodes)
        for leaf in each.leaves:
            assert not events & {leaf.token_ids[: d + 1] for d in range(len(leaf.token_ids))}


def test_what_is_explored_of_a_root_depends_on_no_other() -> None:
    together = explore("hybrid", 40, seed=1)
    for i, root in enumerate(ROOTS):
        (alone,) = explore("hybrid", 40, seed=1, roots=[root])
        assert alone.nodes == together[i].nodes
        assert alone.leaves == together[i].leaves


def test_pilots_choices_and_draws_share_no_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, int, int, int]] = []
    original: Callable[..., np.ndarray] = philox.uniforms
    names: dict[tuple[int, ...], tuple[str, int]] = {}
    key_of = philox.stream_key

    def stream_key(seed: int, purpose: str, query_id: str, chunk: int) -> tuple[int, int]:
        key = key_of(seed, purpose, query_id, chunk)
        names[key] = (purpose, chunk)
        return key

    def uniforms(key: tuple, prefix: tuple, counts: np.ndarray) -> np.ndarray:
        for i in range(len(counts)):
            at = tuple(int(np.broadcast_to(word, len(counts))[i]) for word in key)
            used.append((*names[at], int(prefix[0][i]), int(prefix[1][i])))
        return original(key, prefix, counts)

    monkeypatch.setattr(explore_module, "CHILDREN", 2)
    monkeypatch.setattr(philox, "stream_key", stream_key)
    monkeypatch.setattr(philox, "uniforms", uniforms)
    (each,) = explore("hybrid", 40, roots=ROOTS[:1])
    assert each.leaves
    assert len(set(used)) == len(used)
    purposes = {purpose for purpose, *_ in used}
    assert {"remainder", "remainder:lump", "remainder:pilot"} <= purposes


@pytest.mark.parametrize("decoding", [PLAIN, STOPPED], ids=["no stop string", "a stop string"])
@pytest.mark.parametrize("mode", ["exact", "hybrid"])
def test_broken_logits_fail_only_their_root(decoding: Decoding, mode: str) -> None:
    want = explore(mode, 30, decoding, roots=ROOTS[:4])
    for depth in (0, 2):
        model = breaking(lambda p, longest=1 + depth: p[:1] == (2,) and len(p) == longest)
        got = explore(mode, 30, decoding, model=model, roots=ROOTS[:4])
        broken = got.pop(2)
        assert len(broken.broken_at) == depth
        assert (broken.nodes, broken.leaves, broken.remainder) == ((), (), 0.0)
        assert got == [each for each in want if each.root != 2]


def share(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Return bounds on the fraction of four tokens that leak: a graded score of a prefix."""
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
) -> list[Tree]:
    model = model or table()
    tree = OutputTree(model, decoding, margin, rows)
    if leads is None:
        leads = [leaking(decoding, root)[:3] for root in roots]
    got = list(prove_roots(tree, settle, forwards, roots, leads))
    assert model.live == 0
    assert tree.usage.forwards == sum(one.forwards for one in got)
    assert [one.root for one in got] == list(range(len(roots)))
    assert all(one.forwards <= forwards for one in got)
    return got


def require_antichain(proof: Tree) -> None:
    paths = sorted(node.token_ids for node in proof.nodes)
    for one, other in pairwise(paths):
        assert other[: len(one)] != one


def under(law: dict[Ids, float], proof: Tree, value: Settle) -> list[tuple[float, float]]:
    """Return the true mass of each node's outputs, and the smallest of their scores."""
    got = []
    for node in proof.nodes:
        inside = {ids: p for ids, p in law.items() if ids[: len(node.token_ids)] == node.token_ids}
        scores = [value(0, [(ids, True)])[0][0] for ids in inside]
        got.append((sum(inside.values()), min(scores)))
    return got


@pytest.mark.parametrize("leads", [None, [[]] * 3], ids=["led", "without a lead"])
@pytest.mark.parametrize("settle", [keyword, unsettled, share])
@pytest.mark.parametrize("decoding", [PLAIN, *DECODINGS[4:]], ids=lambda d: d.name)
def test_enough_forwards_find_all_leaking_mass(
    decoding: Decoding, settle: Settle, leads: Sequence[Sequence[Ids]] | None
) -> None:
    proofs = prove(decoding=decoding, settle=settle, leads=leads, roots=ROOTS[:3])
    for proof, root in zip(proofs, ROOTS, strict=False):
        law = enumerate_law(decoding, root.token_ids)
        require_antichain(proof)
        for node, (mass, low) in zip(proof.nodes, under(law, proof, settle), strict=True):
            assert math.exp(node.logprob) == pytest.approx(mass, rel=1e-9)
            assert 0 < node.low <= low
        truth = sum(p * settle(0, [(ids, True)])[0][0] for ids, p in law.items())
        if leaking(decoding, root):
            got = sum(math.exp(node.floor) * node.low for node in proof.nodes)
            assert got == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("forwards", [1, 3, 9, 20])
@pytest.mark.parametrize("rows", [1, 8])
def test_a_small_effort_proves_less_and_never_too_much(forwards: int, rows: int) -> None:
    few, more = prove(forwards, rows=rows), prove(forwards + 10, rows=rows)
    for one, other, root in zip(few, more, ROOTS, strict=True):
        law = enumerate_law(PLAIN, root.token_ids)
        require_antichain(one)
        got = [sum(math.exp(node.floor) for node in proof.nodes) for proof in (one, other)]
        truth = sum(p for ids, p in law.items() if LEAK in ids)
        assert got[0] <= got[1] + 1e-12
        assert got[1] <= truth + 1e-12


def test_partial_leaks_count_when_the_search_ends() -> None:
    """After one forward, everything that begins with a leak leaks by at least a quarter."""
    leads = [[(0, LEAK, EOS)]] * len(ROOTS)
    for proof, root in zip(prove(1, settle=share, leads=leads), ROOTS, strict=True):
        begun = any(node.token_ids[0] == LEAK for node in proof.nodes)
        assert begun == (probabilities(root.token_ids)[LEAK] > 0)


def test_a_lead_counts_all_outputs_that_begin_with_its_leak() -> None:
    """After one forward, all outputs that begin with a leak are one node."""
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


def test_a_prefix_that_may_return_to_a_lead_goes_first() -> None:
    """1 and 2 leak together, and 0 undoes it: 1 3 4 5 2 comes before outputs that start with 0."""

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


def test_a_possible_completion_is_scored_as_an_output() -> None:
    """The search scores a lead's last tokens after another prefix as a complete output."""
    wanted: list[tuple[Ids, object]] = []

    def settle(number: int, items: Sequence[tuple[Ids, Any]]) -> list[tuple[float, float]]:
        wanted.extend(items)
        return keyword(number, items)

    prove(settle=settle)
    whole = [finish for ids, finish in wanted if len(ids) >= PLAIN.max_new_tokens or EOS in ids]
    assert len(whole) > 100
    assert None not in whole


def test_a_model_that_breaks_proves_nothing() -> None:
    model, leads = breaking(lambda prefix: len(prefix) >= 3), [leaking(PLAIN, r) for r in ROOTS]
    for proof in prove(model=model, leads=leads):
        assert proof.broken_at is not None
        assert proof.nodes == ()


def random_case(seed: int) -> tuple[float, float]:
    """Search a random tree and return the bounds and the truth."""
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
    tree, forwards = OutputTree(model, decoding, 0.0, rows=4), int(rng.integers(1, 40))
    (proof,) = prove_roots(tree, settle, forwards, [Root("q", (0,))], [leads])
    require_antichain(proof)
    return (
        sum(math.exp(node.floor) * node.low for node in proof.nodes),
        sum(law[tuple(ids)] for ids in leaks),
    )


@pytest.mark.parametrize("first", [0, pytest.param(60, marks=pytest.mark.slow)])
def test_no_proof_is_above_the_truth_of_random_trees(first: int) -> None:
    got = [random_case(seed) for seed in range(first, 10_000 if first else 60)]
    assert all(proved <= truth + 1e-9 for proved, truth in got)
    assert sum(proved > 0.5 * truth for proved, truth in got if truth) > 0.3 * len(got)
