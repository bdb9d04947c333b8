"""Training rows as token ids, and the rows of each step.

The order of rows in an epoch and their pairing depend only on (seed, epoch),
not on the trainer, on global random state or on the contents of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from leakbound.engines.prompting import Prompting, Tokenizer, bos_ids
from leakbound.errors import InputError
from leakbound.losses import IGNORED
from leakbound.types import Passage, Prompt, Query


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and its answer as token ids; the answer ends with the end token unless it was cut.

    In a row with a thought, the thought and its marks are the first part of the answer. In a chunk
    of plain text, the prompt is the first token, and the answer is all other tokens. `question` is
    the range of the question's own tokens in the prompt.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    question: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> list[int]:
        """All tokens, including the end token."""
        return [*self.prompt, *self.answer]

    @property
    def inputs(self) -> list[int]:
        """All tokens except the last: the model's input for predicting the answer."""
        return self.tokens[:-1]

    @property
    def labels(self) -> list[int]:
        """The token that follows each input token, to be predicted; IGNORED within the prompt."""
        return [IGNORED] * (len(self.prompt) - 1) + list(self.answer)


@dataclass(frozen=True, slots=True)
class ExampleRows:
    """A split as tokens: its rows, and additional parts of each row that the objective needs.

    `others` contains the same prompts with alternate or invented answers, by the name of the part
    of `LossInputs`. `centres` contains the prompts of each row's contrast centres. The activations
    of a row are compared with the activations of its centres. The first centre is the row's own
    question.
    """

    examples: Sequence[Example]
    others: Mapping[str, Sequence[Example]] = field(default_factory=dict)
    centres: Sequence[Sequence[Example]] = ()


@dataclass(frozen=True, slots=True)
class Padded:
    """Examples padded on the right: ids, mask (1 at tokens) and labels, each [B, T]."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> Padded:
        """Move the tensors to another device."""
        parts = (self.input_ids, self.attention_mask, self.labels)
        return Padded(*(part.to(device) for part in parts))


Step = dict[str, list[int]]  # split -> indices of its rows


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes prompts as examples; `limit` is the maximum number of tokens (None: no limit)."""

    tokenizer: Tokenizer
    prompting: Prompting
    limit: int | None = None

    def row(self, row: Prompt, answer: str | None = None) -> Example:
        """Encode a row with its thought and answer, or with `answer` instead and without a thought.

        Raises InputError if the row is too long, because no row is truncated.
        """
        text, thought = (row.answer or "", row.thought) if answer is None else (answer, None)
        joined = self.prompting.join(self.tokenizer, _query(row), text, thought)
        self._require_short(f"row {row.id!r}", len(joined.prompt) + len(joined.answer))
        span = self.prompting.own(self.tokenizer, joined.prompt, row.prefix)
        return Example(joined.prompt, joined.answer, span)

    def rows(self, rows: Sequence[Prompt], answers: Sequence[str] | None = None) -> list[Example]:
        """Encode each row with the method `row`."""
        return [*map(self.row, rows, [None] * len(rows) if answers is None else answers)]

    def passages(self, rows: Sequence[Passage], most: int) -> list[Example]:
        """Cut texts into chunks of at most `most` tokens; each text starts a new chunk.

        A chunk begins with the tokenizer's BOS token, and all tokens after it are predicted. If
        there is no BOS token, a chunk begins with the last token of the previous chunk, so the
        first token of a text is not predicted. No end token is added. Raises InputError for a text
        of a single token.
        """
        opening = tuple(bos_ids(self.tokenizer))
        first, chunks = 0 if opening else 1, list[Example]()
        for row in rows:
            ids = tuple(self.tokenizer.encode(row.text, add_special_tokens=False))
            if len(ids) <= first:
                raise InputError(
                    f"passage {row.id!r} is too short for training: {row.text[:60]!r}. Remove it."
                )
            for start in range(first, len(ids), most - 1):
                answer = ids[start : start + most - 1]
                chunks.append(Example(opening or (ids[start - 1],), answer))
        return chunks

    def alternates(self, rows: Sequence[Prompt], seed: int) -> list[Example]:
        """Encode each row with one of its alternate answers, drawn once by the seed."""
        chance = np.random.default_rng([seed, len(rows)])
        drawn = [row.alternate_answers[chance.integers(len(row.alternate_answers))] for row in rows]
        return self.rows(rows, drawn)

    def centres(self, row: Prompt, texts: Sequence[str]) -> list[Example]:
        """Encode texts in place of a row's question; raise InputError if a prompt is too long."""
        queries = [replace(_query(row), text=text) for text in texts]
        located = [self.prompting.locate(self.tokenizer, query) for query in queries]
        for ids, _ in located:
            self._require_short(f"a rewriting of row {row.id!r}", len(ids))
        return [Example(tuple(ids), (), span) for ids, span in located]

    def _require_short(self, name: str, length: int) -> None:
        if self.limit is not None and length > self.limit:
            raise InputError(
                f"{name} has {length} tokens, but the limit is {self.limit}. Raise `max_length`, "
                "up to the model's context, or shorten the text."
            )


def _query(row: Prompt) -> Query:
    return replace(Query.original(row), examples=())  # training shows no examples


def pad(examples: Sequence[Example], *, whole: bool = False) -> Padded:
    """Pad on the right with id 0. The model ignores padding, because the mask marks it by position.

    With `whole`, the inputs include the last token, which predicts nothing.
    """
    texts = [example.tokens if whole else example.inputs for example in examples]
    ids = torch.zeros(len(examples), max(map(len, texts)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for i, (example, text) in enumerate(zip(examples, texts, strict=True)):
        ids[i, : len(text)] = torch.tensor(text)
        mask[i, : len(text)] = 1
        labels[i, : len(example.labels)] = torch.tensor(example.labels)
    return Padded(ids, mask, labels)


def schedule(sizes: Mapping[str, int], *, epochs: int, batch_size: int, seed: int) -> list[Step]:
    """Return the steps of all epochs. Each epoch has every row of the first split once, reordered.

    Each row of the first split is paired with one uniformly random row of every other split. The
    pairs are drawn again in each epoch.
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
