"""The forest against exact enumeration, and stored outputs against the draws of their keys.

Covers every row budget and a model that fails; stored outputs may differ by rounding only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from leakbound.errors import InputError
from leakbound.sampling import Forest, OutputTree, Root, TableModel, Tree
from leakbound.sampling.distribution import next_distribution, pick
from leakbound.sampling.frontier import Paths
from leakbound.sampling.model import Handles
from leakbound.sampling.retrace import Retraced, Retracer, StoredOutputs, may_split
from leakbound.sampling.stems import Stem
from leakbound.types import Decoding, Draws
from sampling_tables import (
    DECODINGS,
    EOS,
    ROOTS,
    VOCAB,
    Ids,
    Table,
    breaking,
    enumerate_law,
    perturbed,
    probabilities,
    table,
)
from suites import require_fit


def grow(
    decoding: Decoding,
    draws: Draws,
    roots: Sequence[Root] = ROOTS,
    rows: int = 1000,
    model: TableModel | None = None,
) -> dict[int, Tree]:
    model = model or table()
    tree = OutputTree(model, decoding, rows=rows)
    trees = {t.root: t for t in Forest(tree, draws).sample(roots)}
    assert model.live == 0
    return trees


@pytest.mark.parametrize(
    "decoding",
    [pytest.param(d, marks=[pytest.mark.thorough] * (d is not DECODINGS[-1])) for d in DECODINGS],
    ids=lambda d: d.name,
)
def test_counts_follow_the_exact_distribution(decoding: Decoding) -> None:
    n = 20_000
    for tree in grow(decoding, Draws(sizes=(n,), seed=11)).values():
        law = enumerate_law(decoding, ROOTS[tree.root].token_ids)
        assert math.isclose(sum(law.values()), 1, abs_tol=1e-9)
        counts = {leaf.token_ids: sum(leaf.counts) for leaf in tree.leaves}
        assert sum(counts.values()) == n
        require_fit(counts, law)
        for leaf in tree.leaves:
            assert math.isclose(leaf.logprob, math.log(law[leaf.token_ids]), abs_tol=1e-9)


def test_draws_of_one_query_are_independent() -> None:
    """Chunks are counted separately; between chunks, counts vary as a multinomial's do."""
    chunks, size = 400, 25
    (tree,) = grow(
        Decoding(max_new_tokens=3), Draws(sizes=(size,) * chunks, seed=3), ROOTS[:1]
    ).values()
    counts = np.array([leaf.counts for leaf in tree.leaves])
    assert (counts.sum(axis=0) == size).all()
    p = counts.sum(axis=1) / (chunks * size)
    big = p > 0.05
    ratio = counts[big].var(axis=1) / (size * p[big] * (1 - p[big]))
    assert (np.abs(ratio - 1) < 0.3).all()


@pytest.mark.parametrize("decoding", [DECODINGS[0], *DECODINGS[4:]], ids=lambda d: d.name)
def test_draws_depend_on_no_row_budget_and_on_no_other_query(decoding: Decoding) -> None:
    draws = Draws(sizes=(30, 20), first_chunk=3, seed=5)
    want = grow(decoding, draws)
    for rows in (1, 7):
        assert grow(decoding, draws, rows=rows) == want
    for i, root in enumerate(ROOTS):
        (alone,) = grow(decoding, draws, [root]).values()
        assert alone.leaves == want[i].leaves


def test_queries_with_one_prompt_share_only_a_tree() -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(30, 20), first_chunk=2, seed=4)
    roots = [Root(f"{root.query_id}/{i}", root.token_ids) for i in range(3) for root in ROOTS]
    roots = roots[: len(ROOTS) + 2]  # trees of two queries and of one
    apart = [grow(decoding, draws, [root])[0].leaves for root in roots]
    for rows in (1000, 3):
        together = grow(decoding, draws, roots, rows)
        assert [together[i].leaves for i in range(len(roots))] == apart
    assert apart[0] != apart[len(ROOTS)]

    alone, shared = (Forest(OutputTree(table(), decoding), draws) for _ in range(2))
    list(alone.sample(roots[:1]))
    list(shared.sample([roots[0], roots[len(ROOTS)]]))
    assert shared.usage.prompt_tokens == alone.usage.prompt_tokens
    assert shared.usage.forwards < 1.5 * alone.usage.forwards
    assert shared.usage.draws == 2 * alone.usage.draws


