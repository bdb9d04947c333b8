"""The seam between the forest and whatever gives next-token logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Handles = NDArray[np.int64]


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
