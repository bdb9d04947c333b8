"""The seam between the forest and whatever gives next-token logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Handles = NDArray[np.int64]
Ids = tuple[int, ...]


class PrefixModel(Protocol):
    """Next-token logits of prefixes, each held under a handle until it is released.

    A handle stands for a prompt and the tokens generated after it. Logits are those of the
    untruncated T = 1 model, rows × vocabulary, float32 or float64, on any device; −inf is a
    token of probability 0. NaN, +inf or a row without a finite entry makes that query fail.
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        """Read a prompt: its handle, and the logits after it (1 × vocabulary)."""
        ...

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """Lengthen parents by one token each: new handles, and the logits after each.

        `takes_over[i]` marks the last child a parent will ever have: its storage becomes the
        child's, and the parent's handle is gone.
        """
        ...

    def release(self, handles: Handles) -> None:
        """Forget prefixes that will not be extended."""
        ...


class WholePrefixes:
    """The handles of a model that reads every prefix from its first token.

    `logits` gives those after each of some prefixes, prompt and generated tokens together.
    """

    def __init__(self, logits: Callable[[Sequence[Ids]], torch.Tensor]) -> None:
        self._logits = logits
        self._prefixes: dict[int, Ids] = {}
        self._next = 0

    @property
    def held(self) -> int:
        """Handles not yet released."""
        return len(self._prefixes)

    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        (handle,), logits = self._hold([tuple(prompt)])
        return int(handle), logits

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        prefixes = [(*self._prefixes[parent], token) for parent, token in pairs]
        self.release(parents[takes_over])
        return self._hold(prefixes)

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        for handle in handles.tolist():
            del self._prefixes[handle]

    def _hold(self, prefixes: Sequence[Ids]) -> tuple[Handles, torch.Tensor]:
        handles = np.arange(self._next, self._next + len(prefixes))
        self._next += len(prefixes)
        self._prefixes.update(zip(handles.tolist(), prefixes, strict=True))
        return handles, self._logits(prefixes)
