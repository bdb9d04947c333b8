"""Parts of fixed size, in rounds that looks lead to; every draw is in one part, under its key."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_run import begin, fill, score, spec

from leakbound.store import (
    TARGET,
    Arm,
    CopiedFrom,
    DamagedError,
    Look,
    Part,
    Plan,
    ScorerRecord,
    StoppedDraws,
)
from leakbound.store.files import write_sealed
from leakbound.store.plan import PART, rounds_of

IDS = [f"q{i}" for i in range(70)]
Key = tuple[str, int]


def draws_of(parts: Sequence[Part]) -> dict[Key, int]:
    """Return the number of draws of each query and chunk."""
    assert [part.number for part in parts] == list(range(len(parts)))
    got: dict[Key, int] = {}
    for part in parts:
        for query_id in part.query_ids:
            for j, size in enumerate(part.sizes):
                assert (query_id, part.first_chunk + j) not in got
                got[query_id, part.first_chunk + j] = size
    return got


@pytest.mark.parametrize(
    ("n", "queries", "parts"),
    [(0, 4, 18), (1, 64, 2), (64, 64, 2), (65, 63, 2), (1024, 4, 18), (4096, 1, 70),
     (1500, 2, 35), (4097, 1, 140), (40_000, 1, 700)],
)  # fmt: skip
def test_a_part_has_as_many_whole_questions_as_fit(n: int, queries: int, parts: int) -> None:
    """Four if they are explored; chunks of one question if it does not fit completely."""
    got = Plan(n).parts(IDS)
    assert (len(got[0].query_ids), len(got)) == (queries, parts)
    wanted = {(q, i): min(1024, n - 1024 * i) for q in IDS for i in range(-(-n // 1024))}
    assert draws_of(got) == wanted
    assert all(part.draws <= PART for part in got)


RULE = StoppedDraws(claim="p<=0.02", scorer=ScorerRecord("s", "0"), confidence=0.99, first=4)


def stopping(path: Path, **more: Any) -> Arm:
    return begin(path).add_arm(TARGET, spec(64, draws=RULE, **more))


def look(n: int, goals: dict[str, int]) -> dict[str, Look]:
    return {q: Look(n, "open" if goal > n else "holds", goal) for q, goal in goals.items()}


FIRST = look(4, {"p0": 8, "p1": 4, "p2": 12, "p3": 8, "p4": 4})
SECOND = look(8, {"p0": 8, "p3": 16})


def test_each_look_leads_to_a_round() -> None:
    ids = [f"p{i}" for i in range(5)]
    rounds = rounds_of(ids, 4, (FIRST, SECOND))
    assert [[(part.query_ids, part.draws) for part in parts] for parts in rounds] == [
        [(tuple(ids), 20)],
        [(("p0", "p3"), 8), (("p2",), 8)],  # queries with equally many draws share a part
        [(("p3",), 8)],
    ]
    got = draws_of([part for parts in rounds for part in parts])
    more = {("p0", 1): 4, ("p2", 1): 8, ("p3", 1): 4, ("p3", 2): 8}
    assert got == dict.fromkeys([(q, 0) for q in ids], 4) | more


def test_the_draws_of_a_question_do_not_depend_on_the_others() -> None:
    long = look(4, {"a": 3000}), look(3000, {"a": 3004})
    for looks in (long, (look(4, {"b": 8}), *long)):
        parts = [part for parts in rounds_of(["a", "b"], 4, looks) for part in parts]
        own = {chunk: n for (query_id, chunk), n in draws_of(parts).items() if query_id == "a"}
        assert own == {0: 4, 1: 1024, 2: 1024, 3: 948, 4: 4}


def test_a_look_is_kept_and_read_again(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm)
    assert arm.unlooked() == dict.fromkeys(("p0", "p1", "p2", "p3", "p4"), 4)
    assert arm.add_look(FIRST) == 1
    stored = json.loads((arm.folder / "looks.json").read_text())["looks"]
    assert stored[0]["p2"] == {"n": 4, "decision": "open", "next": 12}
    again = stopping(tmp_path / "r")
    assert (again.looks, again.parts) == ((FIRST,), arm.parts)
    for one in (arm, again):
        assert [part.number for part in one.missing_parts()] == [1, 2]
        assert one.unlooked() == {"p0": 8, "p2": 12, "p3": 8}
    fill(again)
    assert again.add_look(SECOND) == 3
    assert [part.number for part in again.missing_parts()] == [3]
    assert again.add_look(look(16, {"p3": 16})) == 4 == len(again.parts)
    assert again.unlooked() == {"p2": 12}


def test_a_repeated_look_draws_no_part_again(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    fill(arm, broken="p1")
    assert set(arm.unlooked()) == {"p0", "p2", "p3", "p4"}  # no wait for failed queries
    fill(arm)
    arm.add_look(FIRST)
    fill(arm)
    (arm.folder / "looks.json").unlink()
    again = stopping(tmp_path / "r")
    assert len(again.parts) == 1
    assert again.add_look(FIRST) == 1
    assert again.missing_parts() == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"looks": [{"p0": 3}], "arm": "x"}', "other", 3, [3], [{"p0": 3}],
             [{"p0": {"n": 3}}], None],
)  # fmt: skip
def test_looks_of_another_arm_are_refused(tmp_path: Path, text: object) -> None:
    """The file is from another arm, another version or a person, with a valid digest."""
    arm = stopping(tmp_path / "r")
    arm.add_look(FIRST)
    file = arm.folder / "looks.json"
    says = r"looks\.json.*Restore it"
    if text == "other":
        other = stopping(tmp_path / "o", machine={}, copied=CopiedFrom("x", TARGET))
        other.add_look(FIRST)
        file.write_bytes((other.folder / "looks.json").read_bytes())
    elif isinstance(text, str):
        file.write_text(text)
    else:
        write_sealed(file, {"arm": arm.identity} | ({} if text is None else {"looks": text}))
        says = r"looks\.json`.* (must be|lacks) .*Restore it"
    with pytest.raises(DamagedError, match=says):
        stopping(tmp_path / "r")


def test_scores_join_over_rounds(tmp_path: Path) -> None:
    arm = stopping(tmp_path / "r")
    scored: Counter[str] = Counter()

    def score(table: Any) -> list[float | None]:
        scored.update(table["answer"].to_pylist())
        return [float(text.endswith("yes")) for text in table["answer"].to_pylist()]

    fill(arm)
    arm.scored.write("s", "s", partial(map, score))
    arm.add_look(FIRST)
    fill(arm, skip=0)
    arm.scored.write("s", "s", partial(map, score))
    assert scored["p1 yes"] == 1  # drawn once, scored once
    assert scored["p0 yes"] == 2
    rows = arm.scores("s", binary=True)
    assert (rows.n.tolist(), rows.hits.tolist()) == ([8, 4, 12, 8, 4], [2, 1, 2, 2, 1])
    first = arm.scores("s", binary=True, rounds=1)
    assert first.n.tolist() == [4] * 5
    assert first.among({"p2", "p4"}).ids == ("p2", "p4")
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
    score(arm)
    arm.add_look({q: seen for q, seen in FIRST.items() if q != "p0"})
    fill(arm)
    score(arm, 1.0)
    rows = arm.scores("s", binary=True)
    assert (rows.hits == rows.n).all()
