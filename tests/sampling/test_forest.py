"""The forest against exact enumeration, at any row budget, and when a model breaks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.sampling import Forest, Root, TableModel, Tree
from leakbound.sampling.forest import Lengths
from leakbound.sampling.law import certain_law
from leakbound.sampling.stems import Stem
from leakbound.types import Decoding, Draws
from sampling_tables import (
    DECODINGS,
    EOS,
    ROOTS,
    VOCAB,
    enumerate_law,
    probabilities,
    table,
)
from suites import require_fit


def grow(
    decoding: Decoding, draws: Draws, roots: Iterable[Root] = ROOTS, rows: int = 1000
) -> dict[int, Tree]:
    model = table()
    trees = {t.root: t for t in Forest(model, decoding, draws, rows=rows).sample(list(roots))}
    assert model.held == 0
    return trees


@pytest.mark.parametrize(
    "decoding",
    [pytest.param(d, marks=[pytest.mark.thorough] * (d is not DECODINGS[-1])) for d in DECODINGS],
    ids=lambda d: d.name,
)
def test_counts_follow_the_exact_law(decoding: Decoding) -> None:
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
    """Chunks are counted apart; between chunks, counts vary as a multinomial's do."""
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


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_draws_are_the_same_at_any_row_budget_and_in_any_company(decoding: Decoding) -> None:
    draws = Draws(sizes=(60, 40), first_chunk=3, seed=5)
    want = grow(decoding, draws)
    for rows in (1, 2, 7, 50):
        assert grow(decoding, draws, rows=rows) == want
    for i, root in enumerate(ROOTS):
        (alone,) = grow(decoding, draws, [root]).values()
        assert alone.leaves == want[i].leaves


def test_queries_with_one_prompt_share_a_tree_and_keep_their_own_draws() -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(30, 20), first_chunk=2, seed=4)
    roots = [Root(f"{root.query_id}/{i}", root.token_ids) for i in range(3) for root in ROOTS]
    roots = roots[: len(ROOTS) + 2]  # trees of two queries and of one
    apart = [grow(decoding, draws, [root])[0].leaves for root in roots]
    for rows in (1000, 3):
        together = grow(decoding, draws, roots, rows)
        assert [together[i].leaves for i in range(len(roots))] == apart
    assert apart[0] != apart[len(ROOTS)]

    alone, shared = (Forest(table(), decoding, draws) for _ in range(2))
    list(alone.sample(roots[:1]))
    list(shared.sample([roots[0], roots[len(ROOTS)]]))
    assert shared.usage.prompt_tokens == alone.usage.prompt_tokens
    assert shared.usage.forwards < 1.5 * alone.usage.forwards
    assert shared.usage.draws == 2 * alone.usage.draws


def test_more_chunks_leave_the_old_ones_untouched() -> None:
    decoding = Decoding(max_new_tokens=4)
    short = grow(decoding, Draws(sizes=(50, 50)))
    long = grow(decoding, Draws(sizes=(50, 50, 50)))
    later = grow(decoding, Draws(sizes=(50,), first_chunk=1))

    def of(tree: Tree, chunk: int) -> dict[tuple[int, ...], int]:
        return {leaf.token_ids: leaf.counts[chunk] for leaf in tree.leaves if leaf.counts[chunk]}

    for i in short:
        assert of(short[i], 0) == of(long[i], 0)
        assert of(short[i], 1) == of(long[i], 1) == of(later[i], 0)
        assert of(long[i], 2) != of(long[i], 1)


def test_seed_and_purpose_change_the_draws() -> None:
    decoding = Decoding(max_new_tokens=4)
    base = grow(decoding, Draws(sizes=(50,)))
    assert grow(decoding, Draws(sizes=(50,), seed=1)) != base
    assert grow(decoding, Draws(sizes=(50,), purpose="pilot")) != base


def test_one_forward_per_distinct_prefix() -> None:
    decoding, draws = Decoding(max_new_tokens=4), Draws(sizes=(500,))
    forest = Forest(table(), decoding, draws)
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


def test_prefixes_held_stay_within_the_budget_and_the_widest_query() -> None:
    class Watched(TableModel):
        most = 0

        def _hold(self, prefix: tuple[int, ...]) -> int:
            handle = super()._hold(prefix)
            self.most = max(self.most, self.held)
            return handle

    def flat(prefix: tuple[int, ...]) -> list[float]:
        return [1 / VOCAB] * VOCAB

    model = Watched(flat, vocab_size=VOCAB)
    forest = Forest(model, Decoding(max_new_tokens=4), Draws(sizes=(40,)), rows=10)
    assert len(list(forest.sample(ROOTS))) == len(ROOTS)
    assert model.most <= 10 + 2 * 40


def stems(model: TableModel, number: int) -> tuple[Root, dict[tuple[int, ...], float]]:
    """A root that starts from the first tokens of even id, and the law of what follows."""
    root = ROOTS[number]
    handle, logits = model.prefill(root.token_ids)
    law = certain_law(logits, Decoding(), np.zeros(1), np.ones(1, np.int64), 0.0)
    tokens = [t for t in range(0, VOCAB, 2) if law.logprob[0, t] > -math.inf]
    begun = [
        (Stem.prompt().child(handle, token, step), (4000 * (i + 1),))
        for i, (token, step) in enumerate(law.steps([tokens])[0])
    ]
    return replace(root, starts=tuple(begun)), enumerate_law(
        Decoding(max_new_tokens=4), root.token_ids
    )


