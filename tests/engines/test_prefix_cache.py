"""Cached branching against plain forwards, one row per architecture; how a model is tested for it.

In half precision layer by layer: roundings pass, faults do not.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf

from leakbound.engines import branching, cascade
from leakbound.engines.branching import FedLayers, prefix_model
from leakbound.engines.prefix_cache import ALWAYS, BLOCK, CachedModel, Cascade, RecomputedModel
from leakbound.sampling import Forest, OutputTree, PrefixModel, Root, Tree
from leakbound.types import Decoding, Draws
from suites import slow_but
from tiny import BOTH_KINDS

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
    "deepseek-v3": tf.DeepseekV3Config(  # values narrower than keys
        **SIZES,
        num_key_value_heads=4,
        q_lora_rank=None,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=6,
        first_k_dense_replace=3,
    ),
}
OTHERWISE = {  # attention that cannot be computed in parts here: whole paths are gathered
    "deepseek-v3": BRANCHING["deepseek-v3"],
    "falcon": tf.FalconConfig(**SIZES, bos_token_id=0, eos_token_id=0),
}
JOINED = {name: config for name, config in BRANCHING.items() if name not in OTHERWISE} | {
    "gpt-oss": tf.GptOssConfig(  # sinks, and windows
        **SMALL_HEADS,
        sliding_window=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    "cohere2": tf.Cohere2Config(**GROUPED, sliding_window=3, bos_token_id=0, eos_token_id=0),
    "opt": tf.OPTConfig(**SIZES, word_embed_proj_dim=32, ffn_dim=48),
}
CACHED = ("gpt2", "qwen2-mixed-windows", "gemma3", "deepseek-v3")  # each cache is different
READ_ONCE = ("gemma2", "gpt-oss")  # grouped heads; windows and caps; sinks
STATE_SPACE = {"mamba": tf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2)}
ROOTS = [Root(f"q{i}", tuple(range(3, 4 + 3 * i))) for i in range(4)]


def build(config: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    tf.logging.set_verbosity_error()
    return tf.AutoModelForCausalLM.from_config(config).eval()


def forwarded(model: Any) -> list[tuple[int, int]]:
    """Yield the shapes of the inputs of a model from now on."""
    shapes: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda _, args, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    return shapes


def grow(seam: PrefixModel, rows: int) -> list[Tree]:
    forest = Forest(
        OutputTree(seam, Decoding(max_new_tokens=6), rows=rows), Draws(sizes=(9,), seed=1)
    )
    return sorted(forest.sample(ROOTS), key=lambda tree: tree.root)


def require_same_draws(drawn: list[Tree], want: list[Tree]) -> None:
    for a, b in zip(drawn, want, strict=True):
        assert [leaf.token_ids for leaf in a.leaves] == [leaf.token_ids for leaf in b.leaves]
        assert [leaf.counts for leaf in a.leaves] == [leaf.counts for leaf in b.leaves]
        for x, y in zip(a.leaves, b.leaves, strict=True):
            assert abs(x.logprob - y.logprob) < 2e-5


@pytest.mark.parametrize(
    ("name", "joins"),
    slow_but(
        [*((name, False) for name in CACHED), *((name, True) for name in READ_ONCE)],
        [*((name, False) for name in BRANCHING), *((name, True) for name in JOINED)],
    ),
)
def test_cached_branches_give_the_logits_of_plain_forwards(name: str, joins: bool) -> None:
    """Prompts of 1 to 10 tokens together, past every window; each read once, or by each row.

    If they are read once, a few strips follow others.
    """
    model = build((BRANCHING | JOINED)[name])
    seam, note = prefix_model(model, frozenset([5]))
    assert isinstance(seam, CachedModel)
    assert note is None
    assert seam.cascade == (Cascade() if name in JOINED else None)
    before = model.config._attn_implementation
    seams = [CachedModel(model, frozenset([5]), ALWAYS, x) for x in (None, 1)] if joins else [seam]
    plain = grow(RecomputedModel(model, frozenset([5])), rows=9)
    for seam in seams:
        require_same_draws(grow(seam, rows=50), plain)
        assert seam.live == 0
        assert model.config._attn_implementation == before


@BOTH_KINDS
@pytest.mark.parametrize(
    ("name", "dtype"),
    slow_but(
        [("llama", torch.float32), ("gemma3", torch.bfloat16)],
        product(BRANCHING, [torch.float32, torch.bfloat16]),
    ),
)
def test_rows_attend_in_blocks_with_the_same_bits(name: str, dtype: torch.dtype) -> None:
    """Blocks end within a prompt's rows; the model's attention is restored."""
    model = build(BRANCHING[name]).to(dtype)
    made, _ = prefix_model(model, frozenset())
    assert isinstance(made, CachedModel)
    able = model.config._attn_implementation == "sdpa" and name not in OTHERWISE
    assert made.block == (BLOCK if able else None)
    if not able:
        return
    whole = grow(CachedModel(model, frozenset([5])), rows=50)
    for block in (1, 5000):
        assert grow(CachedModel(model, frozenset([5]), None, block), rows=50) == whole


def test_a_model_whose_cache_cannot_branch_is_recomputed() -> None:
    """It has no layers of a known kind either: in half precision its logits decide."""
    half = build(STATE_SPACE["mamba"]).to(torch.bfloat16)
    assert FedLayers.of(half, [[1, 2]]) is None
    assert isinstance(prefix_model(half, frozenset())[0], RecomputedModel)
    model = build(STATE_SPACE["mamba"])
    seam, note = prefix_model(model, frozenset([5]))
    assert isinstance(seam, RecomputedModel)
    assert type(model).__name__ in note
    (tree,) = Forest(OutputTree(seam, Decoding(max_new_tokens=3)), Draws(sizes=(20,))).sample(
        ROOTS[:1]
    )
    for leaf in tree.leaves:
        ids = torch.tensor([[*ROOTS[0].token_ids, *leaf.token_ids]])
        with torch.inference_mode():
            logprobs = model(ids).logits[0].double().log_softmax(-1)
        start = len(ROOTS[0].token_ids) - 1
        want = sum(float(logprobs[start + i, t]) for i, t in enumerate(leaf.token_ids))
        assert abs(leaf.logprob - want) < 1e-4


def spoilt(config: Any, token: int) -> Any:
    """A model that breaks at one token."""
    model = build(config)
    with torch.no_grad():
        model.model.embed_tokens.weight[token] = float("nan")
    return model


def slots_used(seam: CachedModel) -> int:
    return seam._tree.size - len(seam._tree._free) - 2


def read_by(seam: CachedModel, prompt: list[int]) -> tuple[int, int, torch.Tensor]:
    """Return a prompt's handle, the number of tokens forwarded for it, and the logits after it."""
    shapes = forwarded(seam._model)
    (handle,), logits = seam.prefill([prompt])
    return handle, sum(map(math.prod, shapes)), logits


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen2-mixed-windows"])
def test_what_kept_prompts_begin_with_is_read_and_stored_once(name: str) -> None:
    model = build(BRANCHING[name])
    seam, plain = CachedModel(model, frozenset()), RecomputedModel(model, frozenset())
    prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 8], [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4], [4, 2]]
    got = [read_by(seam, prompt) for prompt in prompts]
    handles = np.array([handle for handle, _, _ in got])
    assert [read for _, read, _ in got] == [6, 2, 2, 1, 2]
    assert slots_used(seam) == 6 + 2 + 2 + 1 + 2
    others, want = plain.prefill(prompts)
    for (_, _, logits), plainly in zip(got, want, strict=True):
        assert (logits - plainly).abs().max() < 1e-5
    tokens, over = np.arange(len(prompts)), np.ones(len(prompts), dtype=bool)
    children, logits = seam.extend(handles, tokens, over)
    _, plainly = plain.extend(others, tokens, over)
    assert (logits - plainly).abs().max() < 1e-5

    seam.release(children[[3]])  # release only the token that it shared with the first prompt
    assert read_by(seam, [1, 2, 3, 4, 11])[1] == 1
    seam.release(children[[0, 2]])
    assert read_by(seam, [1, 2, 3, 4, 5, 6, 7])[1] == 3  # up to 4 it is cached


