"""Token budgets for the thought before an answer, and for the answer.

A thought that has spent its budget is closed. The tokens that end the thought
and begin the answer then follow with probability 1. Draws, exact masses and
proofs are about the distribution of outputs with these budgets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.model import Handles, Ids, PrefixModel


class Budget(Protocol):
    """The budgets of a thought and of an answer.

    The state of an output is any value that is determined by the prompt and the generated tokens.
    """

    def start(self, prompt: Sequence[int]) -> Any:
        """Return the state of an output that has no tokens yet.

        Args:
            prompt: the tokens of the prompt.

        Returns:
            The state.
        """
        ...

    def follow(self, state: Any, token: int) -> Any:
        """Return the state after one more token.

        Args:
            state: the state before the token.
            token: the token.

        Returns:
            The state.
        """
        ...

    def forced(self, state: Any) -> int | None:
        """Return the token that must come next, if the thought has spent its budget.

        Args:
            state: the state of an output.

        Returns:
            The token; None if the model chooses the next token.
        """
        ...

    def spent(self, ids: Ids) -> bool:
        """Return whether an answer has spent its budget, so that the output ends.

        Args:
            ids: the generated tokens.
        """
        ...


class Budgeted:
    """A `PrefixModel` whose thoughts are closed when their budget is spent.

    Args:
        model: the model that chooses every token that the budget does not force.
        budget: the budgets, which decide where a token is forced.
    """

    def __init__(self, model: PrefixModel, budget: Budget) -> None:
        self.vocab_size, self.eos_token_ids = model.vocab_size, model.eos_token_ids
        self._model, self._budget = model, budget
        self._states: dict[int, Any] = {}

    @property
    def full(self) -> bool:
        """See `PrefixModel.full`."""
        return self._model.full

    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        handles, logits = self._model.prefill(prompts)
        return handles, self._forced(handles, map(self._budget.start, prompts), logits)

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        before = [self._states[parent] for parent in parents.tolist()]
        states = map(self._budget.follow, before, tokens.tolist())
        for parent in parents[takes_over].tolist():
            del self._states[parent]
        handles, logits = self._model.extend(parents, tokens, takes_over)
        return handles, self._forced(handles, states, logits)

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        for handle in handles.tolist():
            del self._states[handle]
        self._model.release(handles)

    def _forced(self, handles: Handles, states: Any, logits: torch.Tensor) -> torch.Tensor:
        """Store the states, and return the logits; a forced token has probability 1."""
        self._states.update(zip(handles.tolist(), states, strict=True))
        forced = [self._budget.forced(self._states[handle]) for handle in handles.tolist()]
        rows = [row for row, token in enumerate(forced) if token is not None]
        if rows:
            logits = logits.clone()
            logits[rows] = -math.inf
            logits[rows, [forced[row] for row in rows]] = 0.0
        return logits
