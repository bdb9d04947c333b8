"""Group the rows of files into questions with their draws.

The draws are stored on disk, because a file of samples may be larger than memory.
"""

from __future__ import annotations

import math
import os
import pickle
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from leakbound.errors import IncompleteError, InputError
from leakbound.formats.copies import MISSING, require_no_copies
from leakbound.formats.rows import REDACTED, SampleFile, SampleRow, Settings
from leakbound.text.shown import many
from leakbound.types import Decoding, Output
from leakbound.types.decoding import UNSTATED

DECODING = tuple(field.name for field in fields(Decoding) if field.name != "unknown")

Scores: TypeAlias = tuple[tuple[str, float], ...]
_NAMES = tuple(field.name for field in fields(Output))
_values = attrgetter(*_NAMES)  # pickled in a seventh of an `Output`'s time


class Draw(NamedTuple):
    """An output with its sorted scores. A judge may give equal outputs different scores."""

    output: Output
    scores: Scores = ()


class Spool:
    """A temporary file in `folder` for draws. It is deleted when its process ends.

    Every method raises IncompleteError if the disk is full or fails.
    """

    def __init__(self, folder: Path) -> None:
        partial = f".{os.getpid()}.partial"  # some systems need a name for a moment
        with _on_disk():
            self._file = TemporaryFile(dir=folder, prefix=".draws.", suffix=partial)  # noqa: SIM115
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk was already reported
            self._file.close()

    def add(self, draw: Draw) -> int:
        """Append a draw, and return its place in the file."""
        data = pickle.dumps((_values(draw.output), draw.scores))
        place, self._end = self._end, self._end + len(data)
        with _on_disk():
            self._file.write(data)
        return place

    def read(self, place: int) -> Draw:
        """Return the draw at a place in the file."""
        with _on_disk():
            self._file.seek(place)
            values, scores = pickle.load(self._file)
        return Draw(Output(**dict(zip(_NAMES, values, strict=True))), scores)


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IncompleteError(
            f"cannot store the draws of the files on the run's disk: {error.strerror or error}. "
            "Free as much space as the files need, then run the same command again."
        ) from error


@dataclass(slots=True, kw_only=True)
class SampledQuestion:
    """A question, and three arrays with an entry for each row about the question.

    Attributes:
        id: the name of the question in the file, or its place in the file.
        text: the text that the model received.
        answers: the targets of the question; the first target is the answer.
        source: the file and the first row about the question, for messages.
        places: the places of the draws in the spool; MISSING for a draw that failed.
        counts: the number of draws of each row.
        outputs: hashes of the texts of each row; MISSING for a draw that failed.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    source: str
    places: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    outputs: array[int] = field(default_factory=lambda: array("q"))

    @property
    def n(self) -> int:
        """Return the number of draws."""
        return sum(self.counts)

    @property
    def missing(self) -> int:
        """Return the number of failed draws."""
        return sum(n for n, place in zip(self.counts, self.places, strict=True) if place == MISSING)

    def distinct(self, spool: Spool, first: int, last: int) -> Counter[Draw | None]:
        """Return the counts of the distinct draws from number `first` up to `last`.

        Draws are in the order of the rows. The count of None is the number of failed draws.
        """
        counts = np.asarray(self.counts)
        ends = counts.cumsum()
        begin, end = np.searchsorted(ends, first, "right"), np.searchsorted(ends, last) + 1
        inside = np.minimum(ends, last)[begin:end] - np.maximum(ends - counts, first)[begin:end]
        tally: Counter[Draw | None] = Counter()
        for place, count in zip(self.places[begin:end], inside.tolist(), strict=True):
            tally[None if place == MISSING else spool.read(place)] += count
        return tally


@dataclass(slots=True, kw_only=True)
class SampledQuestions:
    """The questions of a file, or of several joined files, with their draws.

    Attributes:
        files: the files with their facts, without their rows.
        questions: the questions by their ids.
        stated: the settings of all draws, from the files.
        scores: for each name of a score, whether all values are 0 or 1.
        scored: for each score to import, the number of outputs with a value.
        ordered: False if rows have counts, because the order of the draws is then unknown.
        texts: False for files of scores only.
        notes: warnings for the user.
    """

    files: list[SampleFile]
    questions: dict[str, SampledQuestion] = field(default_factory=dict)
    stated: dict[str, object] = field(default_factory=dict)
    scores: dict[str, bool] = field(default_factory=dict)
    scored: Counter[str] = field(default_factory=Counter)
    ordered: bool = True
    texts: bool = True
    notes: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Return the first file."""
        return self.files[0].path

    @property
    def model(self) -> str:
        """Return the name of the model in the file."""
        return str(self.stated["model"])

    @property
    def decoding(self) -> Decoding:
        """Return the decoding of the draws, with a list of its unknown settings."""
        values: dict[str, Any] = {k: v for k, v in self.stated.items() if k in DECODING}
        if values.get("top_k") == -1:  # several tools write this for all tokens
            values["top_k"] = 0
        try:
            return Decoding(**values, unknown=tuple(k for k in UNSTATED if k not in values))
        except InputError as error:
            raise InputError(
                f"{error} This value is in `{self.path}`. Correct the file."
            ) from error

    @property
    def others(self) -> dict[str, object]:
        """Return the settings that are not part of the decoding: seeds, penalties."""
        return {k: v for k, v in self.stated.items() if k not in (*DECODING, "model")}

    @property
    def n(self) -> int:
        """Return the number of draws per question; with a claim, the maximum number."""
        if self.files[0].claim:
            return self.files[0].most
        sizes = {question.n: question.id for question in self.questions.values()}
        if len(sizes) != 1 or 0 in sizes:
            counts = ", ".join(f"{n} of {id!r}" for n, id in sorted(sizes.items())[:3])
            raise InputError(
                f"all questions must have the same number of draws, got {counts or 'none'}. Add "
                "missing draws as failed draws, or remove questions with fewer draws."
            )
        return next(iter(sizes))