def test_what_could_not_be_read_is_not_taken_as_read() -> None:
    model = build(BRANCHING["llama"])
    seam, plain = CachedModel(model, frozenset()), RecomputedModel(model, frozenset())
    norm = model.model.norm.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        seam.prefill([[1, 2, 3], [1, 2]])
    norm.remove()
    assert (slots_used(seam), seam.live) == (0, 0)
    _, read, logits = read_by(seam, [1, 2, 3, 4])
    assert read == 4
    assert (logits - plain.prefill([[1, 2, 3, 4]])[1]).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("name", "at_once"),
    slow_but([("llama", 1), ("gemma3", 8), ("gpt2", 512)], product(BRANCHING, [1, 8, 512])),
)
def test_prompts_read_together_share_their_beginnings(name: str, at_once: int) -> None:
    model = build(BRANCHING[name])
    seam, plain = CachedModel(model, frozenset()), RecomputedModel(model, frozenset())
    seam._together = at_once
    prompts = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 8], [7], [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3], [7]]
    _, want = plain.prefill(prompts)
    read = forwarded(model)
    handles, logits = seam.prefill(prompts)
    shapes = {
        1: [(1, 1), (1, 1), (1, 3), (1, 2), (1, 3), (1, 2)],
        8: [(2, 1), (1, 3), (2, 3), (1, 2)],
    }
    assert read == shapes.get(at_once, [(6, 3)])
    assert (logits - want).abs().max() < 1e-5
    assert len(set(handles.tolist())) == seam.live == len(prompts)
    assert slots_used(seam) == 2 + 3 + 2 + 3 + 2  # of [7] twice, since one token gives the logits
    tokens, over = np.arange(len(prompts)), np.ones(len(prompts), dtype=bool)
    _, logits = seam.extend(handles, tokens, over)
    _, want = plain.prefill([[*x, int(token)] for x, token in zip(prompts, tokens, strict=True)])
    assert (logits - want).abs().max() < 1e-5


