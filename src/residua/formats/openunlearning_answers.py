"""The greedy answers in a log of OpenUnlearning, as samples: a baseline beside draws."""

from __future__ import annotations

from pathlib import Path

from residua.formats.imported import Asked, Draw, Log
from residua.formats.openunlearning import read_log
from residua.formats.openunlearning_values import greedy_answers


def read(path: Path) -> Log:
    """The answers to the forget set, by row; the text of each question is all the model was shown.

    InputError where the log has none.
    """
    asked = tuple(
        Asked(id=str(row), text=found.prompt, answers=(found.answer,), draws=(Draw(found.text),))
        for row, found in greedy_answers(read_log(path), "forget").items()
    )
    return Log(
        path=path,
        tool="OpenUnlearning",
        model="unnamed",
        task="forget",
        stated={"temperature": 0.0},
        asked=asked,
    )
