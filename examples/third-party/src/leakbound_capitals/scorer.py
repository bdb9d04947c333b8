"""`first-word`: score whether a completion begins with the answer's first word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import InputError
from leakbound.types import Prompt


@dataclass(frozen=True, slots=True)
class FirstWord:
    """Score 1 if the first words are the same; case and marks are ignored unless `exact`."""

    exact: str = "no"

    binary: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name, with settings that are not the default."""
        return "first-word" if self.exact == "no" else f"first-word:exact={self.exact}"

    def check(self, prompt: Prompt) -> None:
        """Raise InputError, before a model is loaded, for a prompt without an answer."""
        if not (prompt.answer or "").split():
            raise InputError(f"`first-word` needs an answer, got none at prompt {prompt.id!r}.")

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Return one score per text; a plain string is the answer itself."""
        answer = prompt if isinstance(prompt, str) else prompt.answer
        wanted = self._word(answer or "")
        return [float(self._word(text) == wanted) for text in texts]

    def _word(self, text: str) -> str:
        word = next(iter(text.split()), "")
        return word if self.exact == "yes" else word.strip(".,;:!?\"'").casefold()
