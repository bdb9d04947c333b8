"""The greedy answers in a log of OpenUnlearning, as samples: a baseline beside draws."""

from __future__ import annotations

from pathlib import Path

from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion
from leakbound.formats.openunlearning import read_log
from leakbound.formats.openunlearning_names import ANSWERS
from leakbound.formats.openunlearning_values import greedy_answers


def read(path: Path, part: str | None = None) -> ImportedLog:
    """The answers to the questions of a part, by row: one of `ANSWERS`, else the first there is.

    The text of each question is all the model was shown. InputError where the log has none.
    """
    log = read_log(path)
    first = next((name for name, entry in ANSWERS.items() if entry in log.metrics), "forget")
    part = first if part is None else part
    asked = tuple(
        ImportedQuestion(
            id=str(row), text=found.prompt, answers=(found.answer,), draws=(Draw(found.text),)
        )
        for row, found in greedy_answers(log, part).items()
    )
    return ImportedLog(
        path=path,
        tool="OpenUnlearning",
        model="unnamed",
        task=part,
        stated={"temperature": 0.0},
        asked=asked,
    )
