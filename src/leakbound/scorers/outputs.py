"""Scores of outputs: of the answer and, for scorers that read it, of the visible thought.

The score of an output is the larger of the two. Where the answer is missing, it is 1 if the thought
scores 1, and missing otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from leakbound.scorers.family import score_pairs, text_ranges
from leakbound.text.counting import counted_as, is_missing, visible
from leakbound.types import Event, Output, Prompt, Scorer


class Readable(NamedTuple):
    """The texts of an output that a scorer may read.

    Attributes:
        answers: the answer, or those of every turn of a conversation; none where it is missing.
        thoughts: the visible thoughts.
        missing: whether the answer, or that of a turn, is missing.
    """

    answers: tuple[str, ...]
    thoughts: tuple[str, ...] = ()
    missing: bool = False


def reads_thoughts(scorer: Scorer) -> bool:
    """Return whether a scorer reads thoughts too; else a thought counts as dropped.

    Args:
        scorer: any scorer. One with an attribute `reads_thoughts` that is False reads answers
            only; a threshold reads what its scorer reads.

    Returns:
        True unless it reads answers only.
    """
    base = getattr(scorer, "scorer", scorer)
    return bool(getattr(base, "reads_thoughts", True))


def score_outputs(
    scorer: Scorer, outputs: Sequence[Readable], prompts: Sequence[Prompt | str]
) -> list[float | None]:
    """Score outputs, checked as by `score_pairs`.

    Args:
        scorer: any scorer; one that asks a model must be connected.
        outputs: n outputs.
        prompts: the prompt of each, or its reference answer, [n]; prompts are told apart by id.

    Returns:
        One score per output, in order, in [0, 1]; None where it is missing.

    Raises:
        InputError: as by `score_texts`.
    """
    thoughts = reads_thoughts(scorer)
    texts = [o.answers + o.thoughts if thoughts else o.answers for o in outputs]
    pairs = [(text, prompt) for own, prompt in zip(texts, prompts, strict=True) for text in own]
    scores = iter(score_pairs(scorer, pairs))
    return [
        next(scores)  # of most outputs one text is read
        if len(own) == 1 and not output.missing
        else _largest([*islice(scores, len(own)), *[None] * output.missing])
        for own, output in zip(texts, outputs, strict=True)
    ]


def _largest(scores: Sequence[float | None]) -> float | None:
    """The largest score, if no score that is missing could exceed it."""
    valid = [score for score in scores if score is not None]
    return max(valid) if valid and (len(valid) == len(scores) or max(valid) == 1) else None


def score_ranges(
    scorer: Scorer, events: Sequence[Event], prompt: Prompt | str, stop: Sequence[str] = ()
) -> list[tuple[float, float]]:
    """Return the lowest and the highest score of the outputs in each event.

    Args:
        scorer: any scorer; one that asks a model must be connected.
        events: complete outputs, and beginnings of outputs.
        prompt: the prompt, or its reference answer.
        stop: the stop strings of the decoding.

    Returns:
        One (low, high) per event, in order, in [0, 1]. A complete output has its score twice, or
        (0, 1) where it is missing. A beginning has the ranges of its texts; until its answer has
        begun it has (0, 1), as the answer may stay missing, unless its thought is a full leak.

    Raises:
        InputError: as by `text_ranges`.
    """
    thoughts = reads_thoughts(scorer)
    read = [_read(event, stop, thoughts) for event in events]
    texts = [
        (text, event.ended) for event, (own, _) in zip(events, read, strict=True) for text in own
    ]
    distinct = list(dict.fromkeys(texts))
    of_text = dict(zip(distinct, text_ranges(scorer, distinct, prompt), strict=True))
    return [
        _joined([of_text[text, event.ended] for text in own], event.ended, missing)
        for event, (own, missing) in zip(events, read, strict=True)
    ]


def _read(event: Event, stop: Sequence[str], thoughts: bool) -> tuple[list[str], bool]:
    """The texts of an event that are scored, and whether its answer is or may be missing."""
    missing = (
        is_missing(event, counted_as(event, stop)) if event.ended else not visible(event.answer)
    )
    answers = [] if missing else [event.answer]
    return answers + [t for t in (event.thought,) if thoughts and t and visible(t)], missing


def _joined(
    ranges: Sequence[tuple[float, float]], ended: bool, missing: bool
) -> tuple[float, float]:
    low, high = (max(ends, default=0.0) for ends in zip(*ranges, strict=True)) if ranges else (0, 1)
    if low == 1:
        return 1.0, 1.0
    undecided = missing or (ended and any(ends == (0.0, 1.0) for ends in ranges))
    return (0.0, 1.0) if undecided else (float(low), float(high))


def readable(
    output: Output, stop: Sequence[str] = (), *, filter_in_system: bool = False
) -> Readable:
    """Return the texts of an output that a scorer may read.

    Args:
        output: the output.
        stop: the stop strings of its decoding.
        filter_in_system: see `is_missing`.

    Returns:
        Its texts.
    """
    missing = is_missing(output, counted_as(output, stop), filter_in_system=filter_in_system)
    return rows_of([output.answer], [output.thought], [missing])[0]


def rows_of(
    answers: Iterable[str],
    thoughts: Iterable[str | None],
    missing: Iterable[bool],
    turn: str | None = None,
) -> list[Readable]:
    """Return the readable texts of stored outputs.

    Args:
        answers: the answer of each.
        thoughts: the visible thought of each, if any.
        missing: whether the answer of each is missing.
        turn: what separates the turns of conversations; None: there are none.

    Returns:
        One value per output. Of a conversation with a missing turn the other turns are read.
    """
    return [
        Readable(
            () if absent and turn is None else _turns(answer, turn),
            tuple(filter(visible, _turns(thought, turn))) if thought else (),
            absent,
        )
        for answer, thought, absent in zip(answers, thoughts, missing, strict=True)
    ]


def _turns(text: str, turn: str | None) -> tuple[str, ...]:
    return (text,) if turn is None else tuple(text.split(turn))