def test_one_forward_per_distinct_prefix() -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(500,))
    forest = Forest(OutputTree(table(), decoding), draws)
    trees = list(forest.sample(ROOTS))
    inner = {
        (tree.root, leaf.token_ids[:depth])
        for tree in trees
        for leaf in tree.leaves
        for depth in range(1, len(leaf.token_ids))
    }
    assert forest.usage.forwards == len(inner)
    drawn = sum(sum(leaf.counts) * len(leaf.token_ids) for t in trees for leaf in t.leaves)
    assert forest.usage.sampled_tokens == drawn
    assert forest.usage.prompt_tokens == len(ROOTS)


@pytest.mark.parametrize("budget", [0, 60])
def test_open_prefixes_stay_within_the_budget(budget: int) -> None:
    class Watched(TableModel):
        most = 0

        def _add(self, prefix: tuple[int, ...]) -> int:
            handle = super()._add(prefix)
            self.most = max(self.most, self.live)
            return handle

    def flat(prefix: tuple[int, ...]) -> list[float]:
        return [1 / VOCAB] * VOCAB

    model = Watched(flat, vocab_size=VOCAB)
    forest = Forest(
        OutputTree(model, Decoding(max_new_tokens=4), rows=10), Draws(sizes=(40,)), live=budget
    )
    assert len(list(forest.sample(ROOTS))) == len(ROOTS)
    assert model.most <= max(10, budget) + 2 * 40


@pytest.mark.parametrize("law", [probabilities, lambda _: [*[0.0] * EOS, 1.0]])
def test_prompts_are_read_one_by_one_where_the_model_is_full(law: Table) -> None:
    class Full(TableModel):
        idle, full = 0, property(lambda _: True)  # number of handles open while others were read

        def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
            self.idle += self.live + len(prompts) - 1
            return super().prefill(prompts)

    plain, model = (kind(law, vocab_size=VOCAB, eos_token_ids=[EOS]) for kind in (TableModel, Full))
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(40,))
    assert grow(decoding, draws, model=model) == grow(decoding, draws, model=plain)
    assert model.idle == 0


READS = {(1, 100): [7], (1, 3): [3, 3, 1], (40, 100): [3, 4], (40, 12): [1, 2, 1, 2, 1]}


@pytest.mark.parametrize(("n", "rows"), READS)
def test_prompts_are_read_together_while_their_rows_fit(n: int, rows: int) -> None:
    class Noting(TableModel):
        def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
            read.append(len(prompts))
            return super().prefill(prompts)

    read, roots = list[int](), [Root(f"q{i}", (i, 1, 2)) for i in range(7)]
    model = Noting(probabilities, vocab_size=VOCAB, eos_token_ids=[EOS])
    draws, decoding = Draws(sizes=(n,)), Decoding(max_new_tokens=4)
    grow(decoding, draws, roots, rows, model)
    assert read == READS[n, rows]


def test_roots_with_starts_have_separate_trees() -> None:
    model, prompt = table(), ROOTS[0].token_ids
    (handle,), logits = model.prefill([prompt])
    law = next_distribution(logits, Decoding(), (np.zeros(1), np.ones(1, np.int64)), 0.0)
    first = np.flatnonzero(law.logprob[0] > -math.inf)
    sums = law.at(np.zeros_like(first), first).T.tolist()
    pairs = zip(first.tolist(), sums, strict=True)
    starts = tuple((Stem(handle, (token,), *own), (90,)) for token, own in pairs)
    roots = [Root(name, prompt, starts) for name in ("one", "other")]
    for tree in Forest(OutputTree(model, Decoding(max_new_tokens=4)), Draws(sizes=(1,))).sample(
        roots
    ):
        assert sum(leaf.counts[0] for leaf in tree.leaves) == 90 * len(starts)
    assert model.live == 1  # the owner keeps its handle


def test_starts_that_are_complete_are_leaves() -> None:
    model, prompt = table(), ROOTS[0].token_ids
    (handle,), _ = model.prefill([prompt])
    end = Stem(handle, (1, EOS), -2.0, -2.5, -3.0, 1.25)
    forest = Forest(OutputTree(model, Decoding(max_new_tokens=4)), Draws(sizes=(1,)))
    (tree,) = forest.sample([Root("one", prompt, ((end, (7,)),))])
    assert tree.leaves == (end.leaf((7,), "stop"),)
    assert (forest.usage.draws, forest.usage.forwards) == (7, 0)


