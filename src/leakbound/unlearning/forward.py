"""The model's forward pass, without computations whose results are not used.

For a vocabulary of 50,000 tokens the logits of a padded batch need more memory than everything
else, and only a third of the tokens are answer tokens. So the output head is applied only to the
hidden states of answer tokens. To reduce padding, two rows of the data share one row of the batch,
called a line. Each of these two methods is used only if the logits on a test batch stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakbound.engines.branching import blocks
from leakbound.losses import labelled
from leakbound.unlearning.examples import Padded

Places = tuple[Tensor, ...]  # rows and columns, each [K]


@dataclass(frozen=True, slots=True)
class Lines:
    """The positions of the tokens of B rows in lines, where a short row follows a long row.

    `line` and `start` are the line of each row and its first position in the line, [B]. `width` is
    the length of the longest line. The i-th longest row is the first row of the i-th of n lines. If
    B is even, the shortest row follows the longest row, the second shortest row follows the second
    longest row, and so on. If B is odd, the longest row has its own line, and the other rows are
    paired in the same way. No other pairing has a shorter longest line.
    """

    line: Tensor
    start: Tensor
    width: int

    @classmethod
    def of(cls, mask: Tensor) -> Lines:
        """Return the lines of rows; `mask` [B, T] is true at the tokens of the rows."""
        lengths = mask.sum(dim=1)
        order = lengths.argsort(descending=True, stable=True)
        place, count = torch.arange(len(order), device=mask.device), (len(order) + 1) // 2
        line = torch.empty_like(order).scatter_(0, order, place.minimum(2 * count - 1 - place))
        second = torch.zeros_like(order).scatter_(0, order, (place >= count).long())
        start = second * lengths[order[line]]
        return cls(line, start, int((start + lengths).max()))

    def at(self, places: Places) -> Places:
        """Convert positions in the rows to positions in the lines."""
        row, column = places
        return self.line[row], self.start[row] + column

    def inputs(self, batch: Padded) -> dict[str, Tensor]:
        """Return the model's inputs. Position ids restart with each row, to separate the rows.

        There is no mask, because with a mask transformers ignores the position ids.
        """
        places = batch.attention_mask.nonzero(as_tuple=True)
        ids = batch.input_ids.new_zeros(int(self.line.max()) + 1, self.width)
        positions = torch.zeros_like(ids)
        ids[self.at(places)] = batch.input_ids[places]
        positions[self.at(places)] = places[1]
        return {"input_ids": ids, "position_ids": positions}

    def rows(self, values: Tensor, batch: Padded) -> Tensor:
        """Move values of the lines [n, width, d] to the rows [B, T, d], with 0 on padding."""
        places = batch.attention_mask.nonzero(as_tuple=True)
        padded = values.new_zeros(*batch.input_ids.shape, values.shape[-1])
        return padded.index_put(places, values[self.at(places)])


class Forward(nn.Module):
    """The forward pass of a model, as a torch module.

    If `narrow`, the output head is applied only to the requested places. If `paired`, two rows
    share a line. Wrappers for several processes or autocast can wrap this module in place of the
    model.
    """

    def __init__(
        self, model: Any, narrow: bool, layers: Sequence[int] = (), *, paired: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.narrow = narrow
        self.layers = tuple(layers)
        self.paired = paired

    def forward(self, batch: Padded, places: Places) -> tuple[Tensor, dict[int, Tensor]]:
        """Return the logits at `places`, [K, V], and the outputs of the blocks `layers`.

        `places` contains rows and columns, each [K]. The blocks' outputs are before the final norm,
        each [B, T, d]; blocks are counted from 0. Without places, the head is not applied.
        """
        ends, hidden = self.run(batch, places)
        return self.logits(ends), hidden

    def run(self, batch: Padded, places: Places) -> tuple[Tensor, dict[int, Tensor]]:
        """Run the model without its head; return the head's inputs at `places`, [K, d].

        The second result contains the outputs of the blocks `layers`. If the head cannot be
        separated, the first result is the logits.
        """
        lines = Lines.of(batch.attention_mask) if self.paired else None
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        run = self.model.get_decoder() if self.narrow else self.model
        with _outputs(self.model, self.layers) as hidden:
            output = run(**(lines.inputs(batch) if lines else inputs), use_cache=False)
        ends: Tensor = output.last_hidden_state if self.narrow else output.logits
        if lines is None:
            return ends[places], hidden
        return ends[lines.at(places)], {k: lines.rows(v, batch) for k, v in hidden.items()}

    def logits(self, ends: Tensor) -> Tensor:
        """Return the logits [K, V] of `ends`."""
        if not self.narrow or not len(ends):
            return ends
        logits: Tensor = self.model.get_output_embeddings()(ends)
        return logits


def forward_for(model: Any, probe: Padded, layers: Sequence[int] = ()) -> Forward:
    """Return the cheapest exact forward pass: narrow and paired if each changes nothing on `probe`.

    The pass is not narrow for models that scale or cap their logits after the head. It is not
    paired for models that do not separate the rows of a line by their position ids.
    """
    parts = (probe.input_ids, probe.attention_mask, probe.labels)
    twice = Padded(*(torch.cat([part, part]) for part in parts))  # a single row could not be paired
    plain = Forward(model, narrow=False)
    narrow = _same(Forward(model, narrow=True), plain, twice)
    paired = _same(Forward(model, narrow=False, paired=True), plain, twice)
    return Forward(model, narrow, layers, paired=paired)


def _same(variant: Forward, plain: Forward, probe: Padded) -> bool:
    """Return whether two forward passes give the same logits on `probe`, up to rounding."""
    places = labelled(probe.labels)
    with torch.no_grad():
        expected, _ = plain(probe, places)
        try:
            logits, _ = variant(probe, places)
        except (AttributeError, TypeError):  # no separate decoder, no plain head, no positions
            return False
    if logits.shape != expected.shape:
        return False
    tolerance = max(2 * torch.finfo(expected.dtype).eps, 1e-5) * expected.abs().max()
    return bool((logits - expected).abs().max() <= tolerance)


@contextmanager
def _outputs(model: Any, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """Record the outputs of these blocks while the model runs."""
    outputs: dict[int, Tensor] = {}

    def keep(layer: int) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            outputs[layer] = output[0] if isinstance(output, tuple) else output

        return hook

    stack = blocks(model) if layers else ()
    handles = [stack[layer].register_forward_hook(keep(layer)) for layer in layers]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
