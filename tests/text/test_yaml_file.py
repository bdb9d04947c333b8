"""YAML by hand: plain values alone, of a size that a person writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbound.errors import InputError
from leakbound.study import Study
from leakbound.text.rows import MOST, read_yaml

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def written(folder: Path, text: str) -> Path:
    file = folder / "study.yaml"
    file.write_text(text)
    return file


def test_what_is_plain_is_read(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "a: [1, {b: x}]\nc: null\n")) == {
        "a": [1, {"b": "x"}],
        "c": None,
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, r"an alias \(\*a\) is not read: write out what it stands for.*line 2"),
        ("a: &a [*a]", r"an alias \(\*a\) is not read"),
        ("[" * 3_000, "is nested too deep"),
        ("a: " + "x" * MOST, "bytes, more than 1,048,576"),
        ("a: [", "is not YAML"),
    ],
    ids=["bomb", "of itself", "deep", "large", "torn"],
)
def test_what_could_hang_or_fill_memory_is_refused(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"(?s){says}"):
        read_yaml(written(tmp_path, text))


@pytest.mark.parametrize("text", ["benchmark: [" + "x, " * 9_000 + "x]", "[" + "x, " * 9_000 + "]"])
def test_a_message_shows_the_beginning_of_what_is_long(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got ") as told:
        Study.read(written(tmp_path, text))
    assert len(str(told.value)) < 600
