"""A file of samples is imported row by row, in any order, and needs no memory for its texts."""

from __future__ import annotations

import gc
import json
import random
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leakbound.errors import InputError
from leakbound.formats import spool
from leakbound.formats.importing import import_run
from leakbound.store import Arm
from leakbound.text.rows import each_row

SAMPLED = {"temperature": 1.0, "top_p": 1.0}
Rows = list[dict[str, Any]]
Ordered = Callable[[Rows], Rows]


def rows_of(questions: int, n: int, texts: Callable[[int], str], **more: Any) -> Rows:
    """Draws of every question, question by question."""
    return [
        {"id": f"q{q}", "question": f"What is {q}?", "answer": "x", "completion": texts(i)}
        | SAMPLED
        | more
        for q in range(questions)
        for i in range(n)
    ]


def written(file: Path, rows: Rows) -> Path:
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def stored(arm: Arm) -> list[dict[str, Any]]:
    """What is stored of an arm, row by row, with the scores of its only scorer."""
    rows = [row for part in arm.parts for row in arm.completions(part).to_pylist()]
    (file,) = (arm.folder / "scores").glob("*.parquet")
    scores = pq.read_table(file)["score"].to_pylist()
    return [row | {"score": score} for row, score in zip(rows, scores, strict=True)]


def peak(rows: Rows, folder: Path) -> int:
    """Bytes that an import of these rows holds at most beyond what there is before."""
    folder.mkdir()
    file = written(folder / "mine.jsonl", rows)
    gc.collect()
    tracemalloc.start()
    try:
        import_run([file], out=folder / "run")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_texts_of_a_file_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.store.plan._MOST", 1024)  # else a part is all there is

    def text(i: int) -> str:
        return f"{i:04d}" * 250

    few, many = (rows_of(questions, 1024, text) for questions in (2, 4))
    peak(few, tmp_path / "first")  # what is made once, such as caches of libraries
    grown = peak(many, tmp_path / "many") - peak(few, tmp_path / "few")
    assert grown / (len(many) - len(few)) < 300  # bytes a row, whose text has a thousand


def test_rows_are_given_before_the_next_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r{"a": 3}\n{"a": 4\n\xff\n')
    rows = each_row(file)
    assert [(row.number, row.values) for row in islice(rows, 3)] == [
        (number, {"a": number}) for number in (1, 2, 3)
    ]
    with pytest.raises(InputError, match=r"row 4 of .* is no JSON"):
        next(rows)
    file.write_bytes(b'{"a": 1}\n\n{"a": "\xff"}\n')
    rows = each_row(file)
    assert next(rows).number == 1
    with pytest.raises(InputError, match=r"not UTF-8 in line 3: .* byte 0xff in position 7"):
        next(rows)


def draw_by_draw(rows: Rows) -> Rows:
    """The i-th draw of every question before the next of any; their own order stays."""
    seen: Counter[str] = Counter()
    places = []
    for row in rows:
        places.append(seen[row["id"]])
        seen[row["id"]] += 1
    return [row for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])]


def shuffled(rows: Rows) -> Rows:
    """Questions in any order, each first once as they are; the draws of each in their own."""
    mine: dict[str, Rows] = {}
    for row in reversed(rows):
        mine.setdefault(row["id"], []).append(row)
    first = list(dict.fromkeys(row["id"] for row in rows))
    rest = [id for id in first for _ in mine[id][1:]]
    random.Random(1).shuffle(rest)
    return [mine[id].pop() for id in [*first, *rest]]


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("ordered", [list, draw_by_draw, shuffled])
@pytest.mark.parametrize("array", [False, True])
def test_whatever_the_order_of_rows_the_same_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: Ordered, size: int | None, array: bool
) -> None:
    chance = random.Random(0)
    rows = rows_of(3, 1100, lambda _: f"text {min(int(chance.paretovariate(0.5)), 900)}")
    for row in rows:
        row["scores"] = {"h": chance.choice([0, 0.25, 1, None])}
        row["completion"] = None if chance.random() < 0.01 else row["completion"]
    if size:
        monkeypatch.setattr(spool, "_ROWS", size)
        monkeypatch.setattr(spool, "_WAITING", 400 * size)
    mine = ordered(rows)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(mine, indent=1) if array else "\n".join(map(json.dumps, mine)))
    arm = import_run([file], out=tmp_path / "run", form="jsonl").arms["target"]
    assert stored(arm) == list(plainly(rows))
    missing = Counter(row["id"] for row in rows if row["completion"] is None)
    assert sum((Counter(meta.missing) for meta in arm.meta()), Counter()) == missing


