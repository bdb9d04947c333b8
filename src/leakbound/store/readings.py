"""Store a model's readings of texts, and its greedy answers to questions that no arm has.

A reading is the model's probability of each token of a text. `forced.parquet`
has a row per text, and `answers.parquet` has a row per question. Both tables
are stored with the arm of the model's greedy answers. They are valid only for
the fingerprint of this arm's model.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from leakbound.durable import sha256_of
from leakbound.store.arm import Arm
from leakbound.store.artifact import Artifact
from leakbound.types import JsonObject, Query, Reading, to_json

_REMEDY = "Restore it from a copy, or remove it and repeat the command that made it."


@dataclass(frozen=True, slots=True)
class Place:
    """The key of a text: its split, prompt and kind, and its index among texts of that kind.

    `words` is a digest of the query and the text, so a changed text has another key.
    """

    part: str
    prompt_id: str
    kind: str
    index: int
    words: str

    @classmethod
    def of(cls, part: str, query: Query, kind: str, index: int = 0, text: str = "") -> Place:
        """Return the key of a text after a query or, without a text, of the query's answer."""
        words = json.dumps([asdict(query), text], sort_keys=True)
        return cls(part, query.prompt_id, kind, index, sha256_of(words))


@dataclass(frozen=True, slots=True)
class Read:
    """A model's reading of a text; `gradient_norm` is None if it was not requested."""

    reading: Reading
    gradient_norm: float | None = None


@dataclass(frozen=True, slots=True)
class _Text:
    """A row of `forced.parquet`."""

    place: Place
    read: Read


@dataclass(frozen=True, slots=True)
class _Answer:
    """A row of `answers.parquet`."""

    place: Place
    text: str


class Readings:
    """The readings and answers of the model of a greedy `arm`; `save` stores them.

    Raises DamagedError if a file is damaged.
    """

    def __init__(self, arm: Arm) -> None:
        self._model: JsonObject = {"model": to_json(arm.spec.fingerprint)}
        self._answered_by = {**self._model, "decoding": to_json(arm.decoding)}
        self._texts = Artifact(folder=arm.folder, kind=_Text, remedy=_REMEDY)
        self._answers = Artifact(folder=arm.folder, kind=_Answer, remedy=_REMEDY)
        texts = self._texts.values("forced", self._model)
        self.texts = {row.place: row.read for row in texts}
        answers = self._answers.values("answers", self._answered_by)
        self.answers = {row.place: row.text for row in answers}

    def save(self) -> None:
        """Write both files, which replace earlier files."""
        if self.texts:
            texts = [_Text(*pair) for pair in self.texts.items()]
            self._texts.write("forced", texts, self._model)
        if self.answers:
            answers = [_Answer(*pair) for pair in self.answers.items()]
            self._answers.write("answers", answers, self._answered_by)
