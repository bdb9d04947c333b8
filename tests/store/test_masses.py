"""Exact masses of an arm, and a model's readings of given texts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import drawn_part
from leakbound.store import Arm, DamagedError, Part, Place, Plan, Read, Readings, Run, load
from leakbound.store.masses import StoredMasses
from leakbound.types import Decoding, Event, Exploration, Query, Reading, Sample, object_of
from leaky import leaky_run
from shared import keep

IDS = [f"q{i}" for i in range(6)]
PARTS = Plan.exploring().parts(IDS)
LOW, HIGH = {"no": 0.0, "open": 0.0, "leak": 1.0}, {"no": 0.0, "open": 1.0, "leak": 1.0}


def exploration(query_id: str, *events: tuple[str, float], remainder: float = 0.0) -> Exploration:
    query = Query(id=query_id, prompt_id=query_id, text="?")
    number = int(query_id[1:])
    return Exploration(
        events=tuple(
            Event(answer=text, token_ids=(number, i), ended=text != "open", mass=mass)
            for i, (text, mass) in enumerate(events)
        ),
        remainder=remainder,
        sample=Sample(query=query, decoding=Decoding(), completions=()),
        explored=10 + number,
        forwards=20 + number,
    )


SOME = [
    exploration("q0", ("no", 0.5), ("leak", 0.2), remainder=0.3),
    exploration("q1", ("open", 0.25)),
    exploration("q2", remainder=1.0),
    exploration("q4", ("leak", 0.1), ("no", 0.1), ("no", 0.1)),
]  # q3 and q5 failed: they have no masses


def ranges(table: Any) -> list[tuple[float, float]]:
    return [(LOW[text], HIGH[text]) for text in table["answer"].to_pylist()]


def write(masses: StoredMasses, part: Part, explored: Sequence[Exploration]) -> None:
    drawn = drawn_part(part, explored)
    masses.stored.write(part, drawn.events, object_of(drawn.explored))


def stored(folder: Path, some: Sequence[Exploration] = SOME, arm: str = "arm") -> StoredMasses:
    masses = StoredMasses(folder, arm, lambda: PARTS)
    for part in PARTS:
        mine = [one for one in some if one.query.id in part.query_ids]
        write(masses, part, mine[::-1])  # in any order
    return masses


def scored(masses: StoredMasses) -> None:
    masses.score("s", "slug", ranges)


def test_explored_events_are_read_back(tmp_path: Path) -> None:
    masses = stored(tmp_path)
    assert [table["query_id"].to_pylist() for table in masses.tables()] == [
        ["q0", "q0", "q1"], ["q4", "q4", "q4"],
    ]  # fmt: skip
    assert next(masses.tables()).to_pylist()[2] == {
        "query_id": "q1", "answer": "open", "thought": None, "finish": "unknown", "tokens": None,
        "refused": False, "hidden": False, "token_ids": [1, 0], "ended": False, "mass": 0.25,
    }  # fmt: skip
    assert masses.explored().remainder == {"q0": 0.3, "q1": 0.0, "q2": 1.0, "q4": 0.0}
    settled = {"q0": 0.7, "q1": 0.0, "q2": 0.0, "q4": 0.3}  # q1 is open
    assert masses.explored().settled == pytest.approx(settled, abs=1e-15)
    assert masses.explored().forwards == {q: (10 + int(q[1]), 20 + int(q[1])) for q in settled}


def test_each_query_has_its_events_with_the_ranges_of_their_scores(tmp_path: Path) -> None:
    masses = stored(tmp_path)
    scored(masses)
    assert list(masses.scored("slug")) == [
        ("q0", (0, 0), 0.5, 0.0), ("q0", (0, 1), 0.2, 1.0), ("q1", (1, 0), 0.25, 0.0),
        ("q4", (4, 0), 0.1, 1.0), ("q4", (4, 1), 0.1, 0.0), ("q4", (4, 2), 0.1, 0.0),
    ]  # fmt: skip
    known = masses.by_query("slug")
    assert list(known) == ["q0", "q1", "q2", "q4"]
    assert known["q2"].p.shape == known["q2"].low.shape == known["q2"].high.shape == (0,)
    assert (known["q0"].remainder, known["q2"].remainder) == (0.3, 1.0)
    np.testing.assert_array_equal(known["q0"].p, [0.5, 0.2])
    np.testing.assert_array_equal(known["q0"].low, [0, 1])
    np.testing.assert_array_equal([*known["q1"].low, *known["q1"].high], [0, 1])
    np.testing.assert_array_equal(known["q4"].low, [1, 0, 0])


def test_ranges_are_made_once_and_of_just_these_events(tmp_path: Path) -> None:
    masses = stored(tmp_path)
    assert not masses.has_ranges("s", "slug")
    wanted: list[int] = []

    def counted(table: Any) -> list[tuple[float, float]]:
        wanted.append(table.num_rows)
        return ranges(table)

    for _ in range(2):
        masses.score("s", "slug", counted)
    assert wanted == [3, 3]
    before = masses.ranges.digest("slug")
    assert masses.has_ranges("s", "slug")
    assert not masses.has_ranges("other", "slug")
    with pytest.raises(DamagedError, match="belongs to another run"):
        StoredMasses(tmp_path, "another arm", lambda: PARTS).has_ranges("s", "slug")
    write(masses, PARTS[1], [exploration("q4", ("leak", 0.2))])
    assert not masses.has_ranges("s", "slug")
    masses.score("s", "slug", counted)
    assert wanted == [3, 3, 3, 1]
    assert masses.ranges.digest("slug") != before
    file = masses.ranges.file("slug")
    file.write_bytes(file.read_bytes()[:-30])
    assert not masses.has_ranges("s", "slug")


def test_files_that_are_damaged_or_no_part_are_not_mixed_in(tmp_path: Path) -> None:
    masses = stored(tmp_path)
    first, before = masses.stored.file(PARTS[0]), masses.explored().remainder
    shutil.copy(first, first.with_name("part-00099.parquet"))
    assert masses.explored().remainder == before
    first.rename(first.with_name(f"{first.name}.set-aside-1"))
    assert masses.explored().remainder == {"q4": 0.0}
    shutil.copy(masses.stored.file(PARTS[1]), first)
    with pytest.raises(DamagedError, match=r"part-00000.*belongs to another run"):
        masses.explored()
    first.write_bytes(b"PAR1")
    with pytest.raises(DamagedError, match="part-00000"):
        masses.explored()


def test_an_arm_of_which_nothing_was_explored(tmp_path: Path) -> None:
    masses = stored(tmp_path, [])
    scored(masses)
    assert masses.by_query("slug") == {}
    assert list(masses.scored("slug")) == []


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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keep(leaky_run(tmp_path_factory.mktemp("readings") / "run", n=8).path)


@pytest.fixture
def run(drawn: Path, tmp_path: Path) -> Run:
    return load(shutil.copytree(drawn, tmp_path / "run"))


def saved(run: Run, arm: Arm | None = None) -> Run:
    """Store two readings and an answer, and open the run again."""
    known = Readings(arm or run.arms["greedy"])
    known.texts[ANSWER] = Read(READING, gradient_norm=1.5)
    known.texts[WRONG] = Read(READING)
    known.answers[GREEDY] = "no\nidea"
    known.save()
    return Run.open(run.path)


def test_readings_are_read_back_to_the_last_bit(run: Run) -> None:
    known = Readings(saved(run).arms["greedy"])
    assert set(known.texts) == {ANSWER, WRONG}
    assert known.texts[ANSWER].gradient_norm == 1.5
    assert known.texts[WRONG].gradient_norm is None
    for field in fields(Reading):
        actual, stored = (getattr(r, field.name) for r in (known.texts[WRONG].reading, READING))
        assert np.array_equal(actual, stored)
        assert type(actual) is type(stored)
        assert getattr(actual, "dtype", None) == getattr(stored, "dtype", None)
    assert known.answers == {GREEDY: "no\nidea"}
    file = run.path / "arms" / "greedy" / "forced.parquet"
    file.write_bytes(b"torn")
    with pytest.raises(DamagedError, match=r"forced.parquet.+or remove it and repeat the"):
        Readings(run.arms["greedy"])
    file.unlink()
    known = Readings(run.arms["greedy"])
    assert (known.texts, known.answers) == ({}, {GREEDY: "no\nidea"})


@pytest.mark.parametrize(
    "change", [{"text": "Who wrote q0"}, {"prefix": "Sure"}, {"source": "rules"}, {"id": "q1"}]
)
def test_readings_depend_on_every_word(run: Run, change: dict[str, Any]) -> None:
    known = Readings(saved(run).arms["greedy"])
    wanted = "forget", QUERY, "answer", 0, "Ossian Quill"
    assert Place.of(*wanted) in known.texts
    assert Place.of("forget", replace(QUERY, **change), *wanted[2:]) not in known.texts
    assert Place.of(*wanted[:4], "Ossian") not in known.texts
    assert Place.of("holdout", *wanted[1:]) not in known.texts


def test_readings_depend_on_model_and_decoding(run: Run) -> None:
    arm = run.arms["greedy"]
    Readings(arm).save()
    assert not list(arm.folder.glob("*.parquet"))  # without readings there is no file
    arm.spec = replace(arm.spec, fingerprint={"stop": ("a", "b")})
    saved(run, arm)
    arm.decoding = replace(arm.decoding, max_new_tokens=7)
    known = Readings(arm)
    assert (set(known.texts), known.answers) == ({ANSWER, WRONG}, {})
    arm.spec = replace(arm.spec, fingerprint={"weights": "others"})
    assert Readings(arm).texts == {}
