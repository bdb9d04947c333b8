"""Helpers of suites: quick cases, tests of counts against a distribution, kills at writes."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest
from scipy import stats

from leakbound.store import Run
from leakbound.types import Decoding, Draws, Generate, Query, Sample

K = TypeVar("K", bound=Hashable)
DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", Path(__file__).parents[1] / "../shared/data"))


def needs_data(folder: str) -> pytest.MarkDecorator:
    """Skip a test if this machine lacks the published data of this folder."""
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason="no LEAKBOUND_TEST_DATA")


def slow_but(quick: Collection[object], cases: Iterable[object]) -> list[Any]:
    """Return every case for `parametrize`, with all but the `quick` ones marked slow.

    A case of several arguments is a tuple.
    """
    every = list(cases)
    assert all(case in every for case in quick), "a quick case is not among the cases"
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] * (case not in quick),
        )
        for case in every
    ]


def require_fit(
    drawn: Mapping[K, int], law: Mapping[K, float], least: float = 5, level: float = 1e-3
) -> None:
    """Test counts against a distribution by chi-square; rare outcomes form cells of `least`.

    The masses need not add up to one. Nothing else may be drawn.
    """
    assert set(drawn) <= set(law)
    n = sum(drawn.values()) / sum(law.values())
    observed, expected = [0], [0.0]
    for each in sorted(law, key=lambda each: -law[each]):
        observed[-1], expected[-1] = observed[-1] + drawn.get(each, 0), expected[-1] + n * law[each]
        if expected[-1] >= least:
            observed, expected = [*observed, 0], [*expected, 0.0]
    observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    if len(observed) > 1:
        assert stats.chisquare(observed, expected, sum_check=False).pvalue > level


def killed_at_every_write(
    command: Callable[[Path], Run],
    contents: Callable[[Run], Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Kill a command before each of its writes and resume it; return the names of the files."""
    replace, written, fatal = Path.replace, list[str](), -1

    def counted(path: Path, target: Path) -> Path:
        if len(written) == fatal:
            raise KeyboardInterrupt
        written.append(Path(target).name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    wanted, names = contents(command(folder / "whole")), [*written]
    for number, name in enumerate(names):
        fatal, out = number, folder / f"{number}"
        written.clear()
        with pytest.raises(KeyboardInterrupt):
            command(out)
        fatal = -1
        run = command(out)
        assert contents(run) == wanted, f"killed before {name}"
        assert run.notes == []
    return names


def counts_of(sample: Sample) -> Counter[str]:
    """Return the number of draws of each answer."""
    got: Counter[str] = Counter()
    for completion in sample.completions:
        got[completion.answer] += completion.count
    return got


def law_by_draws(engine: Generate, query: Query, decoding: Decoding) -> dict[str, float]:
    """Return the fraction of each answer in a million draws."""
    (sample,) = engine.generate([query], decoding, Draws(sizes=(1_000_000,)))
    assert isinstance(sample, Sample)
    return {answer: count / sample.n for answer, count in counts_of(sample).items()}


@contextmanager
def plugged_into(tool: Mapping[str, Mapping[str, object]], plug_in: str) -> Iterator[Any]:
    """Import a plug-in over these modules of its tool, and remove them afterwards."""
    before = dict(sys.modules)
    for name, members in tool.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(members)
    sys.modules.pop(plug_in, None)
    try:
        yield importlib.import_module(plug_in)
    finally:
        for name in (*tool, plug_in):
            sys.modules.pop(name, None)
            if name in before:
                sys.modules[name] = before[name]
