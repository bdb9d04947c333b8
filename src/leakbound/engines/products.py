"""Compute linear layers with oneDNN, which is faster than MKL on some CPUs.

torch multiplies float32 matrices with MKL. On AVX-512 processors that are not
from Intel, MKL reaches less than half the speed of oneDNN, which is also part
of torch. The library oneDNN reads the weights in place. So no weights are
copied, and later changes of the weights take effect. A call of oneDNN takes ten
to forty microseconds more than a call of MKL, so MKL computes small products.
Without AVX-512, MKL is as fast or faster, except for layers with many weights.
The choice depends only on the shape and the vector instructions of the CPU, so
draws are reproducible. The order of summation in oneDNN is different, so the
last bits of logits change, as with the shape of a batch. The margin of exact
masses includes this change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch.nn.functional import linear

LEAST = 1 << 20  # multiplications that take MKL about as long as the additional time of a call
HEAVY = 1 << 22  # without AVX-512, oneDNN is faster for layers with at least this number of weights

Product = Callable[[torch.Tensor], torch.Tensor]


class Products:
    """Compute large linear layers of a model with oneDNN inside the context `applied`.

    Outside this context, for example in training, layers are computed as usual. Layers that are not
    linear, not float32 or not on the CPU are never changed. If torch has no oneDNN, no layer is
    changed.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear]
        self._products = [(vars(x), _product(x)) for x in layers if _fits(x) and _is_there()]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Compute large products with oneDNN inside this context."""
        try:
            for own, product in self._products:
                own["forward"] = product  # has precedence over the method of the class
            yield
        finally:
            for own, _ in self._products:
                own.pop("forward", None)


def _fits(layer: torch.nn.Linear) -> bool:
    """Return whether oneDNN computes the layer faster, and the layer's `forward` is unchanged."""
    x, own = layer.weight, vars(layer)
    usual = x.dtype == torch.float32 and x.is_cpu and x.is_contiguous() and "forward" not in own
    return usual and (x.numel() >= HEAVY or torch.backends.cpu.get_cpu_capability() == "AVX512")


def _product(layer: torch.nn.Linear) -> Product:
    def multiply(x: torch.Tensor) -> torch.Tensor:
        weight, bias = layer.weight, layer.bias
        if x.numel() * len(weight) < LEAST:
            return linear(x, weight, bias)
        return _by_onednn(x, weight, bias)

    return multiply


def _by_onednn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


@cache
def _is_there() -> bool:
    """Return whether torch has oneDNN with this interface."""
    x = torch.ones(2, 3)
    try:
        return bool((_by_onednn(x, x, x[:, 0]) == 4).all())
    except (AttributeError, RuntimeError, TypeError):
        return False
