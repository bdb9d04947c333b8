"""The forest against exact enumeration, at any row budget, and when a model breaks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from scipy import stats

from residua.errors import InputError
from residua.sampling import Forest, Root, TableModel, Tree
from residua.types import Decoding, Draws

VOCAB, EOS = 7, 6
ROOTS = [Root(f"q{i}", (i,)) for i in range(5)]


def probabilities(prefix: tuple[int, ...]) -> list[float]:
    """A distribution of its own for every prefix, some tokens impossible."""
    rng = np.random.default_rng([len(prefix), *prefix])
    p = rng.dirichlet(np.full(VOCAB, 0.4))
    p[p < 0.02] = 0
    return list(p / p.sum())


def table() -> TableModel:
    return TableModel(probabilities, vocab_size=VOCAB, eos_token_ids=[EOS])


def grow(
    decoding: Decoding, draws: Draws, roots: Iterable[Root] = ROOTS, rows: int = 1000
) -> dict[int, Tree]:
    model = table()
    trees = {t.root: t for t in Forest(model, decoding, draws, rows=rows).sample(list(roots))}
    assert model.held == 0
    return trees


def enumerate_law(decoding: Decoding, prompt: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Every completion with its exact probability, by plain recursion over the definition."""
    law: dict[tuple[int, ...], float] = {}

    def visit(path: tuple[int, ...], mass: float, confidence: float) -> None:
        p = np.array(probabilities(prompt + path))
        confidence += p.max()
        threshold = decoding.adaptive_temperature
        if threshold is not None and confidence / (len(path) + 1) > threshold:
            weights = (np.arange(VOCAB) == p.argmax()).astype(float)
        else:
            weights = p ** (1 / decoding.temperature)
            order = sorted(range(VOCAB), key=lambda i: (-weights[i], i))
            order = order[: decoding.top_k or VOCAB]
            total, seen, kept = sum(weights[i] for i in order), 0.0, []
            for i in order:
                kept.append(i)
                seen += weights[i]
                if seen >= decoding.top_p * total - 1e-12:
                    break
            weights = np.array([w if i in kept else 0.0 for i, w in enumerate(weights)])
        weights = weights / weights.sum()
        for token in np.flatnonzero(weights):
            child = (*path, int(token))
            if token == EOS or len(child) == decoding.max_new_tokens:
                law[child] = law.get(child, 0.0) + mass * weights[token]
            else:
                visit(child, mass * weights[token], confidence)

    visit((), 1.0, 0.0)
    return law


DECODINGS = [
    Decoding(max_new_tokens=4),
    Decoding(max_new_tokens=4, temperature=0.6),
    Decoding(max_new_tokens=4, temperature=1.7, top_k=3),
    Decoding(max_new_tokens=4, top_p=0.75),
    Decoding(max_new_tokens=4, temperature=0.8, top_k=5, top_p=0.9),
    Decoding(max_new_tokens=4, adaptive_temperature=0.7),
]


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_counts_follow_the_exact_law(decoding: Decoding) -> None:
    n = 20_000
    for tree in grow(decoding, Draws(sizes=(n,), seed=11)).values():
        law = enumerate_law(decoding, ROOTS[tree.root].token_ids)
        assert math.isclose(sum(law.values()), 1, abs_tol=1e-9)
        counts = Counter({leaf.token_ids: sum(leaf.counts) for leaf in tree.leaves})
        assert set(counts) <= set(law)
        assert sum(counts.values()) == n
        common = [path for path, p in law.items() if p * n >= 5]
        observed = [counts[path] for path in common]
        expected = [law[path] * n for path in common]
        rare = n - sum(expected)
        if rare > 1e-6:
            observed.append(n - sum(observed))
            expected.append(rare)
        if len(observed) > 1:
            assert stats.chisquare(observed, expected).pvalue > 1e-3
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


def test_greedy_is_one_completion() -> None:
    trees = grow(Decoding(temperature=0, max_new_tokens=4), Draws(sizes=(9,)))
    for i, tree in trees.items():
        (leaf,) = tree.leaves
        path: tuple[int, ...] = ()
        while len(path) < 4 and (not path or path[-1] != EOS):
            path = (*path, int(np.argmax(probabilities((i, *path)))))
        assert leaf.token_ids == path
        assert (leaf.counts, leaf.logprob) == ((9,), 0.0)


def test_finish_reasons_and_confidence() -> None:
    tree = grow(Decoding(max_new_tokens=3), Draws(sizes=(300,)))[0]
    reasons = {leaf.finish_reason for leaf in tree.leaves}
    assert reasons == {"stop", "length"}
    for leaf in tree.leaves:
        assert (leaf.finish_reason == "stop") == (leaf.token_ids[-1] == EOS)
        steps = [max(probabilities((0, *leaf.token_ids[:i]))) for i in range(len(leaf.token_ids))]
        assert math.isclose(leaf.confidence, np.mean(steps), abs_tol=1e-12)


def test_a_stop_string_ends_a_completion_where_it_first_occurs() -> None:
    decoding = Decoding(max_new_tokens=4, stop=("12",))

    def ended(ids: tuple[int, ...]) -> bool:
        return "12" in "".join(map(str, ids))

    forest = Forest(table(), decoding, Draws(sizes=(5000,)), ended=ended)
    leaves = [leaf for tree in forest.sample(ROOTS) for leaf in tree.leaves]
    stopped = [leaf for leaf in leaves if leaf.finish_reason == "stop_string"]
    assert stopped
    for leaf in leaves:
        text = "".join(map(str, leaf.token_ids))
        assert text.find("12") in (-1, len(text) - 2)
    assert all(leaf.token_ids[-2:] == (1, 2) for leaf in stopped)


def test_broken_logits_fail_their_query_alone_and_name_the_prefix() -> None:
    def broken(prefix: tuple[int, ...]) -> list[float]:
        p = probabilities(prefix)
        return [*p[:-1], p[-1]] if prefix[:1] != (2,) or len(prefix) < 3 else [float("nan")] * VOCAB

    class Lenient(TableModel):
        def probabilities(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.asarray(broken(prefix))

    model = Lenient(broken, vocab_size=VOCAB, eos_token_ids=[EOS])
    draws = Draws(sizes=(100,))
    trees = {
        t.root: t for t in Forest(model, Decoding(max_new_tokens=4), draws, rows=8).sample(ROOTS)
    }
    assert model.held == 0
    failed = trees.pop(2)
    assert failed.leaves == ()
    assert failed.broken_at is not None
    assert len(failed.broken_at) == 2
    want = grow(Decoding(max_new_tokens=4), draws)
    assert trees == {i: t for i, t in want.items() if i != 2}


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="rows"):
        Forest(table(), Decoding(), Draws(sizes=(1,)), rows=0)
    with pytest.raises(InputError, match="chunk"):
        Forest(table(), Decoding(), Draws(sizes=()))
    with pytest.raises(InputError, match="chunk"):
        Forest(table(), Decoding(), Draws(sizes=(4, 0)))
    with pytest.raises(InputError, match="stop"):
        Forest(table(), Decoding(stop=("x",)), Draws(sizes=(1,)))


def test_a_table_refuses_rows_that_are_no_distribution() -> None:
    model = TableModel({(): [0.5, 0.4]}, vocab_size=2)
    with pytest.raises(InputError, match=r"sum to 1.*0\.9"):
        model.prefill(())
    with pytest.raises(InputError, match="no row"):
        TableModel({}, vocab_size=2).prefill((1,))