@pytest.mark.parametrize("read", [None, ALWAYS], ids=["each row", "read once"])
def test_any_order_of_branches_gives_plain_logits(read: Cascade | None) -> None:
    """Like a search: handles of all depths stay open for long, extended in mixed batches."""
    rng = np.random.default_rng(3)
    model = build(BRANCHING["qwen2-mixed-windows"])
    seam, plain = CachedModel(model, frozenset(), read), RecomputedModel(model, frozenset())
    theirs: dict[int, int] = {}  # handles of the plain seam, and tokens as numbered events,
    events: dict[int, tuple[int, ...]] = {}  # by handle of the cached one
    born = 0
    for _ in range(25):
        if not events or rng.random() < 0.2:
            prompt = rng.integers(0, VOCAB, rng.integers(1, 9)).tolist()
            ((mine,), logits), ((other,), want) = seam.prefill([prompt]), plain.prefill([prompt])
            theirs[mine] = other
            events[mine] = tuple(range(born, born + len(prompt)))
            born += len(prompt)
        else:
            parents = rng.choice(list(events), rng.integers(1, 9))
            tokens = rng.integers(0, VOCAB, len(parents))
            last = len(parents) - 1 - np.unique(parents[::-1], return_index=True)[1]
            over = np.zeros(len(parents), dtype=bool)
            over[last] = rng.random(len(last)) < 0.4
            others = np.array([theirs[p] for p in parents])
            handles, logits = seam.extend(parents, tokens, over)
            others, want = plain.extend(others, tokens, over)
            paths = [events[p] for p in parents]
            for gone in parents[over].tolist():
                del theirs[gone], events[gone]
            for handle, other, path in zip(handles.tolist(), others, paths, strict=True):
                assert handle not in events
                theirs[handle], events[handle], born = int(other), (*path, born), born + 1
        assert (logits - want).abs().max() < 1e-5
        drop = [handle for handle in events if rng.random() < 0.15]
        seam.release(np.array(drop, dtype=np.int64))
        plain.release(np.array([theirs.pop(handle) for handle in drop], dtype=np.int64))
        for handle in drop:
            del events[handle]
        assert seam.live == len(events)
        assert slots_used(seam) == len({event for path in events.values() for event in path})


