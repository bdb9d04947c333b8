from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.metrics.membership import exact_memorisation, extraction_strength
from readings import reading

Y, N = True, False
CASES = {  # the last is the end token, which never counts: (top, exact, extraction, compat)
    "all right": ([Y, Y, Y, Y, N], 1.0, 1.0, 1.0),
    "the ending": ([Y, N, Y, Y, N], 0.75, 0.5, 0.5),
    "the beginning": ([Y, Y, Y, N, Y], 0.75, 0.0, 0.25),
    "nothing": ([N, N, N, N, Y], 0.0, 0.0, 0.25),
    "the last word": ([N, N, N, Y, N], 0.25, 0.25, 0.25),
    "one token": ([N, Y], 0.0, 0.0, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    top, exact, strength, compat = CASES[case]
    read = reading([1.0] * len(top), top=top)
    assert exact_memorisation(read) == exact
    assert extraction_strength(read) == strength
    assert extraction_strength(read, compat="openunlearning") == compat


def test_an_answer_of_the_end_token_alone_is_refused() -> None:
    for measure in (exact_memorisation, extraction_strength):
        with pytest.raises(InputError, match="before the end token, got 1"):
            measure(reading([1.0]))
