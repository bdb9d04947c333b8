"""What every input source is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from residua.types import Prompt, Source


class InputSource(Protocol):
    """Where rewritings of a question come from."""

    @property
    def name(self) -> str:
        """As it stands in results: the spec that gives the source."""
        ...

    @property
    def kind(self) -> Source:
        """The `source` of the queries it gives."""
        ...

    @property
    def finite(self) -> bool:
        """True for a list; False for a distribution whose draws are independent."""
        ...

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        """For each prompt, at most `number` texts; the same arguments give the same texts.

        Nothing is filtered yet. A source that is not finite gives `number` independent draws a
        prompt, an empty text for one that failed; a prompt's draws do not depend on the others.
        """
        ...
