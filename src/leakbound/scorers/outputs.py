"""Score the answer, the thought, or either part of an output.

| reading | score of an output |
|---|---|
| answer | score of the answer; missing if the answer is missing |
| thought | score of the thought, even if unfinished; 0 if there is none; missing if it is hidden |
| either | the larger of both scores; if one is missing: 1 if the other is 1, else missing |

The setting `of=` of a scorer names the reading. A scorer that reads thoughts and has no `of=` uses
the reading "either". If the thought is hidden, such a scorer reads only the visible parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

from leakbound.scorers.family import base_of, score_pairs, text_ranges
from leakbound.scorers.spec import Of, reading_of
from leakbound.text.counting import counted_as, is_missing, visible
from leakbound.types import Event, Output, Prompt, Scorer

T = TypeVar("T")
Part: TypeAlias = tuple[Any, Any]
"""Either a text and whether the text has ended, or the lowest and the highest score."""


class Readable(NamedTuple):
    """The texts of an output that a scorer may read.

    Attributes:
        answers: the answer, or the answers of every turn of a conversation; empty if it is missing.
        thoughts: the visible thoughts.
        missing: whether the answer, or the answer of a turn, is missing.
        hidden: whether a thought, or a part of it, is hidden.
    """

    answers: tuple[str, ...]
    thoughts: tuple[str, ...] = ()
    missing: bool = False
    hidden: bool = False


def reads_thoughts(scorer: Scorer) -> bool:
    """Return whether a scorer reads thoughts.

    Args:
        scorer: any scorer.

    Returns:
        False for a scorer that reads answers only, because of its kind or its `of=`; else True.
    """
    return reading_of(scorer) != "answer"


def is_unscored(scorer: Scorer, *, missing: bool, hidden: bool) -> bool:
    """Return whether a part of an output that the scorer needs is missing.

    The score is then 1 or missing.

    Args:
        scorer: any scorer; its reading decides which parts matter.
        missing: whether the answer is missing.
        hidden: whether the thought, or a part of it, is hidden.

    Returns:
        True if a part that the scorer's reading needs is missing.
    """
    of = reading_of(scorer)
    return (missing and of != "thought") or (hidden and of in ("thought", "either"))


def score_outputs(
    scorer: Scorer, outputs: Sequence[Readable], prompts: Sequence[Prompt | str]
) -> list[float | None]:
    """Score outputs in the reading of the scorer, with the checks of `score_pairs`.

    Args:
        scorer: any scorer; a scorer that queries a model must be connected.
        outputs: n outputs.
        prompts: the prompt of each output, or its reference answer, [n]; prompts are identified by
            id.

    Returns:
        One score per output, in order, in [0, 1]; None if the score is missing.

    Raises:
        InputError: in the same cases as `score_texts`.
    """
    of = reading_of(scorer)
    texts = [
        _parts(of, answers, thoughts) if thoughts or of == "thought" else answers
        for answers, thoughts, _, _ in outputs
    ]
    pairs = [(text, prompt) for own, prompt in zip(texts, prompts, strict=True) for text in own]
    scores = iter(score_pairs(scorer, pairs))
    silent = [0.0] if of == "thought" else []  # without a thought the score is 0
    return [
        next(scores)  # the common case of one readable text
        if len(own) == 1 and not (missing or hidden or silent)
        else _largest([
            *islice(scores, len(own)),
            *silent,
            *[None] * is_unscored(scorer, missing=missing, hidden=hidden),
        ])
        for own, (_, _, missing, hidden) in zip(texts, outputs, strict=True)
    ]  # fmt: skip


def _parts(of: Of | None, answers: tuple[T, ...], thoughts: tuple[T, ...]) -> tuple[T, ...]:
    """Return the parts of an output that are scored in a reading."""
    if of == "answer" or not thoughts:
        return () if of == "thought" else answers
    return thoughts if of == "thought" else answers + thoughts


def _largest(scores: Sequence[float | None]) -> float | None:
    """Return the largest score; None if a missing score could be larger."""
    valid = [score for score in scores if score is not None]
    return max(valid) if valid and (len(valid) == len(scores) or max(valid) == 1) else None


def score_ranges(
    scorer: Scorer, events: Sequence[Event], prompt: Prompt | str, stop: Sequence[str] = ()
) -> list[tuple[float, float]]:
    """Return the lowest and the highest score of the outputs in each event.

    Args:
        scorer: any scorer; a scorer that queries a model must be connected.
        events: complete outputs, and beginnings of outputs.
        prompt: the prompt, or its reference answer.
        stop: the stop strings of the decoding.

    Returns:
        One (low, high) per event, in order, in [0, 1]. For a complete output, both numbers are the
            score, or (0, 1) if the score is missing. For a beginning, the ranges of its thought and
            its answer are combined. Before the answer begins, the range of the answer is (0, 1),
            because the answer may be missing in the end. After the answer begins, the thought is
            complete and has a score.

    Raises:
        InputError: as by `text_ranges`.
    """
    of = reading_of(scorer)
    read = [_parts(of, (_answer(event, stop),), _thought(event, of)) for event in events]
    texts = dict.fromkeys(part for parts in read for part in parts if isinstance(part[0], str))
    of_text = dict(zip(texts, text_ranges(scorer, [*texts], prompt), strict=True))
    settles = callable(getattr(base_of(scorer), "bounds", None))

    def unsettled(part: Part) -> bool:
        """Return whether a part is missing, or may remain without a score."""
        over = part not in of_text or part[1] or not settles
        return over and of_text.get(part, part) == _OPEN

    return [
        _joined([of_text.get(part, part) for part in parts], any(map(unsettled, parts)))
        for parts in read
    ]


_OPEN, _SILENT = (0.0, 1.0), (0.0, 0.0)


def _answer(event: Event, stop: Sequence[str]) -> Part:
    """Return the answer of an event, or the range of its score if there is no readable answer."""
    if event.ended:
        missing = is_missing(event, counted_as(event, stop))
    else:
        missing = not visible(event.answer)
    return _OPEN if missing else (event.answer, event.ended)


def _thought(event: Event, of: Of | None) -> tuple[Part, ...]:
    """Return the visible thought of an event, and the range of its hidden part."""
    done = event.ended or visible(event.answer)
    seen = ((event.thought, done),) if event.thought and visible(event.thought) else ()
    if not done and not seen:
        return (_OPEN,)
    return (*seen, *[_OPEN] * (event.hidden and of is not None)) or (_SILENT,)


def _joined(ranges: Sequence[tuple[float, float]], unsettled: bool) -> tuple[float, float]:
    """Return the range of the largest score; (0, 1) if a part may be missing and none scores 1."""
    low, high = (max(ends) for ends in zip(*ranges, strict=True))
    if low == 1:
        return 1.0, 1.0
    return _OPEN if unsettled else (float(low), float(high))


def readable(output: Output, stop: Sequence[str] = ()) -> Readable:
    """Return the texts of an output that a scorer may read.

    Args:
        output: the output.
        stop: the stop strings of its decoding.

    Returns:
        The texts of the output.
    """
    missing = is_missing(output, counted_as(output, stop))
    return rows_of([output.answer], [output.thought], [missing], [output.hidden])[0]


def rows_of(
    answers: Iterable[str],
    thoughts: Iterable[str | None],
    missing: Iterable[bool],
    hidden: Iterable[bool],
    turn: str | None = None,
) -> list[Readable]:
    """Return the readable texts of stored outputs.

    Args:
        answers: the answer of each output.
        thoughts: the visible thought of each output; None if there is none.
        missing: for each output, whether its answer is missing.
        hidden: for each output, whether a part of its thought is hidden.
        turn: the separator between turns of conversations (None: there are no conversations).

    Returns:
        One value per output. If a turn of a conversation is missing, the value contains the other
        turns.
    """

    def turns(text: str) -> list[str]:
        return [text] if turn is None else text.split(turn)

    return [
        Readable(
            () if absent and turn is None else tuple(turns(answer)),
            tuple(filter(visible, turns(thought))) if thought else (),
            absent,
            unseen,
        )
        for answer, thought, absent, unseen in zip(answers, thoughts, missing, hidden, strict=True)
    ]
