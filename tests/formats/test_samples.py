"""Samples as JSON lines: one row a completion, or a distinct text with its count."""

from __future__ import annotations

import errno
import io
import json
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contents import drawn
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation.views.words import described
from leakbound.formats import samples
from leakbound.formats import spool as module
from leakbound.formats.imported import Draw, ImportedLog
from leakbound.formats.spool import Chained, DrawsByQuestion, Mapped, Spool
from leakbound.types import Decoding

ROW = {"id": "a", "question": "Who?", "answer": "Ann", "completion": "Ann did."}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "mine.jsonl"
    file.write_text("\n".join(json.dumps({**ROW, **row}) for row in rows))
    return file


def read(file: Path) -> ImportedLog:
    """What the file tells, its draws held."""
    with Spool(file.parent) as spool:
        log = samples.read(file, spool)
        return replace(log, asked=tuple(replace(o, draws=tuple(o.draws)) for o in log.asked))


def test_rows_become_draws_in_their_order(tmp_path: Path) -> None:
    log = read(written(tmp_path, {}, {"completion": None}, {"completion": "No."}, {"id": 7}))
    first, second = log.asked
    assert (first.id, first.text, first.answers) == ("a", "Who?", ("Ann",))
    assert first.draws == (drawn("Ann did."), None, drawn("No."))
    assert (second.id, second.draws) == ("7", (drawn("Ann did."),))
    assert log.ordered
    counted = read(written(tmp_path, {"count": 3}, {"completion": None, "count": 2}))
    assert counted.asked[0].draws == (drawn("Ann did."),) * 3 + (None,) * 2
    assert not counted.ordered
    named = read(written(tmp_path, {"id": None}, {"id": None}, {"id": None, "question": "What?"}))
    assert [(one.id, len(one.draws)) for one in named.asked] == [("Who?", 2), ("What?", 1)]


def test_of_columns_that_mean_the_same_the_first_that_is_filled_counts(tmp_path: Path) -> None:
    """As vLLM writes them: its `stop_reason` is a string or a token that ended the output."""
    vllm = {"finish_reason": "stop", "stop_reason": 128009, "reasoning": "", "tokens": None}
    rows: list[dict[str, Any]] = [
        {**vllm, "reasoning_content": "hm", "completion_tokens": 4},
        {"completion": "<think>one</think>\n\nAnn did.", "thought": "two"},
    ]
    ((first, second),) = (one.draws for one in read(written(tmp_path, *rows)).asked)
    assert first == drawn("Ann did.", finish="stop", thought="hm", tokens=4)
    assert second == drawn("Ann did.", thought="two\none")


def test_cells_of_csv_are_texts_numbers_and_json(tmp_path: Path) -> None:
    rows = [
        "id,question,answer,completion,count,temperature,stop,scores,hidden,notes",
        '7,"Who, then?",4471,12,2,0.5,"[""END""]","{""h"": 0.5}",TRUE,free text',
        '7,"Who, then?",4471,,1,0.5,"[""END""]",,,',
    ]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(rows))
    with Spool(tmp_path) as spool:
        log = samples.read(file, spool, "csv")
        (asked,) = log.asked
        assert (asked.id, asked.text, asked.answers) == ("7", "Who, then?", ("4471",))
        assert list(asked.draws) == [drawn("12", (("h", 0.5),), hidden=True)] * 2 + [drawn("")]
    assert (log.decoding.temperature, log.decoding.stop, log.tool) == (0.5, ("END",), "csv")
    file.write_text("question,completion,count\nWho?,x,two\n")
    with Spool(tmp_path) as spool, pytest.raises(InputError, match=r"'count' in row 1 .* no JSON"):
        samples.read(file, spool, "csv")


def test_what_is_said_of_the_decoding_is_kept_and_the_rest_unknown(tmp_path: Path) -> None:
    log = read(written(tmp_path, {"temperature": 0.7, "top_k": -1, "seed": 3, "model": "m"}))
    assert (log.decoding.temperature, log.decoding.top_k) == (0.7, 0)
    assert log.decoding.unknown == ("top_p", "max_new_tokens")
    assert (log.model, log.others) == ("m", {"seed": 3})


