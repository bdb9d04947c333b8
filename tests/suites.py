"""Which cases of a test the quick suite runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(quick: Collection[object], cases: Iterable[object]) -> list[Any]:
    """Every case, for `parametrize`: those that are not among the `quick` ones are slow.

    A case of several arguments is a tuple of them.
    """
    every = list(cases)
    assert all(case in every for case in quick), "what should be quick is none of the cases"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] * (case not in quick),
        )
        for case in every
    ]
