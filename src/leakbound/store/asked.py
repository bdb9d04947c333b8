"""What a run asks."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.types import Prompt, Query


@dataclass(frozen=True, slots=True)
class RunQueries:
    """What the arms of a run ask: its prompts and queries, and the digest of its benchmark."""

    prompts: tuple[Prompt, ...]
    queries: tuple[Query, ...]
    benchmark: str

    @property
    def questions(self) -> tuple[Query, ...]:
        """The queries that are a prompt's own question, not a rewriting of it."""
        return tuple(query for query in self.queries if query.source == "original")