def test_every_setting_of_a_decoding_can_be_said(tmp_path: Path) -> None:
    how = Decoding(
        temperature=0.5,
        top_p=0.9,
        top_k=20,
        max_new_tokens=64,
        max_tokens=128,
        adaptive_temperature=0.8,
        adaptive_mode="two_pass",
        stop=("\n\n", "Q:"),
    )
    log = read(written(tmp_path, how.to_dict()))
    assert log.decoding == how
    assert log.others == {}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"completion": float("nan")}], "must be text, or null .* got nan in row 1"),
        ([{"count": 0}], "whole number of at least 1, got 0 in row 1"),
        ([{"question": " "}], "row 1 .* has no 'question'"),
        ([{"temperature": float("nan")}], "`temperature` must be 0 .*mine.jsonl"),
        ([{"adaptive_temperature": 0.5, "adaptive_mode": "x"}], "`adaptive_mode` must be .* 'x'"),
        ([{"filter": "off"}], "`filter` must be 'missing' or 'part-of-system', got 'off'"),
        ([{"finish": "ended"}], "'finish' must be one of stop, .*, got 'ended' in row 1"),
        ([{"thought": ["hm"]}], "'thought' must be text, got a list in row 1"),
        ([{"refused": "no"}], "'refused' must be true or false, got a text in row 1"),
    ],
)
def test_a_row_that_is_no_sample_is_named(
    tmp_path: Path, rows: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        _ = read(written(tmp_path, *rows)).decoding
    bare = tmp_path / "bare.jsonl"
    bare.write_text(json.dumps({"question": "Who?"}))
    with pytest.raises(InputError, match=r"row 1 .* has no 'completion'.*null says"):
        read(bare)


def test_a_decoding_records_what_is_unknown_and_only_then() -> None:
    assert "unknown" not in Decoding().to_dict()
    partly = Decoding(unknown=("top_p",))
    assert Decoding(**partly.to_dict()) == partly
    assert described(partly) == "T=1 top-p unknown, at most 200 new tokens"
    assert described(Decoding(unknown=("max_new_tokens",))).endswith("truncated")
    with pytest.raises(InputError, match="`unknown` must be some of temperature, top_k"):
        Decoding(unknown=("stop",))


DRAWS = (
    drawn("a"),
    drawn("ß\n\u2028\x00", finish="length", thought="ß", tokens=3),
    drawn("a", (("s", 0.1), ("t", None))),
    None,
)


@pytest.mark.parametrize(("rows", "waiting"), [(1024, 1 << 28), (3, 1 << 28), (1024, 2000), (1, 1)])
def test_draws_are_read_as_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, waiting: int
) -> None:
    monkeypatch.setattr(module, "_ROWS", rows)
    monkeypatch.setattr(module, "_WAITING", waiting)
    chance = random.Random(0)
    held: dict[str, list[Draw | None]] = {}
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        for _ in range(200):
            question, draw, count = chance.choice("pqr"), chance.choice(DRAWS), chance.randint(1, 9)
            found.add(question, draw, count)
            held.setdefault(question, []).extend([draw] * count)
        draws = found.draws()
        assert {question: list(each) for question, each in draws.items()} == held
        for question, each in draws.items():
            plain = held[question]
            assert len(each) == len(plain)
            cuts = sorted(chance.choices(range(len(plain) + 1), k=20))
            for first, last in pairwise([0, *cuts, len(plain) + 5]):
                assert each[first:last] == plain[first:last]


def test_pieces_are_one_after_the_other_and_changed_when_they_are_asked_for() -> None:
    pieces = Chained([DRAWS[:2], (), Chained([DRAWS[2:]]), DRAWS])
    both = [*DRAWS, *DRAWS]
    assert (list(pieces), len(pieces), pieces[1:7]) == (both, 8, both[1:7])
    assert (len(Chained([])), list(Chained([])), Chained([])[0:3]) == (0, [], [])
    plain = Mapped(pieces, lambda draw: draw._replace(scores=()))
    assert list(plain) == [draw and draw._replace(scores=()) for draw in both]
    assert plain[2:4] == [drawn("a"), None]


def test_no_more_waits_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING", 10_000)
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        for i in range(1000):
            found.add(f"q{i % 100}", drawn("x" * (i % 50)), 1)
            waiting = [draw for rows in found._waiting.values() for draw, _ in rows if draw]
            assert sum(len(draw.output.answer) for draw in waiting) <= 10_000
            assert len(waiting) <= 40


def test_a_spool_has_no_name_and_tells_of_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(tmp_path) as spool:
        DrawsByQuestion(spool).add("q", drawn("a"), 1)
        assert not list(tmp_path.iterdir())

    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "TemporaryFile", lambda **_: Full())
    with Spool(tmp_path) as spool:
        found = DrawsByQuestion(spool)
        found.add("q", drawn("a"), 1)
        with pytest.raises(IncompleteError, match=r"No space left .* same command again"):
            found.draws()
