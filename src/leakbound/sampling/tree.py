"""The tree of a model's prefixes under one decoding, as searches grow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from leakbound.sampling.ending import Ended, Ending
from leakbound.sampling.forced import require_one_law
from leakbound.sampling.forest import Root, Stem, forward
from leakbound.sampling.model import Handles, PrefixModel
from leakbound.sampling.search import Settle
from leakbound.types import Decoding, Tell, Usage, untold


@dataclass(frozen=True, slots=True)
class SearchTree:
    """Which tree is searched, and by what means; what that cost is added to `usage`.

    `settle` tells the range of scores that generated ids can end with. `rows` prefixes at most
    are forwarded at a time; `margin`, `ended` and `tell` are the forest's. InputError for
    `two_pass`.
    """

    model: PrefixModel
    decoding: Decoding
    settle: Settle
    margin: float
    rows: int = 64
    ended: Ended | None = None
    tell: Tell = untold
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        require_one_law(self.decoding)

    @property
    def ending(self) -> Ending:
        """What ends a completion."""
        return Ending.of(self.model, self.decoding, self.ended)

    def prefill(self, root: Root) -> tuple[int, torch.Tensor]:
        """The handle of a prompt, and the logits after it."""
        self.usage.prompt_tokens += len(root.token_ids)
        return self.model.prefill(root.token_ids)

    def forward(self, stems: Sequence[Stem]) -> tuple[Handles, torch.Tensor]:
        """Handles of these prefixes, and the logits after them."""
        found = forward(self.model, stems)
        self.usage.forwards += len(stems)
        self.tell(0, len(stems))
        return found
