"""Forced sequences against exact enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampling_tables import (
    DECODINGS,
    EOS,
    ROOTS,
    VOCAB,
    Ids,
    enumerate_law,
    perturbed,
    probabilities,
    table,
)

from leakbound.errors import InputError
from leakbound.sampling import Forest, TableModel, force
from leakbound.types import Decoding, Draws


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
@pytest.mark.parametrize("rows", [1, 64])
def test_forced_outputs_have_their_exact_probability(decoding: Decoding, rows: int) -> None:
    model = table()
    laws = [enumerate_law(decoding, root.token_ids) for root in ROOTS]
    every = sorted({ids for law in laws for ids in law})
    keys = [(i, ids) for i in range(len(ROOTS)) for ids in every]
    found = force(model, decoding, ROOTS, keys, margin=0.0, rows=rows)
    assert model.held == 0
    for (i, ids), leaf in zip(keys, found, strict=True):
        if ids not in laws[i]:
            assert leaf is None  # a truncated token, or one of probability 0
            continue
        assert leaf is not None
        assert leaf.token_ids == ids
        assert leaf.counts == (0,)
        assert math.isclose(leaf.logprob, math.log(laws[i][ids]), abs_tol=1e-9)
        assert leaf.floor == leaf.logprob


def test_a_forced_output_is_told_as_a_drawn_one() -> None:
    decoding = Decoding(max_new_tokens=4, temperature=0.7, top_p=0.9)
    forest = Forest(table(), decoding, Draws(sizes=(200,)), margin=1e-3)
    for tree in forest.sample(ROOTS):
        keys = [(tree.root, leaf.token_ids) for leaf in tree.leaves]
        for leaf, forced in zip(
            tree.leaves, force(table(), decoding, ROOTS, keys, margin=1e-3), strict=True
        ):
            assert forced is not None
            assert forced.finish_reason == leaf.finish_reason
            for name in ("logprob", "floor", "model_logprob", "confidence"):
                assert math.isclose(getattr(forced, name), getattr(leaf, name), abs_tol=1e-9)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_floors_hold_whatever_the_logits_within_the_margin(decoding: Decoding) -> None:
    margin, root = 0.02, ROOTS[1]
    keys = [(1, ids) for ids in enumerate_law(decoding, root.token_ids)]
    found = force(table(), decoding, ROOTS, keys, margin=margin)
    for kind in range(4):
        law = enumerate_law(decoding, root.token_ids, perturbed(probabilities, margin / 2, kind))
        for leaf in found:
            assert leaf is not None
            assert math.exp(leaf.floor) <= law.get(leaf.token_ids, 0) + 1e-12


def test_only_what_is_complete_and_was_not_before_is_an_output() -> None:
    flat = TableModel(lambda prefix: [1 / VOCAB] * VOCAB, vocab_size=VOCAB, eos_token_ids=[EOS])
    decoding = Decoding(max_new_tokens=4, stop=("12",))

    def ended(ids: Ids) -> bool:
        return "12" in "".join(map(str, ids))

    cases = {
        (): None,
        (0,): None,  # stops short of its end
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
    found = force(flat, decoding, ROOTS, keys, margin=0.0, ended=ended)
    assert [leaf and leaf.finish_reason for leaf in found] == list(cases.values())
    for ids, leaf in zip(cases, found, strict=True):
        if leaf is not None:
            assert math.isclose(leaf.logprob, -len(ids) * math.log(VOCAB))


def test_each_distinct_prefix_is_forwarded_once_and_dead_ends_are_left() -> None:
    class Counted(TableModel):
        forwards = 0

        def extend(self, parents, tokens, takes_over):  # type: ignore[no-untyped-def]
            self.forwards += len(tokens)
            return super().extend(parents, tokens, takes_over)

    half = [0.5, 0, 0, 0, 0, 0, 0.5]
    model = Counted(lambda prefix: half, vocab_size=VOCAB, eos_token_ids=[EOS])
    keys = [(0, (0, 0, EOS)), (0, (0, EOS)), (0, (0, 0, EOS)), (0, (1, 0, 0, EOS))]
    found = force(model, Decoding(max_new_tokens=5), ROOTS, keys, margin=0.0)
    assert [leaf and round(math.exp(leaf.logprob), 12) for leaf in found] == [
        0.125, 0.25, 0.125, None,
    ]  # fmt: skip
    assert model.forwards == 2


def test_unusable_logits_prove_nothing() -> None:
    class Lenient(TableModel):
        def probabilities(self, prefix: Ids) -> np.ndarray:
            row = np.full(VOCAB, 1 / VOCAB)
            return row * np.nan if prefix == (0, 5) else row

    model = Lenient({}, vocab_size=VOCAB, eos_token_ids=[EOS])
    keys = [(0, (5, EOS)), (0, (4, EOS)), (1, (5, EOS))]
    found = force(model, Decoding(max_new_tokens=5), ROOTS, keys, margin=0.0)
    assert [leaf is None for leaf in found] == [True, False, False]
    assert model.held == 0


def test_a_decoding_of_two_laws_is_refused() -> None:
    decoding = Decoding(adaptive_temperature=0.9, adaptive_mode="two_pass")
    with pytest.raises(InputError, match="two_pass"):
        force(table(), decoding, ROOTS, [], margin=0.0)
