"""A benchmark's prompts with rewritings from a file of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leakbound.inputs.sources import read_rewritings
from leakbound.types import Prompt


def with_rewritings(prompts: Sequence[Prompt], path: str | Path) -> tuple[Prompt, ...]:
    """The prompts, each with the rewritings that the file has of it after its paraphrases.

    `leakbound.inputs.sources.read_rewritings` says how the file is written, and what it refuses.
    """
    found = read_rewritings(prompts, Path(path))
    return tuple(
        replace(prompt, paraphrases=prompt.paraphrases + found[prompt.id]) for prompt in prompts
    )