def test_paths_have_numbers_and_the_oldest_are_deleted() -> None:
    paths, rng = Paths(), np.random.default_rng(3)
    for _ in range(300):  # trees, one after the other
        first = paths.end
        known = [(), *(tuple(rng.integers(9, size=size).tolist()) for size in (3, 1, 4))]
        numbers = paths.plant(known)
        assert paths.ids(numbers[1:], np.array([3, 1, 4])) == known[1:]
        for _ in range(10):
            before, tokens = rng.integers(1, len(known), size=5), rng.integers(9, size=5)
            numbers = np.append(numbers, paths.add(numbers[before], tokens))
            known += [(*known[b], t) for b, t in zip(before, tokens.tolist(), strict=True)]
        assert paths.last(numbers[1:]).tolist() == [ids[-1] for ids in known[1:]]
        assert paths.ids(numbers, np.array([*map(len, known)])) == known
        paths.forget(first)
    assert paths._entries.shape[1] < 4096 < paths.end


def test_finish_reasons_and_confidence() -> None:
    tree = grow(Decoding(max_new_tokens=3), Draws(sizes=(300,)))[0]
    reasons = {leaf.finish for leaf in tree.leaves}
    assert reasons == {"stop", "length"}
    for leaf in tree.leaves:
        assert (leaf.finish == "stop") == (leaf.token_ids[-1] == EOS)
        steps = [max(probabilities((0, *leaf.token_ids[:i]))) for i in range(len(leaf.token_ids))]
        assert math.isclose(leaf.confidence, np.mean(steps), abs_tol=1e-12)


def test_broken_logits_fail_only_their_query() -> None:
    model = breaking(lambda prefix: prefix[:1] == (2,) and len(prefix) >= 3)
    draws = Draws(sizes=(100,))
    roots = [*ROOTS, Root("another", ROOTS[2].token_ids)]
    trees = grow(Decoding(max_new_tokens=4), draws, roots, 8, model)
    failed, too = trees.pop(2), trees.pop(len(ROOTS))
    assert failed.leaves == too.leaves == ()
    assert failed.broken_at == too.broken_at is not None
    assert len(failed.broken_at) == 2
    want = grow(Decoding(max_new_tokens=4), draws)
    assert trees == {i: t for i, t in want.items() if i != 2}


def test_a_table_refuses_rows_that_are_no_distribution() -> None:
    model = TableModel({(): [0.5, 0.4]}, vocab_size=2)
    with pytest.raises(InputError, match=r"sum to 1.*0\.9"):
        model.prefill([()])
    with pytest.raises(InputError, match="no row"):
        TableModel({}, vocab_size=2).prefill([(1,)])


MARGIN = 0.03
Stored = dict[str, StoredOutputs]


def drawn(
    decoding: Decoding, draws: Draws, roots: Sequence[Root] = ROOTS, of: Table = probabilities
) -> Stored:
    """Return the stored outputs of these roots."""
    got: Stored = {}
    for tree in grow(decoding, draws, roots, model=table(of)).values():
        got[roots[tree.root].query_id] = [
            (leaf.token_ids, {draws.first_chunk + i: n for i, n in enumerate(leaf.counts) if n})
            for leaf in tree.leaves
        ]
    return got


def retrace(
    decoding: Decoding,
    draws: Draws,
    stored: Mapping[str, StoredOutputs],
    roots: Sequence[Root] = ROOTS,
    margin: float = 0.0,
) -> dict[int, Retraced]:
    model = table()
    forest = Retracer(OutputTree(model, decoding, margin), draws)
    got = {one.root: one for one in forest.retrace(list(roots), stored)}
    assert model.live == 0
    return got


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_draws_are_their_own(decoding: Decoding) -> None:
    draws = Draws(sizes=(40, 40, 7), first_chunk=3, seed=5, purpose="score:target")
    for margin in (0.0, MARGIN):
        got = retrace(decoding, draws, drawn(decoding, draws), margin=margin)
        assert set(got) == set(range(len(ROOTS)))
        assert all(one.differs_at is None and one.excused == 0 for one in got.values())


@pytest.mark.parametrize("kind", range(2))
@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_roundings_within_the_margin_are_allowed_for(decoding: Decoding, kind: int) -> None:
    """Simulate another batch: logits move by at most half the margin, and later steps follow."""
    draws = Draws(sizes=(200,), seed=kind)
    stored = drawn(decoding, draws, of=perturbed(probabilities, MARGIN / 2, kind))
    got = retrace(decoding, draws, stored, margin=MARGIN)
    assert [one.differs_at for one in got.values()] == [None] * len(ROOTS)
    if decoding.adaptive_temperature is None:
        assert max(one.excused for one in got.values()) > 1


