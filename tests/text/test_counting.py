"""The counting table, row by row: finish, visible answer, forced tokens."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from leakbound.text.counting import (
    Ledger,
    closes_thought,
    counted_as,
    finish_of,
    is_missing,
    output_of,
    split_thought,
    visible,
)
from leakbound.types import Completion, Output

FINISHES = ("stop", "stop_string", "length", "filtered", "tool", "error", "unknown")
EMPTY = ("", " ", "\n\n", "\u00a0", "\u3000\t", "**", "_")

# (finish, answer, thought, tokens, counted as, missing), from the table of the docs
ROWS = [
    ("stop", "Ann", None, None, "complete", False),
    ("stop", "Ann", "hm", 9, "complete", False),
    ("stop_string", "Ann", None, None, "complete", False),
    ("stop", "", None, 1, "complete", False),
    ("stop", "", None, 0, "complete", False),
    ("stop", "", None, 2, "empty", True),
    ("stop", "", None, None, "empty", True),
    ("stop", " ", None, 8, "empty", True),
    ("stop", "", "I thought", None, "empty", True),
    ("stop", "", None, -5, "empty", True),
    ("stop_string", "", None, 1, "complete", False),
    ("stop_string", "", None, 3, "empty", True),
    ("length", "An", None, None, "cut", False),
    ("length", "An", "thought", None, "cut", False),
    ("length", "", "I think that", None, "cut", True),
    ("length", "", None, 24, "empty", True),
    ("length", "", None, 1, "empty", True),
    ("length", " ", " ", None, "empty", True),
    ("filtered", "", None, None, "filtered", True),
    ("filtered", "I cannot.", None, 4, "filtered", True),
    ("tool", "Ann", None, None, "failed", True),
    ("error", "", None, None, "failed", True),
    ("unknown", "Ann", None, None, "unrecorded", False),
    ("unknown", "", None, 1, "empty", True),
    ("unknown", "", "Ann", None, "empty", True),
]


@pytest.mark.parametrize(("finish", "answer", "thought", "tokens", "counted", "missing"), ROWS)
def test_a_row_of_the_table(
    finish: str, answer: str, thought: str | None, tokens: int | None, counted: str, missing: bool
) -> None:
    output = Output(answer=answer, thought=thought, finish=finish, tokens=tokens)
    assert counted_as(output) == counted
    assert is_missing(output, counted_as(output)) == missing


def test_every_finish_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(FINISHES)


@pytest.mark.parametrize(("finish", "answer"), [*product(("stop", "stop_string"), EMPTY)])
def test_token_ids_explain_an_empty_answer_and_a_limit_never_does(finish: str, answer: str) -> None:
    known = Completion(answer=answer, finish=finish, token_ids=(7, 8, 0), count=1)
    assert counted_as(known) == "complete"
    cut = Completion(answer=answer, finish="length", token_ids=(7, 8, 0), count=1)
    assert counted_as(cut) == "empty"
    assert is_missing(cut, "empty")


def test_stop_strings_explain_a_token_per_byte() -> None:
    for stop, most in (((), 1), (("##",), 3), (("\n", "é"), 3)):
        for tokens, counted in ((most, "complete"), (most + 1, "empty")):
            output = Output(answer="", finish="stop", tokens=tokens)
            assert counted_as(output, stop) == counted, (stop, tokens)


def test_a_hidden_thought_that_was_cut_is_cut() -> None:
    output = Output(answer="", finish="length", hidden=True)
    assert counted_as(output) == "cut"
    assert is_missing(output, "cut")


def test_a_filter_that_belongs_to_the_system_is_scored_and_nothing_else_is() -> None:
    for finish, answer in product(FINISHES, ("Ann", "")):
        output = Output(answer=answer, finish=finish)
        counted = counted_as(output)
        alone, inside = (is_missing(output, counted, filter_in_system=x) for x in (False, True))
        assert inside == (alone and finish != "filtered")


def test_visible() -> None:
    assert all(map(visible, ("a", "7", "é", "。", "蓝", "?", "\u0600")))
    assert not any(map(visible, (None, *EMPTY)))


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Paris", None, "Paris"),
        ("  Paris\n", None, "  Paris\n"),
        ("", None, ""),
        ("<think>hm</think>Paris", "hm", "Paris"),
        ("\n<think>\nhm\n</think>\n\nParis", "hm", "Paris"),
        ("<think>\n\n</think>\n\nParis", None, "Paris"),  # Qwen3 with thinking off
        ("hm</think>\n\nParis", "hm", "Paris"),  # the prompt contained the opening tag
        ("[THINK]hm[/THINK]Paris", "hm", "Paris"),
        ("<thinking>hm</thinking>Paris", "hm", "Paris"),
        ("◁think▷hm◁/think▷Paris", "hm", "Paris"),
        ("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Paris", "hm", "Paris"),
        ("write <think> and </think>", None, "write <think> and </think>"),
        ("a</think>b</think>Paris", "a</think>b", "Paris"),
        ("<think>it is Par", "it is Par", ""),
        ("<think>", None, ""),
        ("<think>hm</think>", "hm", ""),
        ("<think>a</think>b<think>c</think>Paris", "a</think>b<think>c", "Paris"),
        ("<think>a</think>b<think>c", "a", "b<think>c"),
        ("Paris, I <think>", None, "Paris, I <think>"),
        ("<thinker>Paris", None, "<thinker>Paris"),
        ("think: Paris", None, "think: Paris"),
    ],
)
def test_a_thought_ends_at_the_last_tag(text: str, thought: str | None, answer: str) -> None:
    assert split_thought(text) == (thought, answer)
    opened = text in ("hm</think>\n\nParis", "a</think>b</think>Paris")
    assert closes_thought(text) is opened
    assert closes_thought("a</think><think>b</think>Paris"), "the first closing tag counts"


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [(1, 1), (9, 9), (0, None), (-3, None), (None, None), (True, None), (2.0, None), ("3", None)],
)
def test_a_number_of_tokens_that_cannot_be_is_not_known(tokens: Any, kept: int | None) -> None:
    assert output_of("Paris", tokens=tokens).tokens == kept


@pytest.mark.parametrize(
    ("text", "given", "thought"),
    [("x", None, None), ("x", "", None), ("x", "a", "a"), ("<think>b</think>x", "a", "a\nb")],
)
def test_separate_thoughts_are_joined(text: str, given: str | None, thought: str | None) -> None:
    output = output_of(text, "length", thoughts=[given], hidden=True)
    assert (output.answer, output.thought, output.finish) == ("x", thought, "length")
    assert output.hidden
    assert not output.refused


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        (None, "unknown"),
        ("unknown", "unknown"),
        ("None", None),
        ("stop", "stop"),
        (" STOP\n", "stop"),
        ("end-turn", "stop"),
        ("stop_sequence", "stop_string"),
        ("MAX_TOKENS", "length"),
        ("content-filter", "filtered"),
        ("tool_calls", "tool"),
        ("cancelled", "error"),
        ("timed_out", None),
    ],
)
def test_the_word_of_a_source_for_a_finish(word: object, finish: str | None) -> None:
    assert finish_of(word) == finish
    assert output_of("Paris", word).finish == (finish or "error")


def test_marks_of_a_source_are_true_or_false() -> None:
    plain = output_of("Paris")
    assert plain == Output(answer="Paris", thought=None, finish="unknown", tokens=None)
    assert plain.refused is plain.hidden is False
    for value in (True, 1, "yes"):
        marked = output_of("Paris", refused=value, hidden=value)
        assert (marked.refused, marked.hidden) == (True, True)


def test_a_model_that_thought_without_a_visible_thought_hides_it() -> None:
    assert output_of("Paris", reasoned=True).hidden
    assert output_of("Paris", reasoned=True, thoughts=[" ", "**"]).hidden
    assert not output_of("Paris", reasoned=True, thoughts=["hm"]).hidden
    assert not output_of("<think>hm</think>Paris", reasoned=True).hidden
    assert not output_of("Paris", reasoned=False).hidden


def test_thoughts_are_kept_once_and_only_those_that_are_visible() -> None:
    output = output_of("<think>b</think>x", thoughts=["a", " ", None, "a", "b", "c"])
    assert output.thought == "a\nb\nc"


def test_the_numbers_of_a_ledger() -> None:
    classes = {"complete": 32, "cut": 16, "filtered": 8, "empty": 4, "failed": 2, "unrecorded": 1}
    others = {"refused": 5, "hidden": 6, "thoughts": 7}
    ledger = Ledger(**classes, **others, limit="within 48 tokens")
    assert ledger.to_dict() == {"draws": 63, **classes, **others}
    assert next(iter(ledger.to_dict())) == "draws"
    assert ledger.cut_fraction == 16 / 63
    assert Ledger().cut_fraction == 0
    assert ledger.sentence == (
        "63 draws: 32 complete (5 refused), 16 cut (25.4 %), 8 filtered, 4 empty, "
        "2 failed, 1 finish not recorded; 6 with a hidden thought"
    )
    assert Ledger(complete=2).sentence == "2 draws: all complete"
    assert Ledger().sentence == "0 draws"
    some = Ledger(complete=1000, cut=20, hidden=1)
    assert some.sentence == "1,020 draws: 1,000 complete, 20 cut; 1 with a hidden thought"
    assert Ledger(complete=7, refused=2).sentence == "7 draws: all complete (2 refused)"
