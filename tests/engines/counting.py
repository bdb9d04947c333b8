"""What a forest moves: transfers between host and device, and keys and values that are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leakbound.engines.prefix_cache import CachedModel

# Their results, or the shapes of these, hang on values: a GPU's host waits for them.
_WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal"}
_DOWN = {"cpu", "tolist", "item", "__bool__", "__int__", "__float__", "__index__"}
_UP = {"as_tensor", "from_numpy", "tensor"}


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func)).partition(".")[0]


class Waits(TorchDispatchMode):
    """Counts what would make a host wait for its GPU, by name; a mask as an index does."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        by_mask = name in {"index", "index_put", "index_put_"} and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        if name in _WAITING or by_mask:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


class Transfers(TorchFunctionMode):
    """Counts calls that take tensors off a device, or bring arrays there, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        to_cpu = name == "to" and torch.device("cpu") in map(_device_of, args[1:])
        if name in _DOWN | _UP or to_cpu:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def _device_of(value: Any) -> torch.device | None:
    """The device that an argument names; None where it names none."""
    if isinstance(value, torch.device):
        return value
    return torch.device(value) if value in {"cpu", "cuda"} else None


@contextmanager
def host_transfers() -> Iterator[Counter[str]]:
    """All of both kinds, counted on whatever device: what a GPU would be waited for."""
    found = Counter[str]()
    with Transfers() as transfers, Waits() as waits:
        yield found
    found.update(transfers.found)
    found.update(waits.found)


class _Gathers(TorchDispatchMode):
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


@contextmanager
def key_bytes(seam: CachedModel) -> Iterator[_Gathers]:
    """Bytes of keys and values that are read from where they are stored."""
    with _Gathers(seam) as gathers:
        yield gathers
