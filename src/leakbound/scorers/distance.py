"""Whether a completion opens with the answer, but for so many changes: near-verbatim extraction.

A unit is a character or a word, of texts normalised by `leakbound.text.keywords`. A scorer sees
texts, never a model's tokens: the tokens of one text differ from model to model, and one text has
many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from leakbound.errors import InputError
from leakbound.scorers.family import answer_of
from leakbound.text.distance import (
    edit_distance_settled,
    edit_distance_within,
    hamming_distance_settled,
    hamming_distance_within,
)
from leakbound.text.keywords import normalise, settled
from leakbound.types import Prompt

Unit = Literal["characters", "words"]
Within = Callable[[str, str, int], bool]
Near = Callable[[str, str, int], tuple[bool, bool]]
_UNKNOWN = "\0"  # stands for every word that the answer has not


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """1 if the completion is at most `within` changes from the answer, else 0.

    `how`: what a scorer of this kind is called, whether a whole text is near enough, and what an
    opening settles.
    """

    within: int
    unit: Unit = "characters"

    binary: ClassVar[bool] = True
    reads_thoughts: ClassVar[bool] = False
    how: ClassVar[tuple[str, Within, Near]]

    def __post_init__(self) -> None:
        if self.within < 0:
            raise InputError(
                f"scorer {self.how[0]!r} needs a whole number of changes, 0 or more, got "
                f"{self.within}. Write `{self.how[0]}<=0` for word for word."
            )

    @property
    def name(self) -> str:
        unit = "" if self.unit == "characters" else f":unit={self.unit}"
        return f"{self.how[0]}{unit}<={self.within}"

    def check(self, prompt: Prompt | str) -> None:
        """Refuse a prompt without an answer, or one that nothing would be too far from."""
        _Spelling(prompt, self)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return _Spelling(prompt, self).scores(texts, self.how[1])

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """(1, 1) once every continuation is near enough, (0, 0) once none can be, else (0, 1)."""
        return _Spelling(prompt, self).bounds(prefix, self.how[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(_Near):
    """1 if at most `within` edits make the completion's opening the answer's text, else 0.

    Edits are insertions, deletions and substitutions of units (Levenshtein, 1966). The opening is
    the completion's first m units, m being the number of the answer's, so that what follows does
    not matter; a completion that is shorter is compared whole. `edit<=0` is verbatim extraction.
    `leakbound.text.distance` proves the bounds.

    Attributes:
        within: the most edits of a leak, 0 or more, and fewer than the answer has units.
        unit: "characters" (default) of the normalised text, or its "words" between blanks; signs
            count, capitals do not.

    Raises:
        InputError: `within` is below 0; by `check` and `score`, for a prompt without an answer, or
            with one of `within` units or fewer.
    """

    how = ("edit", edit_distance_within, edit_distance_settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hamming(_Near):
    """1 if the completion differs from the answer at `within` of its m units at most, else 0.

    Place by place over the answer's m units, without any shift; a place that the completion does
    not reach differs. What follows the m units does not matter.

    Attributes:
        within: the most differing places of a leak, 0 or more, and fewer than the answer has units.
        unit: "characters" (default) of the normalised text, or its "words" between blanks; signs
            count, capitals do not.

    Raises:
        InputError: as `Edit` does.
    """

    how = ("hamming", hamming_distance_within, hamming_distance_settled)


class _Spelling:
    """Normalised texts with one character a unit; equal units, equal characters."""

    def __init__(self, prompt: Prompt | str, scorer: _Near) -> None:
        self._within, self._words = scorer.within, scorer.unit == "words"
        answer = normalise(answer_of(prompt, scorer.name))
        distinct = dict.fromkeys(answer.split(" "))
        self._known = {word: chr(i) for i, word in enumerate(distinct, start=1)}
        self.answer = self._spell(answer)
        if self._within >= len(self.answer):
            where = "the reference answer" if isinstance(prompt, str) else f"prompt {prompt.id!r}"
            raise InputError(
                f"scorer {scorer.name!r} must allow fewer {scorer.unit} than the answer has, got "
                f"one of {len(self.answer)} at {where}: any completion would be a leak. Allow "
                "fewer, or leave the prompt out."
            )

    def scores(self, texts: Sequence[str], within: Within) -> list[float | None]:
        """1 for each text that is near enough, else 0."""
        spelt = (self._spell(normalise(text)) for text in texts)
        return [float(within(text, self.answer, self._within)) for text in spelt]

    def bounds(self, prefix: str, near: Near) -> tuple[float, float]:
        """The lowest and the highest score of all texts that begin with the prefix."""
        opening = settled(prefix)
        text = opening.words if self._words else opening.text
        all_near, any_near = near(self._spell(text), self.answer, self._within)
        return float(all_near), float(any_near)

    def _spell(self, text: str) -> str:
        """A normalised text, or where words count, one character for each of its words."""
        if not self._words:
            return text
        return "".join(self._known.get(word, _UNKNOWN) for word in text.split())
