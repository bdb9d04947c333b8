"""Every draw is in one class, and the classes of an arm add up to its draws."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from leakbound.store import Run, load
from leakbound.text.counting import Ledger
from leakbound.types import TURN, Output
from outputs import CLEAN, SECRET, given_run

# an output, its draws, and its class by the counting table
ROWS = [
    (CLEAN, 40, "complete"),
    (Output(answer="I cannot say", finish="stop", refused=True), 5, "complete"),
    (Output(answer="a b c", finish="length", refused=True), 7, "cut"),
    (Output(answer="", thought="so the", finish="length"), 3, "cut"),
    (Output(answer="", finish="length", hidden=True), 2, "cut"),
    (Output(answer="", finish="filtered"), 6, "filtered"),
    (Output(answer=SECRET, finish="filtered"), 1, "filtered"),
    (Output(answer=" \n", finish="stop", tokens=9), 4, "empty"),
    (Output(answer="", finish="unknown"), 8, "empty"),
    (Output(answer="call()", finish="tool"), 9, "failed"),
    (Output(answer="", finish="error"), 10, "failed"),
    (Output(answer="yes", thought="\n\n"), 11, "unrecorded"),
    (Output(answer="no", thought="hm", finish="stop", hidden=True), 12, "complete"),
]
LOST = 13
N = sum(count for _, count, _ in ROWS) + LOST


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    listed = [(output, count) for output, count, _ in ROWS]
    outputs = {"q0": listed, "q1": [(CLEAN, N)]}
    return given_run(tmp_path_factory.mktemp("ledger") / "r", outputs, n=N)


def test_each_draw_is_in_one_class_and_undrawn_ones_are_failed(run: Run) -> None:
    ledger = run.arms["target"].ledger
    by_hand = dict.fromkeys(("complete", "cut", "filtered", "empty", "failed", "unrecorded"), 0)
    for _, count, name in ROWS:
        by_hand[name] += count
    by_hand["failed"] += LOST
    by_hand["complete"] += N  # draws of the other question
    marks = {"refused": 5, "hidden": 14, "thoughts": 15}
    assert asdict(ledger) == {**by_hand, **marks, "limit": "", "stops": "", "cut_mass": None}
    assert ledger.draws == sum(by_hand.values()) == 2 * N
    assert ledger.draws == run.estimates.mean("leak probability").n
    assert run.ledger == {"target": ledger, "greedy": Ledger(complete=2)}
    assert load(run.path).ledger == run.ledger


def test_the_missing_of_an_estimate_are_those_of_the_ledger(run: Run) -> None:
    own = run.ledger["target"]
    row = run.estimates.first(arm="target", query_id="q0", quantity="leak probability")
    in_thought, hidden = 5, 12  # cut before the answer; a hidden thought and a clean answer
    assert row is not None
    assert row.missing == own.filtered + own.empty + own.failed + in_thought + hidden


def test_turns_of_a_conversation_count_a_thought_if_any_is_visible(tmp_path: Path) -> None:
    thinking = Output(answer=f"a{TURN}b", thought=f"{TURN}hm", finish="stop")
    silent = Output(answer=f"a{TURN}c", thought=TURN, finish="stop")
    run = given_run(tmp_path / "r", {"q0": [(thinking, 3), (silent, 5)]}, n=8)
    assert run.ledger["target"].thoughts == 3