def plainly(rows: Rows, chunk: int = 1024) -> Iterator[dict[str, Any]]:
    """What is stored of draws with texts and one score: distinct ones of a chunk, counted."""
    chunks: dict[tuple[int, str], Counter[tuple[str, float | None]]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        tally = chunks.setdefault((seen[row["id"]] // chunk, row["id"]), Counter())
        seen[row["id"]] += 1
        if row["completion"] is not None:
            tally[row["completion"], row["scores"]["h"]] += 1
    known = ("token_ids", "logprob", "model_logprob", "confidence", "logprob_floor")
    for (number, id), tally in sorted(chunks.items(), key=lambda pair: (pair[0][1], pair[0][0])):
        for (text, score), count in tally.items():
            one = {"query_id": id, "text": text, "count": count, "chunk": number, "score": score}
            yield one | {"finish_reason": "stop"} | dict.fromkeys(known)


def test_a_count_is_that_many_rows(tmp_path: Path) -> None:
    rows = rows_of(2, 3, str, scores={"h": 0.5})
    counts = (1500, 1, 700)
    counted = [row | {"count": counts[i % 3]} for i, row in enumerate(rows)]
    plain = [row for row, one in zip(rows, counted, strict=True) for _ in range(one["count"])]
    arm = import_run([written(tmp_path / "mine.jsonl", counted)], out=tmp_path / "a").arms["target"]
    assert stored(arm) == list(plainly(plain))
    found = import_run([written(tmp_path / "plain.jsonl", plain)], out=tmp_path / "b")
    assert stored(found.arms["target"]) == stored(arm)


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ({"question": "Why?"}, "row 5 .* another question or answer than row 1 .* same id 'q0'"),
        ({"answer": None}, "row 5 .* another question or answer than row 1"),
        ({"temperature": 0.5}, "`temperature` is 1.0 in row 1 .* and 0.5 in row 5"),
        ({"top_p": None}, "`top_p` is 1.0 in row 1 .* and None in row 5"),
        ({"completion": 3}, "'completion' must be text.* got 3 in row 5"),
        ({"count": 0}, "'count' must be .* got 0 in row 5"),
        ({"scores": {"h": "x"}}, "'scores' must be .* in row 5"),
    ],
)
def test_a_row_that_does_not_belong_is_named_wherever_it_stands(
    tmp_path: Path, odd: dict[str, Any], told: str
) -> None:
    rows = draw_by_draw(rows_of(2, 4, str))
    rows[4] |= odd
    with pytest.raises(InputError, match=told):
        import_run([written(tmp_path / "mine.jsonl", rows)], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", [0, 1])
def test_a_row_of_scores_alone_among_texts_is_named(tmp_path: Path, place: int) -> None:
    rows: list[dict[str, Any]] = [*rows_of(1, 1, str)]
    rows.insert(place, {"id": "q0", "scores": {"h": 1}} | SAMPLED)
    with pytest.raises(InputError, match=f"row {place + 1} .* has no 'question', only 'id'"):
        import_run([written(tmp_path / "mine.jsonl", rows)], out=tmp_path / "run")


@pytest.mark.fault
@pytest.mark.parametrize("at", ["join", "_notes"])
def test_a_killed_import_leaves_nothing_in_the_way(tmp_path: Path, at: str) -> None:
    """Before anything is written, and while the arm is stored."""
    chance = random.Random(0)
    rows = rows_of(3, 50, lambda _: f"text {chance.randrange(9)}", scores={"h": 0.5})
    file = written(tmp_path / "mine.jsonl", rows)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, at, str(file), str(tmp_path / "run")], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    again, whole = (import_run([file], out=tmp_path / name) for name in ("run", "whole"))
    assert stored(again.arms["target"]) == stored(whole.arms["target"])
    assert names(again.path) == names(whole.path)


def names(folder: Path) -> list[Path]:
    return sorted(file.relative_to(folder) for file in folder.rglob("*"))


KILLED = """
import os, signal, sys
from leakbound.formats import importing
setattr(importing, sys.argv[1], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
importing.import_run([sys.argv[2]], out=sys.argv[3])
"""
