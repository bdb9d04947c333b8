"""The texts that metrics need, read by the models of a run; and what a model should still know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from leakbound.drawing.parts import Job, draw_part, run_jobs
from leakbound.errors import IncompleteError, InputError
from leakbound.planning.metrics import MODELS, Wanted, WantedText, longest_first, undifferentiated
from leakbound.scorers import make_scorer, score_texts
from leakbound.store import Arm, DrawnPart, Read, Readings
from leakbound.types import (
    Decoding,
    Differentiates,
    Draws,
    Generate,
    Headway,
    Progress,
    Prompt,
    Query,
    Reading,
    Reads,
    counted,
    silent,
)

R = TypeVar("R")

_ANSWER = Draws(sizes=(1,), purpose="utility")
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


def read_model(arm: Arm, engine: Generate, wanted: Wanted, progress: Progress = silent) -> None:
    """Read, differentiate and answer what is wanted and not known yet of the model of `arm`.

    `arm` draws its greedy answers. What is known is saved every half minute, and at the end.
    Raises InputError where the engine is not able to or a text is too long, ModelError for
    unusable logits, IncompleteError for a question that cannot be answered.
    """
    require_able(engine, wanted)
    this = _Pass(arm, engine, Readings(arm), wanted, progress)
    try:
        this.read()
        this.differentiate()
        this.answer()
    finally:
        this.save()


def copy_readings(source: Arm, arm: Arm) -> None:
    """Keep next to `arm` what is known of the same model in another run; nothing is read again."""
    theirs, ours = Readings(source), Readings(arm)
    ours.texts.update(theirs.texts)
    ours.answers.update(theirs.answers)
    ours.save()


@dataclass(slots=True)
class _Pass:
    """One model's pass; every step does what is not known yet."""

    arm: Arm
    engine: Generate
    known: Readings
    wanted: Wanted
    progress: Progress
    _saved: float = field(default_factory=time.monotonic)
    _unsaved: bool = False

    def read(self) -> None:
        texts = self.wanted.texts()
        todo = longest_first(text for text in texts if text.place not in self.known.texts)
        for block, readings in self._done(_read, todo, _TEXTS, "reading", "texts"):
            for text, reading in zip(block, readings, strict=True):
                self.known.texts[text.place] = Read(reading)

    def differentiate(self) -> None:
        todo = undifferentiated(self.known, self.wanted)
        for block, norms in self._done(_norms, todo, _GRADIENTS, "gradients of", "texts"):
            for text, norm in zip(block, norms, strict=True):
                read = self.known.texts[text.place]
                self.known.texts[text.place] = replace(read, gradient_norm=norm)

    def answer(self) -> None:
        todo = [asks for asks in self.wanted.questions() if asks.place not in self.known.answers]
        self.engine.check([asks.query for asks in todo], self.arm.decoding)
        for block, drawn in self._done(draw_part, todo, _QUESTIONS, "answers of", "questions"):
            places = {asks.query.id: asks.place for asks in block}
            for query_id, text in _answers(drawn).items():
                self.known.answers[places[query_id]] = text

    def save(self) -> None:
        if self._unsaved:
            self.known.save()
        self._saved, self._unsaved = time.monotonic(), False

    def _done(
        self,
        do: Callable[[Generate, Job], R],
        todo: Sequence[WantedText],
        size: int,
        doing: str,
        unit: str,
    ) -> Iterator[tuple[Sequence[WantedText], R]]:
        """So many of `todo` at a time with their result; in between, what is known may be saved."""
        model = next(model for model, greedy in MODELS.items() if greedy == self.arm.key)
        blocks = [todo[at : at + size] for at in range(0, len(todo), size)]
        done = 0
        if todo:
            self.progress(Headway(f"{doing} {model}", done, len(todo), unit))
        jobs = (
            Job(
                number=number,
                queries=tuple(text.query for text in block),
                decoding=self.arm.decoding,
                how=_ANSWER,
                texts=tuple(text.text for text in block),
            )
            for number, block in enumerate(blocks)
        )
        for job, result in run_jobs(self.engine, do, jobs):
            self._unsaved = True
            yield blocks[job.number], result
            done += len(blocks[job.number])
            self.progress(Headway(f"{doing} {model}", done, len(todo), unit))
            if time.monotonic() - self._saved > _SAVE_SECONDS:
                self.save()


def _read(engine: Generate, job: Job) -> Sequence[Reading]:
    """Read the texts of a job."""
    return cast(Reads, engine).read(list(zip(job.queries, job.texts, strict=True)))


def _norms(engine: Generate, job: Job) -> Sequence[float]:
    """The norm of the gradient at each text of a job."""
    pairs = list(zip(job.queries, job.texts, strict=True))
    return cast(Differentiates, engine).gradient_norms(pairs)


def _answers(drawn: DrawnPart) -> dict[str, str]:
    """The one output of each query, by its id; IncompleteError where one has none."""
    for query_id, reason in drawn.failures.items():
        raise IncompleteError(f"{query_id!r} has no answer: {reason}")
    columns = (drawn.completions[name].to_pylist() for name in ("query_id", "answer"))
    return dict(zip(*columns, strict=True))


def retain_recall(
    engine: Generate, prompts: Sequence[Prompt], max_new_tokens: int, progress: Progress = silent
) -> float:
    """Mean ROUGE-L recall of the greedy answers to `prompts`, in [0, 1].

    Raises IncompleteError where a question could not be answered: a mean over the others would
    be about another set.
    """
    scorer = make_scorer("rouge-l-recall")
    decoding = Decoding(temperature=0.0, max_new_tokens=max_new_tokens)
    total = 0.0
    for start in counted(progress, "answering retain", range(0, len(prompts), _QUESTIONS), "parts"):
        block = prompts[start : start + _QUESTIONS]
        queries = tuple(Query.original(prompt) for prompt in block)
        job = Job(number=0, queries=queries, decoding=decoding, how=_ANSWER)
        answers = _answers(draw_part(engine, job))
        for prompt, query in zip(block, queries, strict=True):
            (score,) = score_texts(scorer, [answers[query.id]], prompt)
            total += score or 0.0
    return total / len(prompts)