def group(
    file: SampleFile, spool: Spool, wanted: Collection[str] | None = None
) -> SampledQuestions:
    """Read the rows of a file, group them by question, and write their draws to `spool`.

    Args:
        file: the file. Its rows may be in any order; they are read one at a time.
        spool: the temporary file for the draws.
        wanted: the names of the scores to import (None: all).

    Returns:
        The questions in the order of their first rows.

    Raises:
        InputError: for rows of several models or decodings, two questions with the same id, or a
            score outside [0, 1].
    """
    sampled = SampledQuestions(files=[replace(file, rows=())])
    settings: Settings | None = None
    first = ""
    for row in file.rows:
        if row.stated is not None:
            if settings is None:
                settings, first = row.stated, row.place
            elif settings != row.stated:
                require_same_settings(first, settings, row.place, row.stated)
        sampled.texts = row.question is not None
        sampled.ordered &= sampled.texts and row.count is None
        text = REDACTED if row.question is None else row.question
        source = row.place or f"`{file.path}`"
        question = _question(sampled.questions, row.id, text, row.answers, source)
        scores = _scores(sampled, row, wanted)
        question.counts.append(row.count or 1)
        place, texts = MISSING, MISSING
        if row.output is not None:
            place = spool.add(Draw(row.output, scores))
            texts = hash((row.output.answer, row.output.thought))  # never -1
        question.places.append(place)
        question.outputs.append(texts)
    sampled.stated = {"model": "unnamed", **file.stated, **(settings or {})}
    return sampled


def _question(
    questions: dict[str, SampledQuestion], id: str, text: str, answers: tuple[str, ...], source: str
) -> SampledQuestion:
    """Return the question with this id; raise InputError if its text or answers differ."""
    question = questions.get(id)
    if question is None:
        question = questions[id] = SampledQuestion(id=id, text=text, answers=answers, source=source)
    elif (question.text, question.answers) != (text, answers):
        raise InputError(
            f"{source} has the same id {id!r} as {question.source}, but another question or "
            "answer. Use a different id for every question, or import two runs."
        )
    return question


def _scores(
    sampled: SampledQuestions, row: SampleRow, wanted: Collection[str] | None
) -> tuple[tuple[str, float], ...]:
    """Return the scores of a row that are imported, without undecided scores."""
    scores = []
    for name, score in row.scores.items():
        sampled.scores.setdefault(name, True)
        if row.output is None or (wanted is not None and name not in wanted):
            continue
        sampled.scored[name] += 0 if score is None else row.count or 1
        if score is None:
            continue
        if not 0 <= score <= 1 or math.isnan(score):
            raise InputError(
                f"scores must be in [0, 1], got {score!r} of {name!r} at question {row.id!r} in "
                f"`{sampled.path}`. Rescale the scores in that file, or import other scores with "
                "--scores NAME, or none with --scores none."
            )
        sampled.scores[name] &= score in (0, 1)
        scores.append((name, score))
    return tuple(sorted(scores))


