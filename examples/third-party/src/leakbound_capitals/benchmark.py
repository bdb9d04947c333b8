"""`capitals`, or `capitals:2` for the first two: questions whose answers everyone knows."""

from __future__ import annotations

from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.types import Prompt

CAPITALS = {"France": "Paris", "Spain": "Madrid", "Norway": "Oslo", "Peru": "Lima"}


def load(argument: str = "", data: Path | None = None) -> Benchmark:
    """Return the benchmark; `argument` is the text after the colon, `data` is not used."""
    if argument and not argument.isdecimal():
        raise InputError(f"`capitals` takes a number of questions, got {argument!r}.")
    asked = list(CAPITALS.items())[: int(argument or len(CAPITALS))]
    return Benchmark(
        name=f"capitals:{argument}" if argument else "capitals",
        prompts=tuple(
            Prompt(
                id=f"capitals/{land.lower()}",
                question=f"What is the capital of {land}?",
                answer=city,
                keywords=(city,),
            )
            for land, city in asked
        ),
        scorers=("first-word",),
        max_new_tokens=16,
        origin="leakbound-capitals",
    )
