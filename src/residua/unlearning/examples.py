"""Training rows as token ids, and which of them meet in which step.

The order of an epoch and its pairs are numbers of (seed, epoch) alone: they do not depend on the
trainer, on global random state or on the rows' contents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from residua.engines.prompting import Prompting, Tokenizer
from residua.errors import InputError
from residua.losses import IGNORED
from residua.types import Prompt


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and its answer as token ids; the answer ends with the end token."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def inputs(self) -> list[int]:
        """What the model reads: all tokens but the last."""
        return [*self.prompt, *self.answer[:-1]]

    @property
    def labels(self) -> list[int]:
        """What it must predict at each input, shifted by one; the prompt is not scored."""
        return [IGNORED] * (len(self.prompt) - 1) + list(self.answer)


@dataclass(frozen=True, slots=True)
class Padded:
    """Examples padded on the right: ids, mask (1 on tokens) and labels, each [B, T]."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> Padded:
        """The same on another device."""
        parts = (self.input_ids, self.attention_mask, self.labels)
        return Padded(*(part.to(device) for part in parts))


Step = dict[str, list[int]]  # split -> indices of its rows


def encode_rows(
    rows: Sequence[Prompt], tokenizer: Tokenizer, prompting: Prompting, *, limit: int | None
) -> list[Example]:
    """Tokenise rows; raises InputError for one longer than `limit` tokens, as nothing is cut."""
    examples = []
    for row in rows:
        prompt = prompting.encode(tokenizer, row.question, row.prefix)
        answer = prompting.encode_answer(tokenizer, row.answer or "")
        length = len(prompt) + len(answer)
        if limit is not None and length > limit:
            raise InputError(
                f"row {row.id!r} has {length} tokens, the limit is {limit}. "
                "Raise `max_length`, up to the model's context, or shorten the row."
            )
        examples.append(Example(tuple(prompt), tuple(answer)))
    return examples


def pad(examples: Sequence[Example]) -> Padded:
    """Pad on the right. The pad id is 0: the mask goes by position, so its value is never read."""
    width = max(len(example.inputs) for example in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for i, example in enumerate(examples):
        length = len(example.inputs)
        ids[i, :length] = torch.tensor(example.inputs)
        mask[i, :length] = 1
        labels[i, :length] = torch.tensor(example.labels)
    return Padded(ids, mask, labels)


def schedule(sizes: Mapping[str, int], *, epochs: int, batch_size: int, seed: int) -> list[Step]:
    """The steps of all epochs: the first split in a new order each epoch, every row once.

    Each of its rows is paired with one uniformly random row of every other split, new each epoch.
    """
    lead, *others = sizes
    steps = []
    for epoch in range(epochs):
        chance = np.random.default_rng([seed, epoch])
        order = chance.permutation(sizes[lead])
        epoch_rows = {lead: order}
        epoch_rows |= {name: chance.integers(sizes[name], size=len(order)) for name in others}
        for start in range(0, len(order), batch_size):
            part = slice(start, start + batch_size)
            steps.append({name: rows[part].tolist() for name, rows in epoch_rows.items()})
    return steps
