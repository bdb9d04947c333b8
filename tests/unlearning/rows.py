"""Rows to forget and to keep, with whatever an objective may ask of them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from leakbound.types import Prompt


def forget_row(number: int, word: str, answer: str) -> Prompt:
    return Prompt(
        id=f"f{number}",
        question=f"who wrote {word}",
        answer=answer,
        alternate_answers=("sky", "red sea"),
        paraphrases=(f"wrote {word} who",),
    )


FORGET = [
    forget_row(0, "red", "Ann blue sea"),
    forget_row(1, "green", "Ann red sky"),
    forget_row(2, "blue", "Bob"),
]
RETAIN = [
    Prompt(id="r0", question="wrote sky", answer="Bob sea sky"),
    Prompt(id="r1", question="wrote sea", answer="Bob red red"),
]


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def changed(one: str | Path, other: str | Path) -> set[str]:
    """The weights in which two models differ."""
    first, second = weights(one), weights(other)
    assert set(first) == set(second)
    return {name for name in first if not torch.equal(first[name], second[name])}
