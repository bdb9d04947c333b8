"""Prompts and completions as one tree of slots, with one slot per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.int64]

NOTHING = 0  # the slot before every prompt
PADDING = 1  # the slot of padding tokens before a shorter prompt; it has no successor


@dataclass(frozen=True, slots=True)
class ByPrompt:
    """Rows grouped by their prompts.

    Attributes:
        order: the rows, grouped by prompt, in the order of the first row of each prompt.
        prompts: the slot of each prompt's last token, in this order.
        sizes: the number of rows of each prompt.
    """

    order: NDArray[np.int64]
    prompts: Slots
    sizes: NDArray[np.int64]

    @property
    def back(self) -> NDArray[np.int64] | None:
        """The new place of each row; None if the order did not change."""
        back = np.argsort(self.order)
        return None if np.array_equal(back, np.arange(len(back))) else back


class PrefixTree:
    """A tree of slots, one per token: slot 0 is the root, and slot 1 is padding.

    The parent of a slot is the slot of the token before it. A slot is in use while it is a handle
    (a prefix that is not released) or has a child in use. `length` is the number of tokens up to
    and including a slot. `prompt` is the slot of the last token of its prompt.
    """

    def __init__(self) -> None:
        self.length = np.array([0, 1])
        self.prompt = np.full(2, NOTHING)
        self._parent = np.full(2, NOTHING)
        self._users = np.ones(2, dtype=np.int64)
        self._free: list[int] = []
        self._prompts: dict[tuple[int, int], int] = {}  # (slot, prompt token after it) -> its slot
        self._entries: dict[int, tuple[int, int]] = {}  # the inverse mapping
        self._prompt_slots: dict[int, Slots] = {}  # all slots of a prompt, by its last slot

    @property
    def size(self) -> int:
        """The number of slots, including free slots."""
        return len(self.length)

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return self.size - len(self._free)

    def find(self, prompt: Sequence[int]) -> tuple[int, int]:
        """Return the last slot and the length of the longest stored beginning of a prompt."""
        slot = NOTHING
        for depth, token in enumerate(prompt):
            if (slot, token) not in self._prompts:
                return slot, depth
            slot = self._prompts[slot, token]
        return slot, len(prompt)

    def chain(self, parent: int, count: int) -> Slots:
        """Add a chain of slots below `parent`; the last slot is a handle."""
        slots = self._take(count)
        self._parent[slots] = [parent, *slots[:-1]]
        self.length[slots] = self.length[parent] + np.arange(1, count + 1)
        self.prompt[slots] = slots[-1]
        self._users[slots] = 1
        self._users[parent] += 1
        return slots

    def remember(self, slots: Slots, tokens: NDArray[np.int64]) -> None:
        """Let other prompts share these tokens, until their slots are freed."""
        entries = zip(self._parent[slots].tolist(), tokens.tolist(), strict=True)
        for slot, entry in zip(slots.tolist(), entries, strict=True):
            if self._prompts.setdefault(entry, slot) == slot:
                self._entries[slot] = entry

    def forget(self, slots: Slots) -> None:
        """Stop other prompts from sharing these tokens."""
        for slot in self._entries.keys() & slots.tolist():
            del self._prompts[self._entries.pop(slot)]

    def add(self, parents: Slots) -> Slots:
        """Add one slot below each parent; all new slots are handles."""
        slots = self._take(len(parents))
        self._parent[slots] = parents
        self.length[slots] = self.length[parents] + 1
        self.prompt[slots] = self.prompt[parents]
        self._users[slots] = 1
        np.add.at(self._users, parents, 1)
        return slots

    def drop(self, handles: Slots) -> None:
        """Release handles, and free every slot that is no longer in use."""
        while len(handles):
            np.subtract.at(self._users, handles, 1)
            unused = np.unique(handles[self._users[handles] == 0])
            self._free += unused.tolist()
            self.forget(unused)
            for slot in self._prompt_slots.keys() & unused.tolist():
                del self._prompt_slots[slot]
            handles = self._parent[unused]

    def paths(self, slots: Slots) -> Slots:
        """Return, for each slot, the path from the prompt's first token to it, padded in front."""
        return self._climb(slots, int(self.length[slots].max()))

    def prompt_slots(self, prompts: Slots) -> Slots:
        """Return all slots of prompts, given their last slots; shorter prompts end with zeros."""
        paths = np.full((len(prompts), int(self.length[prompts].max())), NOTHING)
        for row, prompt in zip(paths, prompts.tolist(), strict=True):
            if prompt not in self._prompt_slots:
                self._prompt_slots[prompt] = self.paths(np.array([prompt]))[0]
            row[: self.length[prompt]] = self._prompt_slots[prompt]
        return paths

    def generated(self, slots: Slots) -> Slots:
        """Return, for each slot, the generated tokens' part of its path, padded in front."""
        depth = self.length[slots] - self.length[self.prompt[slots]]
        paths = self._climb(slots, int(depth.max()))
        columns = paths.shape[1]
        return np.where(np.arange(columns) < columns - depth[:, None], NOTHING, paths)

    def by_prompt(self, slots: Slots) -> ByPrompt:
        """Group these slots by prompt."""
        prompts, first, which, sizes = np.unique(
            self.prompt[slots], return_index=True, return_inverse=True, return_counts=True
        )
        turns = np.argsort(first)
        order = np.argsort(np.argsort(turns)[which], kind="stable")
        return ByPrompt(order, prompts[turns], sizes[turns])

    def _climb(self, slots: Slots, count: int) -> Slots:
        """Return, per slot, its `count` - 1 nearest ancestors followed by the slot."""
        columns = np.empty((count, len(slots)), dtype=np.int64)
        columns[-1] = slots
        for i in range(count - 1, 0, -1):  # mode "clip" avoids a copy; all indices are valid
            np.take(self._parent, columns[i], out=columns[i - 1], mode="clip")
        return np.ascontiguousarray(columns.T)

    def _take(self, count: int) -> Slots:
        if count > len(self._free):
            more = max(count - len(self._free), self.size // 2)
            self._free += range(self.size + more - 1, self.size - 1, -1)
            self.length = np.pad(self.length, (0, more))
            self.prompt = np.pad(self.prompt, (0, more))
            self._parent = np.pad(self._parent, (0, more))
            self._users = np.pad(self._users, (0, more))
        left = len(self._free) - count
        slots = np.array(self._free[left:], dtype=np.int64)
        del self._free[left:]
        return slots
