"""Large products use oneDNN, within forwards only."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
import transformers as tf
from test_prefix_cache import VOCAB, build

from leakbound.engines import products
from leakbound.engines.branching import prefix_model
from leakbound.engines.margin import shape_margin
from leakbound.engines.prefix_cache import RecomputedModel
from leakbound.engines.products import Products
from leakbound.sampling import Forest, OutputTree, Root
from leakbound.types import Decoding, Draws
from tiny import BOTH_KINDS

WIDE = tf.LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
)


@pytest.fixture(autouse=True, params=["AVX512"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the processor has AVX-512."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: request.param)


@pytest.mark.parametrize("vectors", ["AVX2"], indirect=True)
def test_without_wide_vectors_few_weights_stay_with_mkl() -> None:
    layers = [torch.nn.Linear(2048, height) for height in (2047, 2048)]
    with Products(torch.nn.ModuleList(layers)).applied():
        assert ["forward" in vars(layer) for layer in layers] == [False, True]


@pytest.mark.parametrize(("rows", "large"), [(31, False), (32, True), (33, True)])
@pytest.mark.parametrize("bias", [False, True])
@torch.inference_mode()
def test_a_product_goes_by_its_shape(rows: int, large: bool, bias: bool) -> None:
    """From 2^20 multiplications oneDNN computes it, equal up to rounding."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(128, 256, bias=bias)
    x = torch.randn(rows, 1, 128)
    want, made = layer(x), Products(layer)
    with patch.object(products, "_by_onednn", wraps=products._by_onednn) as by_onednn:
        with made.applied():
            got = layer(x)
        assert by_onednn.called == large
    assert torch.equal(got, want) or large
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_layers_are_as_they_were_elsewhere() -> None:
    """After a forward and after one that failed; products use the current weights."""
    layer, x = torch.nn.Linear(128, 256), torch.ones(32, 128)
    made = Products(layer)

    def fails() -> None:
        with made.applied():
            assert "forward" in vars(layer)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert "forward" not in vars(layer)
    layer.weight.fill_(2.0)
    layer.bias.fill_(1.0)
    with made.applied():
        assert (layer(x) == 257).all()


class _Own(torch.nn.Linear):
    """A linear layer of another kind."""


def test_other_layers_are_left_as_they_are() -> None:
    half, turned, given = (torch.nn.Linear(128, 256) for _ in range(3))
    half.bfloat16()
    turned.weight = torch.nn.Parameter(torch.ones(128, 256).T)
    vars(given)["forward"] = forward = given.forward
    layers = [_Own(128, 256), half, turned, given]
    with Products(torch.nn.ModuleList(layers)).applied():
        assert [vars(layer).get("forward") for layer in layers] == [None, None, None, forward]
    assert vars(given)["forward"] is forward


def test_without_onednn_torch_multiplies() -> None:
    layer = torch.nn.Linear(128, 256)
    products._is_there.cache_clear()
    try:
        with patch.object(products, "_by_onednn", side_effect=AttributeError("no such operator")):
            made = Products(layer)
        with made.applied():
            assert "forward" not in vars(layer)
    finally:
        products._is_there.cache_clear()
    assert products._is_there()


@BOTH_KINDS
def test_products_differ_by_less_than_the_margin() -> None:
    """Without oneDNN the result equals the plain model's to the bit."""
    model = build(WIDE)
    margin = shape_margin(prefix_model(model, frozenset([5]))[0], [(1, 2, 3)])
    got = []
    for there in (False, True):
        with (
            patch.object(products, "_is_there", return_value=there),
            patch.object(products, "_by_onednn", wraps=products._by_onednn) as by_onednn,
        ):
            seam, _ = prefix_model(model, frozenset([5]))
            forest = Forest(
                OutputTree(seam, Decoding(max_new_tokens=4)), Draws(sizes=(200,), seed=1)
            )
            (tree,) = forest.sample([Root("q", (1, 2, 3))])
        assert by_onednn.called == there
        got.append({leaf.token_ids: leaf.logprob for leaf in tree.leaves})
    plain, fast = got
    both = plain.keys() & fast.keys()
    assert len(both) > 0.9 * len(plain)
    assert all(abs(plain[ids] - fast[ids]) <= margin * len(ids) for ids in both)
    with patch.object(products, "_is_there", return_value=False):
        whole = RecomputedModel(model, frozenset())
    ids = [[i, 2, 3] for i in range(VOCAB)]
    with torch.inference_mode():
        want = model(torch.tensor(ids), use_cache=False).logits[:, -1]
        assert torch.equal(whole._read(ids), want)
