"""The model's forward pass, with logits made only where they are asked for.

For a vocabulary of 50,000 words the logits of a padded batch outweigh everything else; the
answer tokens are a third of it. The output head is therefore applied to their hidden states
alone, wherever one batch shows that this is what the model itself does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from residua.losses import labelled
from residua.unlearning.examples import Padded
from residua.unlearning.weights import blocks


class Forward(nn.Module):
    """`model` as training calls it; `narrow`: its head is applied to the places asked for alone.

    A module, so that what wraps a model for several processes or for autocast wraps this.
    """

    def __init__(self, model: Any, narrow: bool, layers: Sequence[int] = ()) -> None:
        super().__init__()
        self.model = model
        self.narrow = narrow
        self.layers = tuple(layers)

    def forward(
        self, batch: Padded, places: tuple[Tensor, ...]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Logits at `places` (rows and columns, each [K]), [K, V], and the layers' outputs.

        The outputs are those of the blocks `layers`, counted from 0 and before the final norm,
        each [B, T, d]. Without a place no head is applied.
        """
        ends, hidden = self.run(batch, places)
        return self.logits(ends), hidden

    def run(self, batch: Padded, places: tuple[Tensor, ...]) -> tuple[Tensor, dict[int, Tensor]]:
        """As `forward`, but what the head makes logits of, [K, d], in place of the logits.

        Where the head cannot stand alone these are the logits themselves.
        """
        run = self.model.get_decoder() if self.narrow else self.model
        with _outputs(self.model, self.layers) as hidden:
            output = run(
                input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False
            )
        made: Tensor = output.last_hidden_state if self.narrow else output.logits
        return made[places], hidden

    def logits(self, ends: Tensor) -> Tensor:
        """The logits [K, V] of `ends`."""
        if not self.narrow or not len(ends):
            return ends
        logits: Tensor = self.model.get_output_embeddings()(ends)
        return logits


def forward_for(model: Any, probe: Padded, layers: Sequence[int] = ()) -> Forward:
    """The cheapest exact forward pass: narrow if both ways agree on `probe`, else full.

    They differ for models that scale or cap their logits after the head.
    """
    places = labelled(probe.labels)
    with torch.no_grad():
        full, _ = Forward(model, narrow=False)(probe, places)
        try:
            narrow, _ = Forward(model, narrow=True)(probe, places)
        except (AttributeError, TypeError):  # no separate decoder, or no plain head
            return Forward(model, narrow=False, layers=layers)
    if narrow.shape != full.shape:
        return Forward(model, narrow=False, layers=layers)
    tolerance = max(2 * torch.finfo(full.dtype).eps, 1e-5) * full.abs().max()
    agree = bool((narrow - full).abs().max() <= tolerance)
    return Forward(model, narrow=agree, layers=layers)


@contextmanager
def _outputs(model: Any, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """What these blocks give out while the model runs."""
    found: dict[int, Tensor] = {}

    def keep(layer: int) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            found[layer] = output[0] if isinstance(output, tuple) else output

        return hook

    stack = blocks(model) if layers else ()
    handles = [stack[layer].register_forward_hook(keep(layer)) for layer in layers]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
