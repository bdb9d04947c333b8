"""Compute the probabilities of texts and the answers that metrics need, with a run's models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from leakbound.drawing.parts import Job, Meter, draw_part, run_jobs
from leakbound.errors import IncompleteError, InputError
from leakbound.planning.metrics import MODELS, Wanted, WantedText, lacking_texts, longest_first
from leakbound.store import Arm, DrawnPart, Read, Readings
from leakbound.store.tables import cells_of
from leakbound.types import (
    Differentiates,
    Draws,
    Generate,
    Progress,
    Reading,
    Reads,
    silent,
)

R = TypeVar("R")

_ANSWER = Draws(sizes=(1,), purpose="utility")
_TEXTS = 256  # texts per job; results are saved between jobs
_QUESTIONS = 64
_GRADIENTS = 8
_SAVE_SECONDS = 30.0  # approximate seconds of work that a killed run may lose


def require_able(engine: Generate, wanted: Wanted) -> None:
    """Raise InputError if an engine lacks probabilities or gradients that metrics need."""
    reads = any(need.kinds for need in wanted.needs.values())
    gradients = any(need.gradient_norm for need in wanted.needs.values())
    for needed, able, what in (
        (reads, isinstance(engine, Reads), "compute probabilities of given texts"),
        (gradients, isinstance(engine, Differentiates), "compute gradients for membership_*"),
    ):
        if needed and not able:
            raise InputError(
                f"the engine {type(engine).__name__} cannot {what}. Evaluate with transformers, or "
                "omit the metrics that need this."
            )


def read_model(arm: Arm, engine: Generate, wanted: Wanted, progress: Progress = silent) -> None:
    """Compute the readings, gradients and answers that are not stored yet.

    A reading is the probabilities of a text's tokens. Results are saved every half minute and at
    the end.

    Args:
        arm: the arm of the model's greedy answers.
        engine: the model.
        wanted: the metrics that need the texts.
        progress: called with the progress of each step.

    Raises:
        InputError: the engine lacks probabilities or gradients, or a text is too long.
        ModelError: the model's logits cannot be used.
        IncompleteError: a question cannot be answered.
    """
    require_able(engine, wanted)
    readings = Readings(arm)
    done = partial(_done, arm, engine, readings, progress)
    texts, answers, questions = lacking_texts(readings, wanted)
    for block, read in done(_read, longest_first(texts), _TEXTS, ("reading", "texts")):
        for text, reading in zip(block, read, strict=True):
            readings.texts[text.place] = Read(reading)
    for block, norms in done(_norms, answers, _GRADIENTS, ("gradients of", "texts")):
        for text, norm in zip(block, norms, strict=True):
            readings.texts[text.place] = replace(readings.texts[text.place], gradient_norm=norm)
    engine.check([text.query for text in questions], arm.decoding)
    for block, drawn in done(draw_part, questions, _QUESTIONS, ("answers of", "questions")):
        texts_by_query = _answers(drawn)
        readings.answers.update({text.place: texts_by_query[text.query.id] for text in block})


def copy_readings(source: Arm, arm: Arm) -> None:
    """Copy the readings of the arm `source`, of the same model in another run, to `arm`."""
    theirs, ours = Readings(source), Readings(arm)
    ours.texts.update(theirs.texts)
    ours.answers.update(theirs.answers)
    ours.save()


def _done(
    arm: Arm,
    engine: Generate,
    readings: Readings,
    progress: Progress,
    do: Callable[[Generate, Job], R],
    todo: Sequence[WantedText],
    size: int,
    words: tuple[str, str],
) -> Iterator[tuple[Sequence[WantedText], R]]:
    """Yield blocks of `size` texts with their results. Save `readings` in between and at the end.

    `words` are the verb and the unit of the progress bar.
    """
    if not todo:
        return
    model = next(model for model, greedy in MODELS.items() if greedy == arm.key)
    meter = Meter(progress, f"{words[0]} {model}", words[1], 0, len(todo))
    blocks = [todo[at : at + size] for at in range(0, len(todo), size)]
    jobs = (
        Job(
            number=number,
            queries=tuple(text.query for text in block),
            decoding=arm.decoding,
            work=_ANSWER,
            texts=tuple(text.text for text in block),
        )
        for number, block in enumerate(blocks)
    )
    saved = time.monotonic()
    try:
        for job, result in run_jobs(engine, do, jobs, meter):
            yield blocks[job.number], result
            if time.monotonic() - saved > _SAVE_SECONDS:
                readings.save()
                saved = time.monotonic()
    finally:
        readings.save()


def _read(engine: Generate, job: Job) -> Sequence[Reading]:
    """Return the reading of each text of a job."""
    return cast(Reads, engine).read(list(zip(job.queries, job.texts, strict=True)))


def _norms(engine: Generate, job: Job) -> Sequence[float]:
    """Return the norm of the gradient at each text of a job."""
    of = cast(Differentiates, engine).gradient_norms
    return of(list(zip(job.queries, job.texts, strict=True)))


def _answers(drawn: DrawnPart) -> dict[str, str]:
    """Return the only output of each query, by id; raise IncompleteError if one is missing."""
    for query_id, reason in drawn.record.failures.items():
        raise IncompleteError(f"{query_id!r} has no answer: {reason}")
    return dict(cells_of(drawn.completions, "query_id", "answer"))