@pytest.mark.thorough
def test_draws_go_on_from_stems_by_the_law_that_follows_them() -> None:
    decoding, model = Decoding(max_new_tokens=4), table()
    started = [stems(model, i) for i in range(len(ROOTS))]
    want = None
    for rows in (1000, 3, 1):
        forest = Forest(model, decoding, Draws(sizes=(1,), seed=2), rows=rows)
        trees = {t.root: t for t in forest.sample([root for root, _ in started])}
        assert model.held == len(ROOTS)  # the handles of stems stay their owner's
        assert want is None or trees == want
        want = trees
    assert forest.usage.prompt_tokens == 0
    for i, (root, law) in enumerate(started):
        counts = {leaf.token_ids: leaf.counts[0] for leaf in trees[i].leaves}
        assert sum(counts.values()) == sum(n for _, (n,) in root.starts)
        for leaf in trees[i].leaves:
            assert math.isclose(leaf.logprob, math.log(law[leaf.token_ids]), abs_tol=1e-9)
        for stem, (n,) in root.starts:
            mine = {path: k for path, k in counts.items() if path[:1] == stem.path}
            assert sum(mine.values()) == n
            require_fit(mine, {path: p for path, p in law.items() if path[:1] == stem.path})


def test_roots_with_starts_have_trees_of_their_own() -> None:
    model = table()
    roots = [replace(stems(model, 0)[0], query_id=name) for name in ("one", "other")]
    forest = Forest(model, Decoding(max_new_tokens=4), Draws(sizes=(1,)))
    for tree in forest.sample(roots):
        begun = sum(n for _, (n,) in roots[tree.root].starts)
        assert sum(leaf.counts[0] for leaf in tree.leaves) == begun


def test_finish_reasons_and_confidence() -> None:
    tree = grow(Decoding(max_new_tokens=3), Draws(sizes=(300,)))[0]
    reasons = {leaf.finish_reason for leaf in tree.leaves}
    assert reasons == {"stop", "length"}
    for leaf in tree.leaves:
        assert (leaf.finish_reason == "stop") == (leaf.token_ids[-1] == EOS)
        steps = [max(probabilities((0, *leaf.token_ids[:i]))) for i in range(len(leaf.token_ids))]
        assert math.isclose(leaf.confidence, np.mean(steps), abs_tol=1e-12)


def test_broken_logits_fail_their_query_alone_and_name_the_prefix() -> None:
    def broken(prefix: tuple[int, ...]) -> list[float]:
        broke = prefix[:1] == (2,) and len(prefix) >= 3
        return [math.nan] * VOCAB if broke else list(probabilities(prefix))

    model = table(broken)
    draws = Draws(sizes=(100,))
    roots = [*ROOTS, Root("another", ROOTS[2].token_ids)]
    trees = {
        t.root: t for t in Forest(model, Decoding(max_new_tokens=4), draws, rows=8).sample(roots)
    }
    assert model.held == 0
    failed, too = trees.pop(2), trees.pop(len(ROOTS))
    assert failed.leaves == too.leaves == ()
    assert failed.broken_at == too.broken_at is not None
    assert len(failed.broken_at) == 2
    want = grow(Decoding(max_new_tokens=4), draws)
    assert trees == {i: t for i, t in want.items() if i != 2}


@pytest.mark.parametrize(
    ("decoding", "sizes", "rows", "said"),
    [
        (Decoding(), (1,), 0, "rows"),
        (Decoding(), (), 9, "chunk"),
        (Decoding(), (4, 0), 9, "chunk"),
        (Decoding(stop=("x",)), (1,), 9, "stop"),
    ],
)
def test_bad_input_is_refused(
    decoding: Decoding, sizes: tuple[int, ...], rows: int, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        Forest(table(), decoding, Draws(sizes=sizes), rows=rows)


def test_a_table_refuses_rows_that_are_no_distribution() -> None:
    model = TableModel({(): [0.5, 0.4]}, vocab_size=2)
    with pytest.raises(InputError, match=r"sum to 1.*0\.9"):
        model.prefill(())
    with pytest.raises(InputError, match="no row"):
        TableModel({}, vocab_size=2).prefill((1,))


def seen(longest: int, *rows: tuple[int, int, int, int]) -> float:
    """What is foreseen after rows of (tokens, draws, of which end, prefixes of the others)."""
    lengths = Lengths(longest)
    for row in rows:
        lengths.add(*(np.array([each]) for each in row))
    return lengths.forwards()


def test_where_all_ended_it_is_what_was_forwarded() -> None:
    done = [(0, 100, 20, 4), (1, 80, 40, 8), (2, 40, 40, 0)]
    assert seen(8, *done) == pytest.approx((4 + 8) / 100)  # the prompt is read before
    assert seen(3, *done) == pytest.approx((4 + 8) / 100)


def test_draws_that_go_on_count_as_far_as_they_are() -> None:
    """Half of the draws end with each token, the others each on a prefix of its own."""
    halves = (0, 100, 50, 50), (1, 50, 25, 25)
    assert seen(64, *halves) == pytest.approx(sum(0.5**k for k in range(1, 64)))
    assert seen(4, *halves) == pytest.approx(0.5 + 0.25 + 0.125)  # with the fourth all end


def test_nothing_is_foreseen_before_a_tenth_ended_or_an_eighth_of_the_way() -> None:
    assert seen(64) == math.inf
    assert seen(64, (0, 100, 9, 91)) == math.inf
    assert seen(64, (0, 100, 10, 90)) < math.inf
    on = [(k, 100, 0, 100) for k in range(9)]
    assert seen(64, *on[:8]) == math.inf
    assert seen(64, *on) == pytest.approx(63)
