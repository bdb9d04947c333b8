"""Thoughts in tags, for texts that come without token ids; sources: tests/conformance."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.text.counting import output_of, split_thought


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Paris", None, "Paris"),
        ("  Paris\n", None, "  Paris\n"),
        ("", None, ""),
        ("<think>hm</think>Paris", "hm", "Paris"),
        ("\n<think>\nhm\n</think>\n\nParis", "hm", "Paris"),
        ("<think>\n\n</think>\n\nParis", "", "Paris"),  # Qwen3 with thinking off
        ("hm</think>\n\nParis", "hm", "Paris"),  # the prompt held the opening tag
        ("[THINK]hm[/THINK]Paris", "hm", "Paris"),
        ("<Thinking>hm</THINKING>Paris", "hm", "Paris"),
        ("<think>it is Par", "it is Par", ""),
        ("<think>", "", ""),
        ("<think>hm</think>", "hm", ""),
        ("<think>a</think>b<think>c</think>Paris", "a</think>b<think>c", "Paris"),
        ("<think>a</think>b<think>c", "a", "b<think>c"),
        ("Paris, I <think>", None, "Paris, I <think>"),
        ("<thinker>Paris", None, "<thinker>Paris"),
        ("think: Paris", None, "think: Paris"),
    ],
)
def test_a_thought_ends_at_the_last_closing_tag(
    text: str, thought: str | None, answer: str
) -> None:
    assert split_thought(text) == (thought, answer)


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
def test_a_thought_that_is_given_apart_is_kept_with_one_in_tags(
    text: str, given: str | None, thought: str | None
) -> None:
    output = output_of(text, "length", thought=given, hidden=True)
    assert (output.answer, output.thought, output.finish) == ("x", thought, "length")
    assert output.hidden
    assert not output.refused
