"""What the scorers of an inspect_ai log gave each epoch, as numbers.

Letters are read as inspect_ai's `value_to_float` reads them: C 1, P 1/2, I and N 0; yes and true
1, no and false 0; a number, also one in words, is itself. Departure: what else is said counts
there as 0, here as undecided, and so do NaN and infinity.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_LARGEST = sys.float_info.max
_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LIKE = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
# Scorers of inspect_ai itself that give C and I alone; those of `_GRADED` unless partial credit is
# allowed.
_BINARY = {"answer", "choice", "exact", "includes", "match", "pattern"}
_GRADED = {"model_graded_fact", "model_graded_qa"}

Json = Mapping[str, Any]


def scorers(about: Json, samples: list[dict[str, Any]]) -> dict[str, bool]:
    """The names of the scores that some epoch has, and whether they can be 0 and 1 only."""
    made = {one["name"].rpartition("/")[2]: one for one in about.get("scorers") or []}
    names = dict.fromkeys(name for sample in samples for name, _ in scores(sample))
    return {name: _is_binary(made.get(name.rpartition("/")[2], {"name": ""})) for name in names}


def scores(sample: Json) -> tuple[tuple[str, float | None], ...]:
    """The scores of one epoch; of a scorer that gives several, each under `SCORER/KEY`."""
    return tuple(
        (name, number(value)) for name, value in _values(sample) if not isinstance(value, list)
    )


def unread(path: Path, samples: list[dict[str, Any]]) -> Iterator[str]:
    """What a reader should know of scores that are no numbers."""
    every = [pair for sample in samples for pair in _values(sample)]
    if lists := dict.fromkeys(name for name, value in every if isinstance(value, list)):
        yield f"lists of scores are left out of `{path.name}`: {', '.join(lists)}"
    odd = [(n, v) for n, v in every if isinstance(v, str) and number(v) is None]
    if odd:
        yield (
            f"{len(odd)} scores of `{path.name}` are no numbers and count as undecided, such as "
            f"{odd[0][1]!r} of {odd[0][0]!r}"
        )


def number(value: object) -> float | None:
    """A score as a number; None where it says none."""
    if isinstance(value, bool | int | float):
        return float(value) if -_LARGEST <= value <= _LARGEST else None
    if not isinstance(value, str):
        return None
    known = _WORDS.get(value, _LIKE.get(value.strip().lower()))
    if known is not None:
        return known
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _values(sample: Json) -> Iterator[tuple[str, Any]]:
    for name, score in (sample.get("scores") or {}).items():
        value = score["value"]
        if isinstance(value, Mapping):
            yield from ((f"{name}/{key}", each) for key, each in value.items())
        else:
            yield name, value


def _is_binary(made: Json) -> bool:
    name = made["name"].rpartition("/")[2]
    partial = bool((made.get("options") or {}).get("partial_credit"))
    return name in _BINARY or (name in _GRADED and not partial)