def test_the_same_roundings_are_no_excuse_without_a_margin() -> None:
    draws = Draws(sizes=(300,), seed=1)
    stored = drawn(DECODINGS[0], draws, of=perturbed(probabilities, MARGIN / 2, 1))
    assert any(one.differs_at is not None for one in retrace(DECODINGS[0], draws, stored).values())


def fewer(outputs: StoredOutputs) -> StoredOutputs:
    (ids, counts), *others = outputs
    return [(ids, {c: n - 1 for c, n in counts.items() if n > 1}), *others]


def moved(outputs: StoredOutputs) -> StoredOutputs:
    """Give all draws of one output to another."""
    (_, counts), (other, theirs), *others = sorted(outputs, key=lambda each: -total(each))
    chunks = {*counts, *theirs}
    return [(other, {c: counts.get(c, 0) + theirs.get(c, 0) for c in chunks}), *others]


def invented(outputs: StoredOutputs) -> StoredOutputs:
    """Replace the heaviest output by one that was never drawn."""
    heaviest, seen = max(outputs, key=total), {ids for ids, _ in outputs}
    every = itertools.product(range(VOCAB - 1), repeat=3)
    new = next((*ids, EOS) for ids in every if (*ids, EOS) not in seen)
    return [(new if each is heaviest else each[0], each[1]) for each in outputs]


def cut_short(outputs: StoredOutputs) -> StoredOutputs:
    """Cut an output before its end."""
    longest = max(outputs, key=lambda each: len(each[0]))
    return [(each[0][:-1] if each is longest else each[0], each[1]) for each in outputs]


def longer(outputs: StoredOutputs) -> StoredOutputs:
    """Lengthen the last output past its end."""
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
def test_outputs_that_were_not_drawn_are_detected(name: str, margin: float) -> None:
    """Only the changed question is reported, even if others have the same prompt."""
    forge = FORGERIES[name]
    roots = [Root("a", (1,)), Root("b", (2,)), Root("c", (1,))]
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(64, 64), seed=2)
    stored = drawn(decoding, draws, roots)
    forged = {**stored, "a": forge(stored["a"])}
    got = retrace(decoding, draws, forged, roots, margin)
    assert [got[i].differs_at is None for i in range(3)] == [False, True, True]
    known = {"none": (), "longer": max(ids for ids, _ in stored["a"])}
    assert got[0].differs_at == known.get(name, got[0].differs_at)
    both = retrace(decoding, draws, {**forged, "c": forge(stored["c"])}, roots, margin)
    assert [both[i].differs_at is None for i in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    "other", [Draws(sizes=(64,), seed=3), Draws(sizes=(64,), seed=2, purpose="attack")]
)
def test_draws_of_other_keys_are_detected(other: Draws) -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(64,), seed=2)
    got = retrace(decoding, draws, drawn(decoding, other), margin=1e-4)
    assert all(one.differs_at is not None for one in got.values())


def test_each_query_has_its_own_number_of_draws() -> None:
    share = {"q0": 5, "q1": 64, "q2": 1, "q3": 9, "q4": 33}
    draws = Draws(sizes=(64,), seed=2, draws_per_query=share)
    stored = drawn(DECODINGS[0], draws)
    assert all(one.differs_at is None for one in retrace(DECODINGS[0], draws, stored).values())
    more = Draws(sizes=(64,), seed=2, draws_per_query={**share, "q3": 10})
    got = retrace(DECODINGS[0], more, stored)
    assert [i for i, one in got.items() if one.differs_at is not None] == [3]


def test_where_the_model_breaks_nothing_may_be_stored() -> None:
    decoding, draws = Decoding(max_new_tokens=3), Draws(sizes=(16,), seed=2)
    sound = drawn(decoding, draws)
    model = breaking(lambda prefix: prefix[0] == 1)
    for absent, differing in (("q1", []), ("q2", [1, 2])):
        forest = Retracer(OutputTree(model, decoding), draws)
        got = {one.root: one for one in forest.retrace(ROOTS, {**sound, absent: []})}
        assert [i for i, one in sorted(got.items()) if one.differs_at is not None] == differing


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_any_token_that_moved_logits_pick_may_be_picked(decoding: Decoding) -> None:
    """Draws of one step, with logits moved within half the margin, near ties among them."""
    rng = np.random.default_rng(7)
    confidence = np.array([1.3]), np.array([2])
    for _ in range(60):
        logits = torch.from_numpy(rng.normal(0, 2, (1, 9)))
        logits[0, 3] = logits[0, 5] + rng.choice([0, 1e-3, -1e-3])
        moved = logits + torch.from_numpy(rng.uniform(-MARGIN / 2, MARGIN / 2, (1, 9)))
        u = rng.uniform(size=30)
        picks = pick(moved, decoding, np.zeros(30, dtype=np.int64), u, confidence)
        tokens, counts = (x.tolist() for x in np.unique(picks.tokens, return_counts=True))
        split = dict(zip(tokens, counts, strict=True))
        assert may_split(logits, decoding, u, split, confidence, MARGIN)


