"""A model's readings of given texts, and its greedy answers to questions that no arm asks.

Both lie beside the arm of the model's greedy answers and hold for its fingerprint alone:
`forced.parquet` has a row for each text read, `answers.parquet` one for each question answered.
What was read or answered of other words than those asked for now is not found.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TypeVar

from leakbound.store import tables
from leakbound.store.arm import Arm
from leakbound.store.artifact import Artifact
from leakbound.store.files import DamagedError
from leakbound.types import JsonObject, Query, Reading, to_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Which text it is: of what part and prompt, of what kind, and its number among those.

    `asked` is a digest of the query and the text: of other words nothing is known.
    """

    part: str
    prompt_id: str
    kind: str
    index: int
    asked: str

    @classmethod
    def of(cls, part: str, query: Query, kind: str, index: int = 0, text: str = "") -> Place:
        """Where a text after a query is kept or, without one, the answer to it."""
        words = json.dumps([asdict(query), text], sort_keys=True)
        digest = hashlib.sha256(words.encode()).hexdigest()
        return cls(part, query.prompt_id, kind, index, digest)


@dataclass(frozen=True, slots=True)
class Read:
    """A text as the model read it; `gradient_norm` is None where nobody asked for it."""

    reading: Reading
    gradient_norm: float | None = None


@dataclass(frozen=True, slots=True)
class _Text:
    """A row of the texts that were read."""

    place: Place
    read: Read


@dataclass(frozen=True, slots=True)
class _Answer:
    """A row of the answers."""

    place: Place
    text: str


class Readings:
    """The readings and answers of the model of `arm`, which draws greedily; `save` keeps them.

    DamagedError where a file cannot be read; with `mend`, for who reads the texts now, it is set
    aside with a note in the run, and what it held is unknown.
    """

    def __init__(self, arm: Arm, *, mend: bool = False) -> None:
        self._arm, self._mend = arm, mend
        texts = self._rows(_Text, "forced", self._made_from())
        self.texts = {row.place: row.read for row in texts}
        answers = self._rows(_Answer, "answers", self._answered_by())
        self.answers = {row.place: row.text for row in answers}

    def save(self) -> None:
        """Write what is known: each file whole, in place of what it was."""
        if self.texts:
            texts = [_Text(*pair) for pair in self.texts.items()]
            self._stored(_Text).write("forced", texts, self._made_from())
        if self.answers:
            answers = [_Answer(*pair) for pair in self.answers.items()]
            self._stored(_Answer).write("answers", answers, self._answered_by())

    def _stored(self, kind: type[T]) -> Artifact[T]:
        again = "Restore it from a copy, or run the command that read it again."
        return Artifact(folder=self._arm.folder, kind=kind, again="" if self._mend else again)

    def _rows(self, kind: type[T], name: str, made_from: JsonObject) -> list[T]:
        """The rows of a file of this model; none where there is no such file."""
        stored = self._stored(kind)
        try:
            rows = [*stored.values(name)]
        except DamagedError as error:
            if not self._mend:
                raise
            self._arm.set_aside(stored.file(name), str(error))
            return []
        return rows if tables.says(stored.known(name), made_from) else []

    def _made_from(self) -> JsonObject:
        return {"model": to_json(self._arm.spec.fingerprint)}

    def _answered_by(self) -> JsonObject:
        return {**self._made_from(), "decoding": to_json(self._arm.decoding)}