def test_memory_of_thousands_of_prefixes_is_small_and_reused() -> None:
    seam = CachedModel(build(BRANCHING["gpt2"]), frozenset())
    sizes = set()

    def hold() -> list[int]:
        (root,), _ = seam.prefill([range(8)])
        kept = [np.array([root])]
        for step in range(20):
            parents = np.resize(kept[-1], 250)
            tokens, over = np.arange(250) % VOCAB, np.zeros(250, dtype=bool)
            handles, _ = seam.extend(parents, (tokens + step) % VOCAB, over)
            kept.append(handles)
            sizes.add(seam._cache._pools[0].shape[0])
        return np.concatenate(kept).tolist()

    first = hold()
    assert seam.live == len(set(first)) == 5001
    assert slots_used(seam) == 5000 + 8
    assert max(sizes) < 1.5 * 5250
    assert len(sizes) < 12
    seam.release(np.array(first))
    assert slots_used(seam) == 0
    most = max(sizes)
    hold()
    assert max(sizes) == most


def test_rows_that_would_gather_too_much_are_forwarded_in_parts() -> None:
    model, got = build(BRANCHING["llama"]), []
    for rows in (7, 3, 0.1):
        seam = CachedModel(model, frozenset())
        roots, _ = seam.prefill([range(i, 9) for i in range(7)])
        seam._memory = int(4 * rows * 10 * max(seam._cache.bytes_of_a_token))
        shapes = forwarded(model)
        handles, first = seam.extend(roots, np.arange(7), np.ones(7, dtype=bool))
        seam.extend(handles[:2], np.arange(2), np.ones(2, dtype=bool))
        got.append(([height for height, _ in shapes], first))
    assert [shapes for shapes, _ in got] == [[7, 2], [3, 2, 2, 2], [1] * 9]
    assert all((got[0][1] - each).abs().max() < 1e-6 for _, each in got)
    seam = CachedModel(model, frozenset())
    seam.prefill([range(40)])
    seam._memory, shapes = int(4 * 3 * 42 * max(seam._cache.bytes_of_a_token)), forwarded(model)
    seam.prefill([[*range(40), i, i] for i in range(7)])
    assert [height for height, _ in shapes] == [3, 3, 1]


def test_a_cache_counts_the_memory_of_all_layers() -> None:
    seam = CachedModel(build(BRANCHING["llama"]), frozenset())
    # tokens and two more, layers, keys and values, heads, width, bytes
    seam._memory = 21 * 3 * 2 * 2 * 8 * 4
    roots, _ = seam.prefill([range(i, i + 9) for i in (0, 20)])
    assert not seam.full
    more, _ = seam.prefill([range(40, 43)])
    assert seam.full
    seam.release(np.concatenate([roots, more]))
    assert not seam.full


def test_slots_that_contained_nan_are_clean_for_their_next_user() -> None:
    poison = 8
    model = spoilt(tf.LlamaConfig(**GROUPED, tie_word_embeddings=False), poison)
    used, fresh = CachedModel(model, frozenset()), CachedModel(model, frozenset())
    (broken,), _ = used.prefill([[poison] * 6])
    handles, logits = used.extend(np.array([broken] * 9), np.full(9, 7), np.zeros(9, dtype=bool))
    assert logits.isnan().all()
    used.release(np.array([broken, *handles]))
    got = []
    for seam in (used, fresh):
        parents, _ = seam.prefill([[1], [1, 2, 3, 4, 5]])
        got.append(seam.extend(parents, np.array([3, 4]), np.ones(2, dtype=bool))[1])
    assert torch.equal(*got)
    assert got[0].isfinite().all()


ALL = BRANCHING | JOINED | OTHERWISE


def sharp(layers: int) -> Any:
    """A model with nearly hard attention: rounding errors of a deep one change tokens."""
    model = build(tf.LlamaConfig(**{**GROUPED, "num_hidden_layers": layers}))
    with torch.no_grad():
        for layer in model.model.layers:
            for linear in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                linear.weight.mul_(40)
            for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
                linear.weight.mul_(20)
        model.lm_head.weight.mul_(20)
    return model


@BOTH_KINDS
@pytest.mark.parametrize(
    ("name", "dtype"),
    slow_but(
        [("llama", torch.float16), *((x, torch.bfloat16) for x in ("gpt2", "gemma2", "gpt-oss"))],
        product(ALL, [torch.bfloat16, torch.float16]),
    ),
)
def test_half_precision_branches_and_joins_what_float_does(name: str, dtype: torch.dtype) -> None:
    model = build(ALL[name]).to(dtype)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert note is None
    assert seam.cascade == (None if name in OTHERWISE else Cascade())