@pytest.mark.parametrize("decoding", DECODINGS[:5:2], ids=lambda d: d.name)
def test_a_split_is_allowed_if_some_assignment_of_draws_makes_it(decoding: Decoding) -> None:
    """Compare with an oracle that tries every assignment of four draws to three tokens."""
    rng = np.random.default_rng(8)
    confidence = np.array([0.0]), np.array([1])
    seen = []
    for _ in range(15):
        logits = torch.from_numpy(rng.normal(0, 1, (1, 3)))
        u = rng.uniform(size=4)

        def may(u: Any, split: dict[int, int], logits: torch.Tensor = logits) -> bool:
            return may_split(logits, decoding, u, split, confidence, 0.4)

        one = [{t for t in range(3) if may(u[i : i + 1], {t: 1})} for i in range(4)]
        ways = {tuple(way.count(t) for t in range(3)) for way in itertools.product(*one)}
        for counts in itertools.product(range(5), repeat=3):
            if sum(counts) == 4:
                split = {t: n for t, n in enumerate(counts) if n}
                allowed = may(u, split)
                assert allowed == (counts in ways)
                seen.append(allowed)
    assert {True, False} == set(seen)


def test_a_wide_nucleus_is_searched_completely() -> None:
    flat, u = torch.zeros(1, 300, dtype=torch.float64), np.array([0.1, 0.8])
    confidence, decoding = (np.array([0.0]), np.array([1])), Decoding(top_p=0.9)
    one, other = pick(flat, decoding, np.zeros(2, dtype=np.int64), u, confidence).tokens.tolist()
    assert may_split(flat, decoding, u, {one: 1, other: 1}, confidence, 0.0)
    assert not may_split(flat, decoding, u, {one: 1, 299: 1}, confidence, 0.0)


def test_tokens_that_no_uniform_picks_are_refused() -> None:
    """A token without mass, and the first one that truncation removes."""
    confidence = np.array([0.0]), np.array([1])
    whole = torch.tensor([[0.0, -math.inf, 0.0]])
    assert not may_split(whole, Decoding(), np.array([0.5]), {1: 1}, confidence, 0.0)
    assert may_split(whole, Decoding(), np.array([0.5]), {2: 1}, confidence, 0.0)
    assert not may_split(whole, Decoding(), np.array([0.49]), {2: 1}, confidence, 0.0)
    assert not may_split(whole, Decoding(), np.array([0.51]), {0: 1}, confidence, 0.0)
    kept = torch.tensor([[2.0, 1.0, 0.0]])
    last = np.array([1 - 2.0**-53])
    assert not may_split(kept, Decoding(top_k=2), last, {2: 1}, confidence, 0.0)
    assert may_split(kept, Decoding(top_k=2), last, {1: 1}, confidence, 0.0)


def test_a_doubtful_adaptive_switch_allows_either_step() -> None:
    """Its mean confidence is within the margin of the threshold, on either side of it."""
    logits = torch.tensor([[1.0, 0.0]])
    p_max = 1 / (1 + math.exp(-1))
    u = np.array([0.1, 0.9])
    confidence = np.array([0.0]), np.array([1])
    sure = Decoding(adaptive_temperature=0.5)
    assert may_split(logits, sure, u, {0: 2}, confidence, 0.01)
    assert not may_split(logits, sure, u, {1: 2}, confidence, 0.01)
    for nudge in (-1e-4, 1e-4):
        decoding = Decoding(adaptive_temperature=p_max + nudge)
        for split in ({0: 2}, {0: 1, 1: 1}):
            assert may_split(logits, decoding, u, split, confidence, 0.01)
        greedy = may_split(logits, decoding, u, {0: 2}, confidence, 0.0)
        assert greedy == (nudge < 0)
        assert may_split(logits, decoding, u, {0: 1, 1: 1}, confidence, 0.0) != greedy
