"""Rounds of draws, what each look leads to, and a record that is there whole or refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_run import QUERIES, begin, fill, spec

from canned import drawn_part
from leakbound.errors import MixError
from leakbound.store import (
    TARGET,
    Arm,
    CopiedFrom,
    DamagedError,
    Look,
    Part,
    ScorerRecord,
    StoppedDraws,
)
from leakbound.store.plan import Cut, rounds_of
from leakbound.store.sealed import write_sealed
from leakbound.types import Failure, Sample

RULE = StoppedDraws(claim="p<=0.02", scorer=ScorerRecord("s", "0"), confidence=0.99, first=4)


def stopping(path: Path, **more: Any) -> Arm:
    return begin(path).add_arm(TARGET, spec(64, draws=RULE, cut=Cut.whole(), **more))


def look(n: int, goals: dict[str, int]) -> dict[str, Look]:
    return {q: Look(n, "open" if goal > n else "holds", goal) for q, goal in goals.items()}


FIRST = look(4, {"p0": 8, "p1": 4, "p2": 12, "p3": 8, "p4": 4})
SECOND = look(8, {"p0": 8, "p3": 16})


def chunks(rounds: tuple[tuple[Part, ...], ...]) -> dict[str, dict[int, int]]:
    """Draws in every chunk of every query, each of which must be drawn once."""
    drawn: dict[str, dict[int, int]] = {}
    for part in (part for parts in rounds for part in parts):
        for query_id in part.query_ids:
            for i, size in enumerate(part.sizes):
                mine = drawn.setdefault(query_id, {})
                assert part.first_chunk + i not in mine
                mine[part.first_chunk + i] = size
    return drawn


def test_each_look_leads_to_a_round() -> None:
    ids = [f"p{i}" for i in range(5)]
    rounds = rounds_of(ids, 4, (FIRST, SECOND), Cut.whole())
    assert [[(part.query_ids, part.draws) for part in parts] for parts in rounds] == [
        [(tuple(ids), 20)],
        [(("p0", "p3"), 8), (("p2",), 8)],  # who gets equally many shares a part
        [(("p3",), 8)],
    ]
    assert [part.number for parts in rounds for part in parts] == [0, 1, 2, 3]
    assert chunks(rounds) == {
        "p0": {0: 4, 1: 4}, "p1": {0: 4}, "p2": {0: 4, 1: 8}, "p3": {0: 4, 1: 4, 2: 8}, "p4": {0: 4}
    }  # fmt: skip


def test_the_draws_of_a_question_do_not_depend_on_the_others() -> None:
    long = look(4, {"a": 3000}), look(3000, {"a": 3004})
    late = look(4, {"b": 8}), look(4, {"a": 3000}), look(3000, {"a": 3004})
    alone, among = (
        chunks(rounds_of(["a", "b"], 4, looks, Cut.whole()))["a"] for looks in (long, late)
    )
    assert alone == among == {0: 4, 1: 1024, 2: 1024, 3: 948, 4: 4}


def test_a_look_is_kept_and_found_again(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm)
    assert arm.unlooked() == dict.fromkeys(("p0", "p1", "p2", "p3", "p4"), 4)
    assert arm.add_look(FIRST) == 1
    assert [part.number for part in arm.missing_parts()] == [1, 2]
    assert arm.unlooked() == {"p0": 8, "p2": 12, "p3": 8}
    again = stopping(tmp_path / "r")
    assert again.looks == (FIRST,)
    assert again.parts == arm.parts
    assert [part.number for part in again.missing_parts()] == [1, 2]
    fill(again)
    assert again.add_look(SECOND) == 3
    assert [part.number for part in again.missing_parts()] == [3]
    assert again.add_look(look(16, {"p3": 16})) == 4 == len(again.parts)
    assert again.unlooked() == {"p2": 12}


def test_parts_that_are_there_need_not_be_drawn_for_a_look_made_again(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm)
    arm.add_look(FIRST)
    fill(arm)
    (arm.folder / "looks.json").unlink()
    again = stopping(tmp_path / "r")
    assert len(again.parts) == 1
    assert again.add_look(FIRST) == 1
    assert again.missing_parts() == []


def test_an_arm_of_fixed_n_has_one_round_and_no_looks(tmp_path: Path) -> None:
    arm = begin(tmp_path / "r").add_arm(TARGET, spec())
    fill(arm)
    assert arm.rounds == (arm.plan.parts([q.id for q in QUERIES], arm.cut),)
    assert arm.unlooked() == {}
    assert not (arm.folder / "looks.json").exists()


def test_questions_that_failed_are_not_waited_for(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm, broken="p1")
    assert set(arm.unlooked()) == {"p0", "p2", "p3", "p4"}


@pytest.mark.parametrize("damage", ["{", "[]", '{"looks": [{"p0": 3}], "arm": "x"}', "other"])
def test_a_record_of_looks_that_is_not_this_arms_is_refused(tmp_path: Path, damage: str) -> None:
    arm = stopping(tmp_path / "r")
    arm.add_look(FIRST)
    file = arm.folder / "looks.json"
    if damage == "other":
        other = stopping(tmp_path / "o", machine={}, copied=CopiedFrom("x", TARGET))
        other.add_look(FIRST)
        damage = (other.folder / "looks.json").read_text()
    file.write_text(damage)
    with pytest.raises(DamagedError, match=r"looks\.json.*Restore it"):
        stopping(tmp_path / "r")


@pytest.mark.parametrize("looks", [3, [3], [{"p0": 3}], [{"p0": {"n": 3}}], None])
def test_a_record_of_looks_that_holds_others_is_refused(tmp_path: Path, looks: object) -> None:
    """Whoever wrote it, its own digest right: another version, or a hand."""
    arm = stopping(tmp_path / "r")
    arm.add_look(FIRST)
    file = arm.folder / "looks.json"
    write_sealed(file, {"arm": arm.identity} | ({} if looks is None else {"looks": looks}))
    with pytest.raises(DamagedError, match=r"looks\.json`.* (must be|lacks) .*Restore it"):
        stopping(tmp_path / "r")


def test_another_rule_is_another_run(tmp_path: Path) -> None:
    stopping(tmp_path / "r")
    for key, value in (("claim", "p<=0.05"), ("confidence", 0.9)):
        changed = spec(64, draws=replace(RULE, **{key: value}))
        with pytest.raises(MixError, match=rf"draws: {key}: it has .* says {value!r}"):
            begin(tmp_path / "r").add_arm(TARGET, changed)
    with pytest.raises(MixError, match=r"n = 64, fixed before.*says 65"):
        begin(tmp_path / "r").add_arm(TARGET, spec(65, draws=RULE))
    with pytest.raises(MixError, match="draws: kind: it has 'until decided'"):
        begin(tmp_path / "r").add_arm(TARGET, spec(64))


def test_scores_join_as_rounds_do_and_can_be_had_of_the_first_ones(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    scored: Counter[str] = Counter()

    def score(table: Any) -> list[float | None]:
        scored.update(table["text"].to_pylist())
        return [float(text.endswith("yes")) for text in table["text"].to_pylist()]

    fill(arm)
    arm.scored.write("s", "s", partial(map, score))
    arm.add_look(FIRST)
    fill(arm, skip=0)
    arm.scored.write("s", "s", partial(map, score))
    assert scored["p1 yes"] == 1  # drawn once, scored once
    assert scored["p0 yes"] == 2
    assert arm.scores("s").n.tolist() == [8, 4, 12, 8, 4]
    assert arm.scores("s").hits.tolist() == [2, 1, 2, 2, 1]
    assert arm.scores("s", rounds=1).n.tolist() == [4] * 5
    assert arm.scores("s", rounds=1).of({"p2", "p4"}).query_ids == ("p2", "p4")
    fill(arm)  # the first part is another file with the same contents
    arm.scored.write("s", "s", partial(map, score))
    assert scored["p1 yes"] == 1
    file = arm.scored.stored.file("s")
    file.write_bytes(file.read_bytes()[:-9])
    arm.scored.write("s", "s", partial(map, score))
    assert scored["p1 yes"] == 2
    arm.scored.write("t", "s", partial(map, score))  # another scorer's file
    assert scored["p1 yes"] == 3


def test_a_first_part_that_changed_is_scored_again(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm, broken="p0")
    arm.scored.write("s", "s", partial(map, lambda table: [0.0] * len(table)))
    arm.add_look({q: seen for q, seen in FIRST.items() if q != "p0"})
    fill(arm)
    arm.scored.write("s", "s", partial(map, lambda table: [1.0] * len(table)))
    assert (arm.scores("s").hits == arm.scores("s").n).all()


def test_a_query_none_of_whose_draws_came_has_them_all_missing(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    results: list[Sample | Failure] = [
        Sample(query=query, decoding=arm.decoding, completions=(), missing=4) for query in QUERIES
    ]
    arm.write_part(arm.parts[0], drawn_part(arm.parts[0], results))
    arm.scored.write("s", "s", partial(map, lambda table: []))
    scores = arm.scores("s")
    assert scores.query_ids == tuple(query.id for query in QUERIES)
    assert scores.missing.tolist() == scores.n.tolist() == [4] * 5


def test_looks_are_readable(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    arm.add_look(FIRST)
    record = json.loads((arm.folder / "looks.json").read_text())
    assert record["looks"][0]["p2"] == {"n": 4, "decision": "open", "next": 12}
