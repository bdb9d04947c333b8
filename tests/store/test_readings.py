"""What a model makes of given texts, kept beside an arm."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.store import DamagedError, Place, Read, Readings, Run
from leakbound.types import Query, Reading
from leaky import leaky_run

QUERY = Query(id="q0", prompt_id="q0", text="Who wrote q0?")
ANSWER = Place.of("forget", QUERY, "answer", 0, "Ossian Quill")
WRONG = Place.of("forget", QUERY, "perturbed", 1, "Ann\ud800")
GREEDY = Place.of("retain", QUERY, "greedy")
READING = Reading(
    token_ids=(5, 7, 2),
    text=" Ann\n",
    logprobs=np.array([-0.1, -np.inf, -2.0 / 3]),
    top=np.array([True, False, True]),
    mean=np.array([-1.0, -2.0, -3.0]),
    std=np.array([0.1, 0.2, 0.3]),
    confidence=np.array([0.9, 0.8, 0.7]),
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return leaky_run(tmp_path / "run", n=8)


def saved(run: Run) -> Run:
    """The run with two readings and an answer stored; opened anew."""
    known = Readings(run.arms["greedy"])
    known.texts[ANSWER] = Read(READING, gradient_norm=1.5)
    known.texts[WRONG] = Read(READING)
    known.answers[GREEDY] = "no\nidea"
    known.save()
    return Run.open(run.path)


def test_what_is_saved_is_known_again_to_the_last_bit(run: Run) -> None:
    known = Readings(saved(run).arms["greedy"])
    assert set(known.texts) == {ANSWER, WRONG}
    assert known.texts[ANSWER].gradient_norm == 1.5
    assert known.texts[WRONG].gradient_norm is None
    for field in fields(Reading):
        found, stored = (getattr(r, field.name) for r in (known.texts[WRONG].reading, READING))
        assert np.array_equal(found, stored)
        assert type(found) is type(stored)
        assert getattr(found, "dtype", None) == getattr(stored, "dtype", None)
    assert known.answers == {GREEDY: "no\nidea"}
    folder = run.path / "arms" / "greedy"
    assert {"forced.parquet", "answers.parquet"} <= {file.name for file in folder.iterdir()}


def test_nothing_known_leaves_no_file(run: Run) -> None:
    Readings(run.arms["greedy"]).save()
    assert not list((run.path / "arms" / "greedy").glob("*.parquet"))


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Who wrote q0"},
        {"prefix": "Sure"},
        {"source": "rules"},
        {"id": "q1"},
    ],
)
def test_of_other_words_nothing_is_known(run: Run, change: dict[str, Any]) -> None:
    known = Readings(saved(run).arms["greedy"])
    assert Place.of("forget", QUERY, "answer", 0, "Ossian Quill") in known.texts
    assert Place.of("forget", replace(QUERY, **change), "answer", 0, "Ossian Quill") not in (
        known.texts
    )
    assert Place.of("forget", QUERY, "answer", 0, "Ossian") not in known.texts
    assert Place.of("holdout", QUERY, "answer", 0, "Ossian Quill") not in known.texts


def test_of_another_model_nothing_is_known_nor_an_answer_under_another_decoding(run: Run) -> None:
    saved(run)
    arm = run.arms["greedy"]
    arm.decoding = replace(arm.decoding, max_new_tokens=7)
    known = Readings(arm)
    assert set(known.texts) == {ANSWER, WRONG}
    assert known.answers == {}
    arm.spec = replace(arm.spec, fingerprint={"weights": "others"})
    assert Readings(arm).texts == {}


def test_a_fingerprint_of_tuples_is_found_again(run: Run) -> None:
    arm = run.arms["greedy"]
    arm.spec = replace(arm.spec, fingerprint={"stop": ("a", "b")})
    known = Readings(arm)
    known.texts[ANSWER] = Read(READING)
    known.save()
    assert ANSWER in Readings(arm).texts


def test_a_damaged_file_is_set_aside_with_a_note(run: Run) -> None:
    folder = saved(run).path / "arms" / "greedy"
    (folder / "forced.parquet").write_bytes(b"torn")
    opened = Run.open(run.path)
    with pytest.raises(DamagedError, match=r"forced.parquet.+the command that read it"):
        Readings(opened.arms["greedy"])
    assert (folder / "forced.parquet").read_bytes() == b"torn"  # who only reads renames nothing
    known = Readings(opened.arms["greedy"], mend=True)
    assert known.texts == {}
    assert known.answers == {GREEDY: "no\nidea"}
    assert "forced.parquet` is not a whole Parquet file" in opened.notes[0]
    assert "set aside as forced.parquet.set-aside-1, to be redone" in opened.notes[0]
    assert (folder / "forced.parquet.set-aside-1").read_bytes() == b"torn"
