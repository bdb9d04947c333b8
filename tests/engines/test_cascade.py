"""Prompts read once for all of their rows: the law, the bytes and the transfers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from counting import host_transfers, key_bytes
from test_prefix_cache import BRANCHING, GROUPED, SIZES, SMALL_HEADS, VOCAB, build, grow

from leakbound.engines import prefix_cache
from leakbound.engines.branching import prefix_model
from leakbound.engines.cascade import (
    NAME,
    Attended,
    NotJoinedError,
    attend,
    cascade_attention,
    join,
)
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.margin import shape_margin
from leakbound.engines.prefix_cache import CachedModel, Cascade, RecomputedModel
from leakbound.sampling import Forest, Root
from leakbound.types import Decoding, Draws
from tiny import tiny_model_folder

ALWAYS = Cascade(tokens=1, rows=1)
OTHERWISE = {  # attention that cannot be computed in parts here: whole paths are gathered
    "deepseek-v3": BRANCHING["deepseek-v3"],
    "falcon": tf.FalconConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=0,
        eos_token_id=0,
    ),
}
QUICK = {"llama", "gemma2", "gpt-oss"}  # grouped heads; windows and caps; sinks
JOINED = {name: config for name, config in BRANCHING.items() if name not in OTHERWISE} | {
    "gpt-oss": tf.GptOssConfig(  # sinks, and windows
        **SMALL_HEADS,
        sliding_window=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    "cohere2": tf.Cohere2Config(**GROUPED, sliding_window=3, bos_token_id=0, eos_token_id=0),
    "opt": tf.OPTConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=96,
    ),
}


def full_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor,
    softcap: float | None,
    sink: float | None,
) -> torch.Tensor:
    """The oracle: one softmax over all scores, term by term from its definition."""
    out = torch.zeros(len(query), values.shape[1], dtype=torch.float64)
    for i, q in enumerate(query):
        scores = [float(q @ k) / len(q) ** 0.5 for k in keys]
        scores = [softcap * float(np.tanh(s / softcap)) for s in scores] if softcap else scores
        masses = [0.0 if h else float(np.exp(s)) for s, h in zip(scores, hidden[i], strict=True)]
        total = sum(masses) + (0.0 if sink is None else float(np.exp(sink)))
        out[i] = sum((m / total) * v for m, v in zip(masses, values, strict=True))
    return out


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sink", [None, 1.5])
@pytest.mark.parametrize("cuts", [(4,), (1, 9), (2, 3, 7)])
def test_parts_join_to_one_softmax(
    cuts: tuple[int, ...], sink: float | None, softcap: float | None
) -> None:
    torch.manual_seed(sum(cuts))
    query, keys, values = (3 * torch.randn(n, 8, dtype=torch.float64) for n in (5, 10, 10))
    hidden = torch.rand(5, 10) < 0.3
    hidden[:, -1] = False  # a token sees itself
    hidden[0, :-1] = True  # one sees nothing else
    mask = torch.zeros(5, 10, dtype=torch.float64).masked_fill_(hidden, -1e300)
    pieces = zip(
        *(x.tensor_split(cuts, dim) for x, dim in ((keys, 0), (values, 0), (mask, 1))), strict=True
    )
    parts = [attend(query, k, v, m, 8**-0.5, softcap) for k, v, m in pieces]
    if sink is not None:
        parts.append(Attended(torch.zeros_like(parts[0].values), torch.full((5, 1), sink).double()))
    want = full_attention(query, keys, values, hidden, softcap, sink)
    assert (join(parts) - want).abs().max() < 1e-13


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in JOINED],
)
def test_joined_attention_gives_the_logits_of_plain_forwards(name: str) -> None:
    """Prompts of 1 to 10 tokens side by side, past every window."""
    model = build(JOINED[name])
    seam, note = prefix_model(model, frozenset([5]))
    assert isinstance(seam, CachedModel)
    assert seam.cascade == Cascade()
    assert note is None
    joined = CachedModel(model, frozenset([5]), ALWAYS)
    before = model.config._attn_implementation
    cached, plain = grow(joined, rows=50), grow(RecomputedModel(model, frozenset([5])), rows=9)
    assert joined.held == 0
    assert model.config._attn_implementation == before
    for a, b in zip(cached, plain, strict=True):
        assert [leaf.token_ids for leaf in a.leaves] == [leaf.token_ids for leaf in b.leaves]
        assert [leaf.counts for leaf in a.leaves] == [leaf.counts for leaf in b.leaves]
        for x, y in zip(a.leaves, b.leaves, strict=True):
            assert abs(x.logprob - y.logprob) < 2e-5


@pytest.mark.parametrize("name", OTHERWISE)
def test_attention_of_another_kind_reads_whole_paths_and_is_right(name: str) -> None:
    model = build(OTHERWISE[name])
    seam, _ = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert seam.cascade is None
    forced = CachedModel(model, frozenset(), ALWAYS)
    handle, _ = forced.prefill([1, 2, 3])
    before = model.config._attn_implementation
    with pytest.raises(NotJoinedError):
        forced.extend(np.array([handle]), np.array([4]), np.array([False]))
    assert model.config._attn_implementation == before
    ids = torch.tensor([[1, 2, 3, 4]])
    handle, _ = seam.prefill([1, 2, 3])
    _, logits = seam.extend(np.array([handle]), np.array([4]), np.array([True]))
    with torch.inference_mode():
        assert (logits - model(ids).logits[:, -1]).abs().max() < 1e-5


def test_the_attention_function_serves_no_one_else() -> None:
    with pytest.raises(NotJoinedError, match=NAME):
        cascade_attention(None, *torch.zeros(3, 1, 1, 1, 1), None)


def test_rows_of_mixed_prompts_and_depths_get_the_logits_of_plain_forwards() -> None:
    """Rows of several prompts in any order, some a step ahead of others."""
    rng = np.random.default_rng(3)
    model = build(BRANCHING["qwen2-mixed-windows"])
    seam, plain = CachedModel(model, frozenset(), ALWAYS), RecomputedModel(model, frozenset())
    pairs = [
        (seam.prefill(ids)[0], plain.prefill(ids)[0])
        for ids in ([1, 2, 3, 4, 5], [1, 2, 3], [9], [1, 2, 3, 4, 5, 6, 7, 8])
    ]
    for _ in range(8):
        some = rng.integers(0, len(pairs), 9)
        mine, others = np.array(pairs)[some].T
        tokens, over = rng.integers(0, VOCAB, 9), np.zeros(9, dtype=bool)
        handles, logits = seam.extend(mine, tokens, over)
        theirs, want = plain.extend(others, tokens, over)
        assert (logits - want).abs().max() < 1e-5
        pairs += zip(handles.tolist(), theirs.tolist(), strict=True)


def test_a_broken_prompt_does_not_spoil_its_neighbours() -> None:
    model = build(BRANCHING["llama"])
    with torch.no_grad():
        model.model.embed_tokens.weight[8] = float("nan")
    seam, alone = (CachedModel(model, frozenset(), ALWAYS) for _ in range(2))
    tokens, over = np.array([3, 4, 6, 7]), np.zeros(4, dtype=bool)
    (bad, _), (good, _) = seam.prefill([8, 1, 2]), seam.prefill([1, 2, 3, 4])
    _, logits = seam.extend(np.array([bad, good, bad, good]), tokens, over)
    assert logits[[0, 2]].isnan().all()
    root, _ = alone.prefill([1, 2, 3, 4])
    _, want = alone.extend(np.array([root, root]), tokens[[1, 3]], over[:2])
    assert (logits[[1, 3]] - want).abs().max() < 1e-6


def steps_of(seam: Any, prompts: list[list[int]], rows: int, steps: int) -> list[int]:
    """Bytes of keys and values read at each step of so many rows a prompt."""
    roots = [seam.prefill(prompt)[0] for prompt in prompts]
    handles, found = np.repeat(roots, rows), []
    for step in range(steps):
        tokens = (np.arange(len(handles)) + step) % VOCAB
        over = np.full(len(handles), step > 0)
        with key_bytes(seam) as read:
            handles, _ = seam.extend(handles, tokens, over)
        found.append(read.bytes)
    return found


def test_the_keys_of_a_prompt_are_read_once_a_query_and_step() -> None:
    config = tf.LlamaConfig(**{**GROUPED, "max_position_embeddings": 200})
    model, token = build(config), 2 * 2 * 8 * 4 * 3  # keys, values: heads × width × bytes × layers
    first, second = list(range(1, 61)), [*range(1, 31), *range(2, 12)]
    joined = CachedModel(model, frozenset(), Cascade(tokens=60, rows=4))
    assert steps_of(joined, [first, second], 25, 3) == [
        token * (60 + 40 + 50 * own) for own in (1, 2, 3)
    ]
    gathered = CachedModel(model, frozenset())
    assert steps_of(gathered, [first, second], 25, 3) == [
        token * 50 * (60 + own) for own in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("prompts", "rows", "pays"),
    [([64], 4, True), ([63], 4, False), ([64], 3, False), ([64, 5], 4, True), ([5, 5], 9, False)],
)
def test_shapes_alone_say_whether_prompts_are_read_once(
    prompts: list[int], rows: int, pays: bool
) -> None:
    config = tf.LlamaConfig(**{**GROUPED, "max_position_embeddings": 200})
    seam, _ = prefix_model(build(config), frozenset())
    whole = steps_of(seam, [[i + 1] * n for i, n in enumerate(prompts)], rows, 1)
    token = 2 * 2 * 8 * 4 * 3
    once = sum(prompts) + rows * len(prompts)
    assert whole == [token * (once if pays else rows * len(prompts) * (max(prompts) + 1))]


def test_a_margin_is_measured_on_rows_that_read_their_prompt_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tf.LlamaConfig(**{**SIZES, "max_position_embeddings": 200})
    seam, _ = prefix_model(build(config), frozenset())
    joined = []
    share = prefix_cache._Gathered.share

    def noted(cache: Any, sizes: list[int]) -> Any:
        joined.append(sum(sizes))
        return share(cache, sizes)

    monkeypatch.setattr(prefix_cache._Gathered, "share", noted)
    prompts = [tuple(i % VOCAB for i in range(19 + 10 * j)) for j in range(8)]
    shape_margin(seam, prompts[:4])
    assert joined == []  # none of 64 tokens
    shape_margin(seam, prompts)
    assert joined == [64] * 4


def transfers(layers: int, n: int, decoding: Decoding, prompt: int = 70) -> tuple[int, int]:
    """Transfers of a forest of so many draws, and its steps."""
    config = tf.LlamaConfig(
        **{**GROUPED, "num_hidden_layers": layers, "max_position_embeddings": 200}
    )
    seam, _ = prefix_model(build(config), frozenset())
    assert isinstance(seam, CachedModel)
    forest = Forest(seam, decoding, Draws(sizes=(n,), seed=1), rows=4096)
    with host_transfers() as found:
        (tree,) = forest.sample([Root("q", tuple(range(1, prompt % VOCAB)) * 2)])
    assert sum(leaf.counts[0] for leaf in tree.leaves) == n
    return found.total(), decoding.max_new_tokens


@pytest.mark.parametrize(
    ("decoding", "most"),
    [
        (Decoding(max_new_tokens=4), 8),
        (Decoding(max_new_tokens=4, temperature=0.5), 8),
        (Decoding(max_new_tokens=4, top_p=0.9), 16),
        (Decoding(max_new_tokens=4, top_k=5), 16),
    ],
)
def test_a_step_makes_few_transfers_whatever_the_rows_and_layers(
    decoding: Decoding, most: int
) -> None:
    found = [transfers(layers, n, decoding) for layers, n in ((2, 40), (2, 600), (6, 600))]
    assert len(set(found)) == 1
    total, steps = found[0]
    assert 2 * steps <= total <= most * steps


def test_an_engine_says_when_it_reads_prompts_once(tmp_path: Path) -> None:
    """Beside the threads: the draws hang on it, and the law does not."""
    engine = TransformersEngine.open(str(tiny_model_folder(tmp_path / "m")), device="cpu")
    assert engine.machine["prompts_read_once"] == {"tokens": 64, "rows": 4}
    assert "prompts_read_once" not in engine.fingerprint
