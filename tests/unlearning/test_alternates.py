"""What is taught instead of the answer: the row's own, the user's, or ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rows import FORGET, RETAIN

from leakbound.errors import InputError
from leakbound.unlearning import TrainingSettings, unlearn
from leakbound.unlearning.rows import OURS, read_alternates, with_alternates
from tiny import tiny_model_folder

REFUSALS = read_alternates(OURS)
BARE = [replace(row, alternate_answers=()) for row in FORGET]
ONCE = TrainingSettings(epochs=1, batch_size=8)


def test_whose_they_are() -> None:
    own, bare = with_alternates([FORGET[0], BARE[1]], None)
    assert own == FORGET[0]
    assert bare.alternate_answers == REFUSALS
    assert with_alternates(FORGET[:1], ["sea"])[0].alternate_answers == ("sea",)


def test_ours_are_sentences_of_their_own() -> None:
    assert len(set(REFUSALS)) == len(REFUSALS) >= 20
    assert all(text.strip() == text and text.endswith(".") for text in REFUSALS)


@pytest.mark.parametrize("objective", ["idk", "dpo"])
def test_rows_of_ones_own_need_none(tmp_path: Path, objective: str) -> None:
    base = str(tiny_model_folder(tmp_path / "base"))

    def loss(out: str, **how: object) -> float:
        rows = {"forget": BARE, "retain": RETAIN, "settings": ONCE} | how
        done = unlearn(base, f"{objective}:retain=0", out=tmp_path / out, **rows)
        return float(json.loads((done.path / "training.jsonl").read_text().splitlines()[0])["loss"])

    assert loss("ours") > 0
    given = [replace(row, alternate_answers=("sea sky",)) for row in BARE]
    assert loss("said", settings=replace(ONCE, alternates=["sea sky"])) == loss("own", forget=given)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("I do not know.\n\n  Who can say? \n")
    (tmp_path / "a.jsonl").write_text('"I do not know."\n{"text": "Who can say?"}\n')
    (tmp_path / "b.txt").write_text("\n")
    both = ("I do not know.", "Who can say?")
    assert read_alternates(tmp_path / "a.txt") == read_alternates(tmp_path / "a.jsonl") == both
    with pytest.raises(InputError, match="holds no sentence"):
        read_alternates(tmp_path / "b.txt")


def test_refused_where_they_would_not_be_used(tmp_path: Path) -> None:
    rows = {"forget": FORGET, "retain": RETAIN, "out": tmp_path / "m"}
    with pytest.raises(InputError, match=r"`alternates` are for .* 'npo' does not"):
        unlearn("nothing", "npo", **rows, settings=TrainingSettings(alternates=["a"]))
    with pytest.raises(InputError, match="got none or a blank one"):
        unlearn("nothing", "idk", **rows, settings=TrainingSettings(alternates=[]))
