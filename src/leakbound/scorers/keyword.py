"""Whether a completion says a keyword: Harry Potter Q&A's measure, and our own data set's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from leakbound.errors import InputError
from leakbound.scorers.family import named, prompt_of
from leakbound.text.keywords import keyword_pattern, normalise, settled_characters, settled_words
from leakbound.types import Prompt


@dataclass(frozen=True, slots=True)
class Keyword:
    """1 if any (or all) of the prompt's keywords occur, else 0.

    `match="word"` finds whole words, case-folded: "Ron" is not in "wrong". `match="substring"`
    is the reading of the papers, which finds it there. The keywords come with the prompt, so a
    plain string is refused.
    """

    match: Literal["word", "substring"] = "word"
    require: Literal["any", "all"] = "any"

    binary: ClassVar[bool] = True
    name = named("keyword")

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without keywords, and a keyword that is blank."""
        _keywords(prompt)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        says = self._says(prompt)
        return [float(says(normalise(text))) for text in texts]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """(1, 1) once enough keywords are settled, else (0, 1)."""
        settled = settled_words if self.match == "word" else settled_characters
        return float(self._says(prompt)(normalise(settled(prefix)))), 1.0

    def _says(self, prompt: Prompt | str) -> Callable[[str], bool]:
        """Whether a normalised text says enough of the prompt's keywords."""
        keywords = _keywords(prompt)
        enough = any if self.require == "any" else all
        if self.match == "word":
            found = [keyword_pattern(keyword).search for keyword in keywords]
            return lambda text: enough(f(text) is not None for f in found)
        parts = [normalise(keyword) for keyword in keywords]
        return lambda text: enough(part in text for part in parts)


def _keywords(prompt: Prompt | str) -> tuple[str, ...]:
    prompt = prompt_of(prompt, "keyword", "keywords", ", keywords=(…,)")
    if not prompt.keywords or not all(map(str.strip, prompt.keywords)):
        other = ", or use `rouge-l-recall`, which reads its answer" if prompt.answer else ""
        raise InputError(
            f"scorer 'keyword' needs keywords that are not blank, got {prompt.keywords!r} at "
            f"prompt {prompt.id!r}. Fill them in{other}."
        )
    return prompt.keywords