def require_same_settings(first: str, common: Settings, name: str, stated: Settings) -> None:
    """Raise InputError if the settings at the places `first` and `name` differ."""
    for key in {**common, **stated}:
        if common.get(key) != stated.get(key):
            raise InputError(
                f"all draws must be of one model under one decoding, but `{key}` is "
                f"{common.get(key)!r} in {first} and {stated.get(key)!r} in {name}. Import these "
                "files as two runs."
            )


def join(parts: Sequence[SampledQuestions]) -> SampledQuestions:
    """Join the questions of several files; append later draws to the draws of the first file.

    With greedy decoding, several draws of a question become one draw.

    Raises:
        InputError: the files differ in model, decoding or the text of a question; some draws can
            only be copies; or draws of one of several files stopped at a decided claim.
    """
    first, *others = parts
    for part in others:
        _require_joined(first, part)
    ordered = [part for part in parts if part.ordered]
    require_no_copies([
        (part.path, {id: np.array(q.outputs, np.int64) for id, q in part.questions.items()})
        for part in ordered
    ])  # fmt: skip
    notes = [part.files[0].note for part in parts]
    notes += [note for part in parts for note in _doubt(part)]
    first.notes = tuple(dict.fromkeys(filter(None, notes)))
    if seeds := dict.fromkeys(str(p.stated["seed"]) for p in parts if "seed" in p.stated):
        first.stated.pop("seed", None)
        first.stated["seed"] = " and ".join(seeds)  # after the other settings
    if any(part.stated.get("order") != first.stated.get("order") for part in others):
        first.stated.pop("order", None)  # the draws of several runs have their own order
    for part in others:
        first.files += part.files
        for name, binary in part.scores.items():
            first.scores[name] = binary and first.scores.get(name, True)
        for q in part.questions.values():
            mine = _question(first.questions, q.id, q.text, q.answers, f"`{part.path}`")
            mine.places.extend(q.places)
            mine.counts.extend(q.counts)
            mine.outputs.extend(q.outputs)
    if first.decoding.greedy:
        for question in first.questions.values():
            _keep_one(question)
    return first


def _require_joined(first: SampledQuestions, part: SampledQuestions) -> None:
    """Raise InputError for a file that cannot be joined to the first. Seeds may differ."""
    if part.texts != first.texts:
        raise InputError(
            f"`{first.path}` and `{part.path}` cannot be joined, because one contains texts and "
            "the other only scores. Import them as two runs."
        )
    any_seed = {"seed": None, "order": None}
    settings = (first.stated | any_seed, part.stated | any_seed)
    require_same_settings(f"`{first.path}`", settings[0], f"`{part.path}`", settings[1])
    if first.files[0].claim or part.files[0].claim:
        raise InputError(
            f"`{first.path}` and `{part.path}` cannot be joined, because sampling for one file "
            "stopped at a decided claim. Import them as two runs."
        )


def _doubt(part: SampledQuestions) -> Iterator[str]:
    """Yield notes on missing scores and on draws that may be copies.

    Raises InputError if all draws are identical because of a fixed seed.
    """
    seed, name = part.stated.get("seed"), part.path.name
    outputs = sum(question.n - question.missing for question in part.questions.values())
    if lacking := [f"{outputs - n:,} by {key}" for key, n in part.scored.items() if n < outputs]:
        yield f"of {many(outputs, 'output')} in `{name}`, some have no score: {', '.join(lacking)}"
    if part.decoding.greedy:
        return
    if part.texts and all(
        len({*question.outputs} - {MISSING}) == 1 and question.n - question.missing > 1
        for question in part.questions.values()
    ):
        if seed is not None:
            raise InputError(
                f"all draws of every question in `{part.path}` are identical, because they have "
                f"the same seed, {seed}. Sample without a seed."
            )
        yield (
            f"all draws of every question in `{name}` are identical: either the model nearly "
            "always gives one answer, or a cache or a server repeated an output"
        )
    elif seed is not None:
        yield (
            f"`{name}` has one seed, {seed}, for all draws: the draws are independent only if the "
            "server did not restart from this seed for each draw"
        )


def _keep_one(question: SampledQuestion) -> None:
    """Keep one draw of a question under greedy decoding; raise InputError if the draws differ."""
    outputs = {*question.outputs} - {MISSING}
    if len(outputs) > 1:
        raise InputError(
            f"a greedy decoding has one output, got {len(outputs)} for question {question.id!r}. "
            "Correct the temperature in the file."
        )
    last = max(question.places)
    question.places, question.counts = array("q", [last]), array("q", [1])
    question.outputs = array("q", outputs or [MISSING])
