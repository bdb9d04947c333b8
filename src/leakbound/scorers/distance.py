"""Score whether a completion begins with the answer, up to some changes (near-verbatim extraction).

Distances are numbers of units: characters or words of a text that
`leakbound.text.keywords` has normalised. Tokens are not used, because the
tokens of a text differ between models, and a text has many tokenisations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from leakbound.errors import InputError
from leakbound.scorers.family import answer_of, where
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
_UNKNOWN = "\0"  # stands for every word that is not in the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """Score 1 if the completion is at most `within` changes from the answer, else 0.

    `rule` has the scorer's name, the test of a complete text, and the test of the beginning of a
    text.
    """

    within: int
    unit: Unit = "characters"

    binary: ClassVar[bool] = True
    reads_thoughts: ClassVar[bool] = False
    rule: ClassVar[tuple[str, Within, Near]]

    def __post_init__(self) -> None:
        if self.within < 0:
            raise InputError(
                f"scorer {self.rule[0]!r} needs a whole number of changes, 0 or more, got "
                f"{self.within}. Write `{self.rule[0]}<=0` for verbatim matches."
            )

    @property
    def name(self) -> str:
        unit = "" if self.unit == "characters" else f":unit={self.unit}"
        return f"{self.rule[0]}{unit}<={self.within}"

    def check(self, prompt: Prompt | str) -> None:
        """Raise InputError for a prompt without an answer, or with at most `within` units in it."""
        self._spelling(prompt)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        spell, answer = self._spelling(prompt)
        spelt = (spell(normalise(text)) for text in texts)
        return [float(self.rule[1](text, answer, self.within)) for text in spelt]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """Return (1, 1) if all continuations of `prefix` score 1, (0, 0) if none can, or (0, 1)."""
        spell, answer = self._spelling(prompt)
        opening = settled(prefix)
        text = opening.words if self.unit == "words" else opening.text
        all_near, any_near = self.rule[2](spell(text), answer, self.within)
        return float(all_near), float(any_near)

    def _spelling(self, prompt: Prompt | str) -> tuple[Callable[[str], str], str]:
        """Return a function that encodes each unit as one character, and the encoded answer."""
        answer = normalise(answer_of(prompt, self.name))
        signs = {word: chr(i) for i, word in enumerate(dict.fromkeys(answer.split(" ")), start=1)}

        def by_words(text: str) -> str:
            return "".join(signs.get(word, _UNKNOWN) for word in text.split())

        spell = by_words if self.unit == "words" else str
        spelt = spell(answer)
        if self.within >= len(spelt):
            raise InputError(
                f"scorer {self.name!r} must allow fewer changed {self.unit} than the answer has "
                f"({len(spelt)} at {where(prompt)}), or any completion would be a leak. Allow "
                "fewer changes, or remove the prompt."
            )
        return spell, spelt


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(_Near):
    """Score 1 if at most `within` edits turn the completion's beginning into the answer, else 0.

    Edits are insertions, deletions and substitutions of units (Levenshtein, 1966). The beginning is
    the completion's first m units, where m is the number of units of the answer. Later text does
    not matter. A completion with fewer units is compared as a whole. `edit<=0` is verbatim
    extraction. `leakbound.text.distance` proves the bounds.

    Attributes:
        within: the maximum number of edits of a leak: at least 0, and less than the number of the
            answer's units.
        unit: "characters" (default) of the normalised text, or its "words" between blanks.
            Punctuation matters; upper and lower case are equal.

    Raises:
        InputError: if `within` is below 0. `check` and `score` raise it if the prompt has no
            answer, or an answer with at most `within` units.
    """

    rule = ("edit", edit_distance_within, edit_distance_settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hamming(_Near):
    """Score 1 if the completion differs from the answer in at most `within` of m units, else 0.

    m is the number of units of the answer. Units are compared position by position, without shifts.
    Positions beyond the end of the completion count as different. Text after the first m units does
    not matter.

    Attributes:
        within: the maximum number of different positions of a leak: at least 0, and less than the
            number of the answer's units.
        unit: "characters" (default) of the normalised text, or its "words" between blanks.
            Punctuation matters; upper and lower case are equal.

    Raises:
        InputError: as for `Edit`.
    """

    rule = ("hamming", hamming_distance_within, hamming_distance_settled)
