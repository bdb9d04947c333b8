"""Cached branching against plain forwards, one architecture a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf

from residua.engines.prefix_cache import CachedModel, RecomputedModel, prefix_model
from residua.sampling import Forest, PrefixModel, Root, Tree
from residua.types import Decoding, Draws

VOCAB = 61
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 96,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
SMALL_HEADS = {**GROUPED, "head_dim": 8}
GPT2 = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}
BRANCHING = {
    "llama": tf.LlamaConfig(**GROUPED),
    "llama-tied": tf.LlamaConfig(**GROUPED, tie_word_embeddings=True),
    "gpt2": tf.GPT2Config(**GPT2, bos_token_id=0, eos_token_id=0),
    "gpt-neox": tf.GPTNeoXConfig(**SIZES),
    "phi": tf.PhiConfig(**SIZES),
    "qwen2": tf.Qwen2Config(**GROUPED),
    "qwen2-mixed-windows": tf.Qwen2Config(
        **GROUPED, use_sliding_window=True, sliding_window=3, max_window_layers=1
    ),
    "gemma": tf.GemmaConfig(**{**SMALL_HEADS, "num_key_value_heads": 1}),
    "gemma2": tf.Gemma2Config(**SMALL_HEADS, sliding_window=3),
    "gemma3": tf.Gemma3TextConfig(**SMALL_HEADS, sliding_window=3),
    "mistral-window": tf.MistralConfig(**GROUPED, sliding_window=3),
}
STATE_SPACE = {
    "mamba": tf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2),
}
ROOTS = [Root(f"q{i}", tuple(range(3, 4 + 3 * i))) for i in range(4)]


def build(config: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    tf.logging.set_verbosity_error()
    return tf.AutoModelForCausalLM.from_config(config).eval()


def grow(seam: PrefixModel, rows: int, n: int = 40) -> list[Tree]:
    forest = Forest(seam, Decoding(max_new_tokens=7), Draws(sizes=(n,), seed=1), rows=rows)
    return sorted(forest.sample(ROOTS), key=lambda tree: tree.root)


@pytest.mark.parametrize("name", BRANCHING)
def test_cached_branches_give_the_logits_of_plain_forwards(name: str) -> None:
    model = build(BRANCHING[name])
    seam, note = prefix_model(model, frozenset([5]))
    assert isinstance(seam, CachedModel)
    assert note is None
    cached, plain = grow(seam, rows=50), grow(RecomputedModel(model, frozenset([5])), rows=9)
    assert seam.held == 0
    for a, b in zip(cached, plain, strict=True):
        assert [leaf.token_ids for leaf in a.leaves] == [leaf.token_ids for leaf in b.leaves]
        assert [leaf.counts for leaf in a.leaves] == [leaf.counts for leaf in b.leaves]
        for x, y in zip(a.leaves, b.leaves, strict=True):
            assert abs(x.logprob - y.logprob) < 2e-5


@pytest.mark.parametrize("name", STATE_SPACE)
def test_a_model_whose_cache_cannot_branch_is_recomputed_and_says_so(name: str) -> None:
    model = build(STATE_SPACE[name])
    seam, note = prefix_model(model, frozenset([5]))
    assert isinstance(seam, RecomputedModel)
    assert note is not None
    assert type(model).__name__ in note
    (tree,) = Forest(seam, Decoding(max_new_tokens=3), Draws(sizes=(20,))).sample(ROOTS[:1])
    for leaf in tree.leaves:
        ids = torch.tensor([[*ROOTS[0].token_ids, *leaf.token_ids]])
        with torch.inference_mode():
            logprobs = model(ids).logits[0].double().log_softmax(-1)
        start = len(ROOTS[0].token_ids) - 1
        want = sum(float(logprobs[start + i, t]) for i, t in enumerate(leaf.token_ids))
        assert abs(leaf.logprob - want) < 1e-4


def test_a_cache_that_gives_wrong_logits_is_not_used() -> None:
    model = build(BRANCHING["llama"])
    layer = model.model.layers[1].self_attn
    original = layer.forward

    def forgetful(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        return original(*args, past_key_values=None, **kwargs)

    layer.forward = forgetful
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert note is not None


def test_prompts_are_stored_once_and_dropped_with_their_last_row() -> None:
    seam = CachedModel(build(BRANCHING["llama"]), frozenset())
    handle, _ = seam.prefill([1, 2, 3])
    parents = np.array([handle, handle, handle])
    handles, _ = seam.extend(parents, np.array([4, 5, 6]), np.array([False, False, True]))
    assert len(seam._cache.prompts) == 1
    seam.release(handles[:2])
    assert len(seam._cache.prompts) == 1
    seam.release(handles[2:])
    assert len(seam._cache.prompts) == 0
    assert seam.held == 0


def test_a_broken_query_does_not_spoil_its_neighbours() -> None:
    """One token's embedding is NaN: queries that draw it fail; the others are as without it."""
    config = tf.LlamaConfig(**GROUPED, tie_word_embeddings=False)
    healthy, broken = build(config), build(config)
    poison = 8
    with torch.no_grad():
        broken.model.embed_tokens.weight[poison] = float("nan")
    want = {t.root: t for t in grow(CachedModel(healthy, frozenset([5])), rows=30, n=6)}
    got = {t.root: t for t in grow(CachedModel(broken, frozenset([5])), rows=30, n=6)}
    drew_it = {
        root
        for root, tree in want.items()
        if poison in ROOTS[root].token_ids
        or any(poison in leaf.token_ids[:-1] for leaf in tree.leaves)
    }
    assert drew_it
    assert drew_it < set(want)
    assert {root for root, tree in got.items() if tree.broken_at is not None} == drew_it
    for root in set(want) - drew_it:
        assert [leaf.counts for leaf in got[root].leaves] == [
            leaf.counts for leaf in want[root].leaves
        ]
