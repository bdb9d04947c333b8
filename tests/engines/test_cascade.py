"""Prompts read once for all of their rows: the distribution, the bytes and the transfers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from test_prefix_cache import ALWAYS, BRANCHING, GROUPED, OTHERWISE, VOCAB, build, spoilt
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leakbound.engines import prefix_cache
from leakbound.engines.branching import prefix_model
from leakbound.engines.cascade import Offered, Shared, Strips, attending, cascade_attention
from leakbound.engines.margin import shape_margin
from leakbound.engines.prefix_cache import CachedModel, Cascade
from leakbound.sampling import Forest, OutputTree, Root
from leakbound.types import Decoding, Draws


def full_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    hidden: torch.Tensor,
    softcap: float | None,
    sink: float | None,
) -> torch.Tensor:
    """Compute one softmax over all scores, term by term from its definition."""
    out = torch.zeros(len(query), values.shape[1], dtype=torch.float64)
    for i, q in enumerate(query):
        scores = [float(q @ k) / len(q) ** 0.5 for k in keys]
        scores = [softcap * float(np.tanh(s / softcap)) for s in scores] if softcap else scores
        masses = [0.0 if h else float(np.exp(s)) for s, h in zip(scores, hidden[i], strict=True)]
        total = sum(masses) + (0.0 if sink is None else float(np.exp(sink)))
        out[i] = sum((m / total) * v for m, v in zip(masses, values, strict=True))
    return out


SINKS = (1.5, -0.5, 0.0, 3.0)


@pytest.mark.parametrize(
    ("block", "sinks", "softcap"),
    [(None, None, None), (1, SINKS, None), (4000, None, 2.0), (None, SINKS, 2.0)],
)
@pytest.mark.parametrize("shape", [{3: 1}, {2: 200}, {5: 3, 9: 1, 1: 40, 7: 5}])
def test_strips_attend_as_by_one_softmax(
    shape: dict[int, int], block: int | None, sinks: Any, softcap: float | None
) -> None:
    """Rows after prompts of these lengths, four heads of two kinds; some keys are hidden."""
    sizes, rows, ahead = np.array([*shape.values()]), sum(shape.values()), max(shape)
    torch.manual_seed(rows)
    strips, after = Strips.of(sizes), np.repeat(np.arange(len(sizes)), sizes)
    prompts, past = (
        3 * torch.randn(2, *x, 8).double() for x in ((len(sizes), 2, ahead), (rows, 2, 5))
    )
    query, hidden = 3 * torch.randn(rows, 4, 1, 8).double(), torch.rand(rows, ahead + 5) < 0.3
    hidden[:, :ahead] |= torch.arange(ahead) >= torch.tensor([*shape])[after, None]
    hidden[0], hidden[:, -1] = True, False  # one row sees only itself; every row sees itself
    mask = torch.zeros(hidden.shape).double().masked_fill_(hidden, -1e300)[:, None, None]
    places = map(torch.from_numpy, (strips.rows, strips.places))
    shared, (new, other) = Shared(block, strips.starts.tolist(), *places), past[..., -1:, :]
    of_rows, of_strips = (
        (lambda some, x=x: (*x[:, some],)) for x in (past, prompts[:, strips.prompts])
    )
    shared.offer(Offered((new, other), 5, 640, of_rows, ahead, of_strips))
    more = {"softcap": softcap, "s_aux": None if sinks is None else torch.tensor(sinks).double()}
    with attending(SimpleNamespace(_attn_implementation="sdpa"), shared):
        got, _ = cascade_attention(None, query, new, other, mask, **more)
    for row, head in product({0, rows // 2, rows - 1}, range(4)):
        seen = (prompts[:, after[row], head // 2], past[:, row, head // 2])
        sink = None if sinks is None else sinks[head]
        want = full_attention(
            query[row, head], *torch.cat(seen, 1), hidden[row, None], softcap, sink
        )
        assert (got[row, 0, head] - want).abs().max() < 1e-13


@pytest.mark.parametrize("name", OTHERWISE)
def test_other_attention_reads_whole_paths_correctly(name: str) -> None:
    model = build(OTHERWISE[name])
    seam, _ = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert seam.cascade is None
    forced = CachedModel(model, frozenset(), ALWAYS)
    handles, _ = forced.prefill([[1, 2, 3]])
    before = model.config._attn_implementation
    with pytest.raises(RuntimeError):  # its operations or its masks fail
        forced.extend(handles, np.array([4]), np.array([False]))
    assert model.config._attn_implementation == before
    ids = torch.tensor([[1, 2, 3, 4]])
    handles, _ = seam.prefill([[1, 2, 3]])
    _, logits = seam.extend(handles, np.array([4]), np.array([True]))
    with torch.inference_mode():
        assert (logits - model(ids).logits[:, -1]).abs().max() < 1e-5


def test_a_broken_prompt_does_not_spoil_its_neighbours() -> None:
    model = spoilt(BRANCHING["llama"], 8)
    seam, alone = (CachedModel(model, frozenset(), ALWAYS) for _ in range(2))
    tokens, over = np.array([3, 4, 6, 7]), np.zeros(4, dtype=bool)
    (bad, good), _ = seam.prefill([[8, 1, 2], [1, 2, 3, 4]])
    _, logits = seam.extend(np.array([bad, good, bad, good]), tokens, over)
    assert logits[[0, 2]].isnan().all()
    roots, _ = alone.prefill([[1, 2, 3, 4]])
    _, want = alone.extend(np.repeat(roots, 2), tokens[[1, 3]], over[:2])
    assert (logits[[1, 3]] - want).abs().max() < 1e-6


# The size of their results depends on values: a GPU's host waits for them.
_WAITING = {"_local_scalar_dense", "masked_select", "_unique2", "unique_dim", "equal"}
_DOWN = {"cpu", "nonzero", "tolist", "item", "__bool__", "__int__", "__float__", "__index__"}
_UP = {"as_tensor", "from_numpy", "tensor"}


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func)).partition(".")[0]


class Waits(TorchDispatchMode):
    """Counts operations that make a host wait for its GPU; indexing by a mask does."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        by_mask = name in {"index", "index_put", "index_put_"} and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        if name in _WAITING or by_mask:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class Transfers(TorchFunctionMode):
    """Counts calls that move tensors off a device, or arrays to it."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        if name in _DOWN | _UP or (name == "to" and "cpu" in map(str, args[1:])):
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class KeyBytes(TorchDispatchMode):
    """Counts bytes of keys and values that are read from their storage."""

    def __init__(self, seam: CachedModel) -> None:
        super().__init__()
        self.bytes, self._pools = 0, seam._cache._pools

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _name(func) == "index_select" and any(
            args[0].data_ptr() == pool.data_ptr() for pool in self._pools
        ):
            self.bytes += result.numel() * result.element_size()
        return result


LONG = GROUPED | {"max_position_embeddings": 200}


@pytest.mark.parametrize(
    ("prompts", "rows", "pays"),
    [([64], 4, True), ([63], 40, False), ([64], 3, False), ([64, 5], 4, True)],
)
def test_shapes_decide_if_prompts_are_read_once(prompts: list[int], rows: int, pays: bool) -> None:
    seam, _ = prefix_model(build(tf.LlamaConfig(**LONG)), frozenset())
    roots, _ = seam.prefill([[i + 1] * n for i, n in enumerate(prompts)])
    handles, read = np.repeat(roots, rows), []
    for step in range(3):
        tokens, over = np.arange(len(handles)) + step, np.full(len(handles), step > 0)
        with KeyBytes(seam) as gathered:
            handles, _ = seam.extend(handles, tokens % VOCAB, over)
        read.append(gathered.bytes)
    token, every = 2 * 2 * 8 * 4 * 3, rows * len(prompts)  # bytes of keys, values in all layers
    shared, alone = (len(prompts) * max(prompts), 0) if pays else (0, max(prompts))
    assert read == [token * (shared + every * (alone + own)) for own in (1, 2, 3)]


def test_a_margin_counts_prompts_that_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if 64 rows are too few for all prompts, as in an evaluation."""
    seam, _ = prefix_model(build(tf.LlamaConfig(**LONG | {"num_hidden_layers": 1})), frozenset())
    joined = []
    share = prefix_cache._Gathered.share

    def noted(cache: Any, shared: Shared) -> Any:
        joined.append(shared._starts[-1])
        return share(cache, shared)

    monkeypatch.setattr(prefix_cache._Gathered, "share", noted)
    prompts = [tuple(i % VOCAB for i in range(19 + 8 * j)) for j in range(20)]
    shape_margin(seam, prompts[:3])
    assert joined == []  # none of 64 tokens
    shape_margin(seam, prompts)
    assert joined == [64] * 4  # steps
    assert seam.cascade == Cascade()


def transfers(layers: int, n: int, decoding: Decoding) -> int:
    config = tf.LlamaConfig(**LONG | {"num_hidden_layers": layers})
    seam, _ = prefix_model(build(config), frozenset())
    assert isinstance(seam, CachedModel)
    forest = Forest(OutputTree(seam, decoding, 1e-5, rows=4096), Draws(sizes=(n,), seed=1))
    with Transfers() as transfers, Waits() as waits:
        (tree,) = forest.sample([Root("q", tuple(range(1, 10)) * 8)])
    assert sum(leaf.counts[0] for leaf in tree.leaves) == n
    return transfers.counts.total() + waits.counts.total()


@pytest.mark.parametrize(
    ("decoding", "most"),
    [
        (Decoding(), 4),
        (Decoding(temperature=0.0), 4),
        (Decoding(top_p=0.9), 6),
        (Decoding(top_k=5), 6),
    ],
)
def test_transfers_of_a_step_grow_with_no_rows_or_layers(decoding: Decoding, most: int) -> None:
    short = transfers(2, 40, replace(decoding, max_new_tokens=3))
    long = transfers(4, 90, replace(decoding, max_new_tokens=5))
    assert long - short == 2 * most
