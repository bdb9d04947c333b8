"""The one pass over what metrics need: each text is read once, each question answered once.

And what a model still knows of what it should: the other side of forgetting.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from leakbound.errors import IncompleteError, InputError
from leakbound.planning.metrics import MODELS, Wanted, longest_first, undifferentiated
from leakbound.planning.models import ModelArm
from leakbound.scorers import make_scorer, score_texts
from leakbound.store import Arm, Read, Readings
from leakbound.types import (
    Decoding,
    Differentiates,
    Draws,
    Failure,
    Generate,
    Headway,
    Progress,
    Prompt,
    Query,
    Reads,
    silent,
)

T = TypeVar("T")


_PURPOSE = "utility"
_TEXTS = 256  # read between two chances to save
_QUESTIONS = 64
_GRADIENTS = 8
_SAVE_SECONDS = 30.0  # of work, about, that a killed run loses


def require_able(engine: Generate, wanted: Wanted) -> None:
    """Refuse, before anything is done, an engine that cannot give what is needed."""
    reads = any(need.kinds for need in wanted.needs.values())
    gradients = any(need.gradient_norm for need in wanted.needs.values())
    for needed, able, what in (
        (reads, isinstance(engine, Reads), "read given texts"),
        (gradients, isinstance(engine, Differentiates), "take the gradients of membership_*"),
    ):
        if needed and not able:
            raise InputError(
                f"the engine {type(engine).__name__} cannot {what}. Evaluate with transformers, or "
                "leave out the metrics that need it."
            )


def read_models(
    arms: Iterable[tuple[Arm, ModelArm]], wanted: Wanted, progress: Progress = silent
) -> None:
    """`read_model` of every model of a run, each beside the arm of its greedy answers."""
    for arm, job in arms:
        if wanted.metrics and arm.key in MODELS.values():
            read_model(arm, job.engine, wanted, progress)


def read_model(arm: Arm, engine: Generate, wanted: Wanted, progress: Progress = silent) -> None:
    """Read, answer and differentiate what is wanted and not known yet of the model of `arm`.

    `arm` draws its greedy answers. What is known is saved every half minute, and at the end
    whatever that is. Raises InputError where the engine is not able to or a text is too long,
    ModelError for unusable logits, IncompleteError for a question that cannot be answered.
    """
    require_able(engine, wanted)
    this = _Pass(arm, Readings(arm), wanted, progress)
    try:
        this.read(cast(Reads, engine))
        this.differentiate(cast(Differentiates, engine))
        this.answer(engine)
    finally:
        this.save()


def copy_readings(source: Arm, arm: Arm) -> None:
    """Keep beside `arm` what is known of the same model in another run; nothing is read again."""
    theirs, ours = Readings(source), Readings(arm)
    ours.texts.update(theirs.texts)
    ours.answers.update(theirs.answers)
    ours.save()


@dataclass(slots=True)
class _Pass:
    """One model's pass; every step does what is not known yet."""

    arm: Arm
    known: Readings
    wanted: Wanted
    progress: Progress
    _saved: float = field(default_factory=time.monotonic)
    _unsaved: bool = False

    def read(self, engine: Reads) -> None:
        texts = self.wanted.texts()
        todo = longest_first(text for text in texts if text.place not in self.known.texts)
        for block in self._blocks(todo, "reading", "texts", _TEXTS):
            readings = engine.read([(text.query, text.text) for text in block])
            for text, reading in zip(block, readings, strict=True):
                self.known.texts[text.place] = Read(reading)

    def differentiate(self, engine: Differentiates) -> None:
        todo = undifferentiated(self.known, self.wanted)
        for block in self._blocks(todo, "gradients of", "texts", _GRADIENTS):
            norms = engine.gradient_norms([(query, text) for _, query, text in block])
            for (place, _, _), norm in zip(block, norms, strict=True):
                self.known.texts[place] = replace(self.known.texts[place], gradient_norm=norm)

    def answer(self, engine: Generate) -> None:
        todo = [pair for pair in self.wanted.questions() if pair[0] not in self.known.answers]
        engine.check([query for _, query in todo], self.arm.decoding)
        for block in self._blocks(todo, "answers of", "questions", _QUESTIONS):
            places = {query.id: place for place, query in block}
            for query, text in _answers(engine, [query for _, query in block], self.arm.decoding):
                self.known.answers[places[query.id]] = text

    def save(self) -> None:
        if self._unsaved:
            self.known.save()
        self._saved, self._unsaved = time.monotonic(), False

    def _blocks(self, todo: Sequence[T], doing: str, unit: str, size: int) -> Iterator[Sequence[T]]:
        """Some of `todo` at a time; between two of them what is known may be saved."""
        model = next(model for model, greedy in MODELS.items() if greedy == self.arm.key)
        for at in range(0, len(todo), size):
            self.progress(Headway(f"{doing} {model}", at, len(todo), unit))
            self._unsaved = True
            yield todo[at : at + size]
            if time.monotonic() - self._saved > _SAVE_SECONDS:
                self.save()
        if todo:
            self.progress(Headway(f"{doing} {model}", len(todo), len(todo), unit))


def _answers(
    engine: Generate, queries: Sequence[Query], decoding: Decoding
) -> Iterator[tuple[Query, str]]:
    """The one output of each query; IncompleteError where one has none."""
    for result in engine.generate(queries, decoding, Draws(sizes=(1,), purpose=_PURPOSE)):
        if isinstance(result, Failure):
            raise IncompleteError(f"{result.query.id!r} has no answer: {result.reason}")
        yield result.query, result.completions[0].answer


def retain_recall(
    engine: Generate, prompts: Sequence[Prompt], max_new_tokens: int, progress: Progress = silent
) -> float:
    """Mean ROUGE-L recall of the greedy answers to `prompts`, in [0, 1].

    Raises IncompleteError where a question could not be answered: a mean over the others would
    be about another set.
    """
    scorer = make_scorer("rouge-l-recall")
    decoding = Decoding(temperature=0.0, max_new_tokens=max_new_tokens)
    by_id = {prompt.id: prompt for prompt in prompts}
    total = 0.0
    for start in range(0, len(prompts), _QUESTIONS):
        progress(Headway("answering retain", start, len(prompts), "questions"))
        queries = [Query.original(prompt) for prompt in prompts[start : start + _QUESTIONS]]
        for query, text in _answers(engine, queries, decoding):
            (score,) = score_texts(scorer, [text], by_id[query.prompt_id])
            total += score or 0.0
    progress(Headway("answering retain", len(prompts), len(prompts), "questions"))
    return total / len(prompts)
