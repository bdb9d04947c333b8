"""The protocol of a model that computes next-token logits of prefixes, and a fake for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.types import Decoding, Finish, Tell, Usage, untold

Handles = NDArray[np.int64]
Ids = tuple[int, ...]


class PrefixModel(Protocol):
    """Next-token logits of prefixes, each of which has a handle until it is released.

    A handle refers to a prompt and the tokens generated after it. Logits belong to the untruncated
    T = 1 model, [rows, vocabulary], in float32 or float64, on any device. −inf marks a token of
    probability 0. NaN, +inf or a row without a finite entry makes the query of this row fail.

    Attributes:
        vocab_size: the number of tokens in the vocabulary.
        eos_token_ids: the end tokens.
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    @property
    def full(self) -> bool:
        """Whether the stored prefixes leave no room for another prompt."""
        ...

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        """Compute the logits after prompts, and assign a handle to each prompt.

        Args:
            prompts: the token ids of n prompts.

        Returns:
            The handles of the prompts, [n], and the logits after each prompt, [n, vocabulary].
        """
        ...

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """Lengthen prefixes by one token each.

        Args:
            parents: handles of prefixes, [n]; a handle may occur several times.
            tokens: the token that is appended to each prefix, [n].
            takes_over: marks the last child that a parent will have, [n]. This child takes over the
                parent's storage, and the parent's handle becomes invalid.

        Returns:
            New handles, [n], and the logits after each, [n, vocabulary].
        """
        ...

    def release(self, handles: Handles) -> None:
        """Release prefixes that will not be extended.

        Args:
            handles: the handles of these prefixes.
        """
        ...


class WholePrefixes:
    """A `PrefixModel` without a cache: it computes every prefix from the first token.

    Args:
        logits: returns the logits after each of n prefixes, [n, vocabulary]; a prefix consists of
            the prompt and the generated tokens.
    """

    def __init__(self, logits: Callable[[Sequence[Ids]], torch.Tensor]) -> None:
        self._logits = logits
        self._prefixes: dict[int, Ids] = {}
        self._next = 0

    @property
    def live(self) -> int:
        """The number of handles that are not yet released."""
        return len(self._prefixes)

    @property
    def full(self) -> bool:
        """See `PrefixModel.full`."""
        return False

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        return self._add([tuple(prompt) for prompt in prompts])

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        prefixes = [(*self._prefixes[parent], token) for parent, token in pairs]
        self.release(parents[takes_over])
        return self._add(prefixes)

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        for handle in handles.tolist():
            del self._prefixes[handle]

    def _add(self, prefixes: Sequence[Ids]) -> tuple[Handles, torch.Tensor]:
        handles = np.arange(self._next, self._next + len(prefixes))
        self._next += len(prefixes)
        self._prefixes.update(zip(handles.tolist(), prefixes, strict=True))
        return handles, self._logits(prefixes)


Table = Mapping[Ids, Sequence[float]] | Callable[[Ids], Sequence[float]]


class TableModel(WholePrefixes):
    """A model whose next-token probabilities (float64) come from a mapping or a function.

    NaN is accepted, so that tests can simulate a model with unusable logits.

    Args:
        table: maps a prefix, prompt and generated tokens together, to the probabilities of the
            next token, [vocabulary], which sum to 1 within 1e-9.
        vocab_size: the number of tokens in the vocabulary.
        eos_token_ids: the end tokens.
    """

    def __init__(self, table: Table, *, vocab_size: int, eos_token_ids: Sequence[int] = ()) -> None:
        super().__init__(self._read)
        self.vocab_size = vocab_size
        self.eos_token_ids = frozenset(eos_token_ids)
        self._table = table

    def probabilities(self, prefix: Ids) -> NDArray[np.float64]:
        """Return the next-token distribution after a prefix.

        Args:
            prefix: prompt and generated tokens together.

        Returns:
            Probabilities, [vocabulary].

        Raises:
            InputError: the table has no entry for the prefix, or an entry of wrong length or sum.
        """
        table = self._table
        if isinstance(table, Mapping) and prefix not in table:
            raise InputError(f"the table has no row for prefix {prefix}. Add a row.")
        row = table[prefix] if isinstance(table, Mapping) else table(prefix)
        values = np.asarray(row, dtype=np.float64)
        if values.shape != (self.vocab_size,) or abs(values.sum() - 1) > 1e-9:
            raise InputError(
                f"the row of prefix {prefix} must be {self.vocab_size} probabilities that sum to "
                f"1, got shape {values.shape} and sum {values.sum()}."
            )
        return values

    def _read(self, prefixes: Sequence[Ids]) -> torch.Tensor:
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(np.stack([self.probabilities(p) for p in prefixes])))


Ended = Callable[[Ids], Finish | None]
"""Returns why generated ids end at a stop string or a budget; None if they do not."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The conditions that end a completion: an end token, a stop string, a budget, or the limit.

    Attributes:
        eos: the end tokens.
        longest: the length limit: the largest number of tokens of a completion.
        ended: tests generated ids for stop strings and budgets; None: the decoding has neither.
    """

    eos: frozenset[int]
    longest: int
    ended: Ended | None

    def ends(
        self, last: NDArray[np.int64], depth: NDArray[np.int64], paths: Callable[[], Sequence[Ids]]
    ) -> NDArray[np.bool_]:
        """Return which generated ids are complete.

        Args:
            last: the last token of each sequence, [n].
            depth: the number of tokens of each sequence, [n].
            paths: returns all tokens of the sequences; called only if `ended` is given.

        Returns:
            A mask, [n].
        """
        ended: NDArray[np.bool_] = np.isin(last, list(self.eos)) | (depth == self.longest)
        if self.ended is not None:
            ended |= np.array([self.ended(path) is not None for path in paths()], dtype=bool)
        return ended

    def reason(self, path: Ids) -> Finish | None:
        """Return why generated ids are complete.

        Args:
            path: the ids, at least one.

        Returns:
            The reason; None if they are not complete.
        """
        if path[-1] in self.eos:
            return "stop"
        reason = None if self.ended is None else self.ended(path)
        return reason or ("length" if len(path) == self.longest else None)


@dataclass(frozen=True, slots=True)
class OutputTree:
    """The tree of all outputs of a model after its prompts, to draw from or to search.

    Attributes:
        model: computes the logits of prefixes.
        decoding: the distribution of outputs.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).
        rows: the largest number of prefixes in a forward pass, at least 1.
        ended: tests generated ids for stop strings and budgets; required if the decoding has
            either.
        tell: receives the progress after every step.
        usage: the object to which the cost of the forward passes is added.

    Raises:
        InputError: `rows` below 1.
    """

    model: PrefixModel
    decoding: Decoding
    margin: float = 0.0
    rows: int = 1024
    ended: Ended | None = None
    tell: Tell = untold
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"`rows` must be at least 1, got {self.rows}.")

    @property
    def ending(self) -> Ending:
        """The conditions that end a completion; raises InputError if `ended` is needed but None."""
        needed = self.decoding.stop or self.decoding.max_thinking_tokens is not None
        if needed and self.ended is None:
            raise InputError("a decoding with stop strings or budgets needs `ended`. Pass it.")
        ended = self.ended if needed else None
        return Ending(self.model.eos_token_ids, self.decoding.longest, ended)