def test_roundings_of_many_layers_are_no_fault() -> None:
    """Another kernel's rounding changes the logits' distribution, but not the layers."""
    model = sharp(24).to(torch.bfloat16)
    plain = branching._forwards(RecomputedModel(model, frozenset()))
    joined = CachedModel(model, frozenset(), ALWAYS)
    apart = [
        float((a.softmax(-1) - b.softmax(-1)).abs().sum(-1).max() / 2)
        for a, b in zip(branching._forwards(joined), plain, strict=True)
    ]
    assert max(apart) > 0.2
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert (note, seam.cascade) == (None, Cascade())


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [
        *product(["forgets the past", "doubles its output"], [torch.float32]),
        *product(
            ["forgets the past", "doubles its output", "is a token behind"],
            [torch.bfloat16, torch.float16],
        ),
    ],
)
def test_a_layer_that_misuses_the_cache_is_refused(fault: str, dtype: torch.dtype) -> None:
    model = sharp(2).to(dtype)
    layer = model.model.layers[1].self_attn
    original = layer.forward

    def forward(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if fault == "forgets the past":
            return original(*args, past_key_values=None, **kwargs)
        if fault == "is a token behind" and past_key_values is not None:
            kwargs["position_embeddings"] = tuple(x.flip(-1) for x in kwargs["position_embeddings"])
        out, *rest = original(*args, past_key_values=past_key_values, **kwargs)
        return (2 * out if fault == "doubles its output" and out.shape[1] == 1 else out, *rest)

    layer.forward = forward
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert fault != "doubles its output" or dtype != torch.float32 or "logits with" in note
    assert seam.live == 0


@BOTH_KINDS
@pytest.mark.parametrize("where", ["embeddings", "head"])
def test_a_fault_outside_the_layers_shows_in_half_precision(where: str) -> None:
    model = sharp(2).to(torch.bfloat16)
    part = model.model.embed_tokens if where == "embeddings" else model.lm_head
    part.register_forward_hook(lambda _, __, out: out * 1.2 if out.shape[:2] == (3, 1) else out)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert ("attention" in note) == (where == "embeddings")


@pytest.mark.parametrize(("name", "ignored"), [("gemma2", "softcap"), ("gpt-oss", "s_aux")])
def test_an_ignored_part_of_attention_is_detected(
    name: str, ignored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(JOINED[name])
    with torch.no_grad():
        for layer in model.model.layers:  # scores that a cap of 50 changes
            layer.self_attn.q_proj.weight.mul_(3000)
            layer.self_attn.k_proj.weight.mul_(30)
    model = model.to(torch.bfloat16)
    model.set_attn_implementation("eager")  # SDPA of transformers 5.17 leaves the cap out
    joined = cascade.cascade_attention

    def without(*args: Any, **kwargs: Any) -> Any:
        return joined(*args, **{**kwargs, ignored: None})

    seam, _ = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert seam.cascade == Cascade()
    monkeypatch.setitem(cascade.AttentionInterface._global_mapping, cascade.NAME, without)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert (seam.cascade, note) == (None, None)


def test_layers_are_left_as_they_were() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        before = model(ids).logits
        prefix_model(model, frozenset())
        assert torch.equal(model(ids).logits, before)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_layers_of_another_kind_are_detected_by_their_logits() -> None:
    """They run twice, or their attention returns something else."""
    for runs_twice in (True, False):
        model = build(BRANCHING["llama"]).to(torch.bfloat16)
        layer = model.model.layers[0]
        once = layer.forward
        if runs_twice:
            layer.forward = lambda x, once=once, **named: once(once(x, **named), **named)
        else:
            layer.self_attn.register_forward_hook(lambda *_: (None, None))
        assert FedLayers.of(model, [[1, 2]]) is None
        assert not any(part._forward_pre_hooks for part in model.modules())


def test_a_broken_model_is_no_other_distribution() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    for part in (model.model.norm, model.model.layers[0].input_layernorm):
        with torch.no_grad():
            part.weight.fill_(torch.nan)
        assert isinstance(prefix_model(model, frozenset())[0], CachedModel)
