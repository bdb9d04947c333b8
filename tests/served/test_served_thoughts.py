"""Servers of thinking models: which field turns thoughts on or off, and the token counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest

import misbehaving as served
from leakbound.engines import Prompting
from leakbound.errors import ModelError
from leakbound.text.counting import counted_as, is_missing
from leakbound.types import Completion, Decoding
from misbehaving import LISTED, WHO, Answer, Body, Rule, chat_server, fails, honest

LAW = {"it was Ann": 0.3, "it was nobody": 0.7}
DECODING = Decoding(max_new_tokens=99)
VLLM = {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}}
BUDGETED = VLLM | served.described(["messages", "thinking_token_budget"])
Message = dict[str, Any]
Shape = Callable[[list[str], list[str], bool], Message]
"""(words of the thought, of the answer, whether the thought is closed) -> the message."""


def parsed(name: str) -> Shape:
    """Reply like a server with a reasoning parser: `null` for an empty part."""
    return lambda thought, answer, closed: {
        "content": " ".join(answer) or None, name: " ".join(thought) or None
    }  # fmt: skip


def tagged(opening: str) -> Shape:
    """Reply with one text: llama.cpp with `reasoning_format` none, or a server without a parser."""

    def message(thought: list[str], answer: list[str], closed: bool) -> Message:
        if not thought:
            return {"content": " ".join(answer)}
        end = f"\n</think>\n\n{' '.join(answer)}" if closed else ""
        return {"content": f"{opening}{' '.join(thought)}{end}"}

    return message


SHAPES: Mapping[str, Shape] = {
    "vLLM": parsed("reasoning"),
    "vLLM before 0.12, SGLang": parsed("reasoning_content"),
    "llama.cpp": tagged("<think>\n"),
    "its prompt opens the thought": tagged(""),
    "hidden": lambda _, answer, closed: {"content": " ".join(answer)},
}


def thinker(
    shape: Shape,
    thinks: Callable[[Body], bool] = lambda body: True,
    *,
    before: str = "so",
    closes: bool = False,
    law: Mapping[str, float] = LAW,
) -> Rule:
    """A model of words that thinks its answer backwards, after the words `before`."""
    plain = honest({WHO: law})

    def rule(body: Body, times: int) -> Answer:
        got = json.loads(plain(body | {"max_tokens": 999}, times).body)
        drawn, spent = 0, 0
        for one in got["choices"]:
            answer = one["message"]["content"].split()
            thought = [*before.split(), *answer[::-1]] if thinks(body) else []
            if closes and "thinking_token_budget" in body:
                thought = thought[: body["thinking_token_budget"]]
            left = body["max_tokens"] - len(thought) - bool(thought)
            one["message"] = shape(thought[: body["max_tokens"]], answer[: max(0, left)], left >= 0)
            one["finish_reason"] = "length" if left <= len(answer) else "stop"
            cut = one["finish_reason"] == "length"
            drawn += body["max_tokens"] if cut else body["max_tokens"] - left + len(answer) + 1
            spent += min(body["max_tokens"], len(thought))
        got["usage"] = {"completion_tokens": drawn, "reasoning_tokens": spent}
        return Answer(json.dumps(got))

    return rule


def engine_at(
    url: str, thinking: Literal["on", "off", "auto"] = "auto", options: str = "probe=off"
) -> Any:
    return served.engine_at(url, options, Prompting(thinking=thinking))


def draw(engine: Any, decoding: Decoding = DECODING) -> tuple[Completion, ...]:
    sample = served.draw(engine, 32, decoding)
    assert sample.missing == 0
    return sample.completions


def classes(drawn: tuple[Completion, ...]) -> set[tuple[str, bool]]:
    return {(c := counted_as(one), is_missing(one, c)) for one in drawn}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_after_a_thought_is_complete(shape: str) -> None:
    with chat_server(thinker(SHAPES[shape]), LISTED) as up:
        engine = engine_at(up.url, options="")
        drawn = draw(engine)
    thoughts = {"so Ann was it", "so nobody was it"} if shape != "hidden" else {None}
    assert {one.answer for one in drawn} == {*LAW}
    assert {one.thought for one in drawn} == thoughts
    assert {one.hidden for one in drawn} == {shape == "hidden"}
    assert classes(drawn) == {("complete", False)}
    assert engine.usage.notes == []


def test_thoughts_that_only_the_question_shows() -> None:
    """A cut, unclosed thought is no answer if another output closes one."""
    law = {"it was Ann": 0.5, "it was nobody at all, none": 0.5}
    rule = thinker(SHAPES["its prompt opens the thought"], lambda body: WHO in str(body), law=law)
    with chat_server(rule, LISTED) as up:
        engine = engine_at(up.url)
        drawn = draw(engine, Decoding(max_new_tokens=7))
    assert {(one.thought, one.answer) for one in drawn} == {
        ("so Ann was it", "it was"),
        ("so none all, at nobody was it", ""),
    }
    assert classes(drawn) == {("cut", False), ("cut", True)}
    assert "counts as an unfinished thought" in engine.usage.notes[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thought_that_uses_up_its_budget_has_no_answer(shape: str) -> None:
    """Also if the prompt opened it, so that no tag separates it from an answer."""
    how = Decoding(max_new_tokens=1, max_thinking_tokens=2)
    with chat_server(thinker(SHAPES[shape]), LISTED) as up:
        engine = engine_at(up.url)
        drawn = draw(engine, how)
        assert up.queried[-1]["max_tokens"] == 3
    assert classes(drawn) == {("cut", True)}
    assert {one.thought for one in drawn} <= {"so Ann was", "so nobody was", None}
    assert all(one.hidden or one.thought for one in drawn)
    assert "thought and answer together, 3 tokens" in engine.usage.notes[0]


def test_a_server_that_can_closes_a_thought_at_its_budget() -> None:
    how = Decoding(max_new_tokens=9, max_thinking_tokens=2)
    with chat_server(thinker(SHAPES["vLLM"], closes=True), BUDGETED) as up:
        engine = engine_at(up.url)
        drawn = draw(engine, how)
        assert (up.queried[-1]["max_tokens"], up.queried[-1]["thinking_token_budget"]) == (11, 2)
        assert draw(engine)[0].thought not in {one.thought for one in drawn}
        assert "thinking_token_budget" not in up.queried[-1]
    assert {(one.thought, one.answer) for one in drawn} == {
        ("so Ann", "it was Ann"), ("so nobody", "it was nobody")
    }  # fmt: skip
    assert engine.usage.notes == []
    assert engine.fingerprint["thoughts"] == ["closed at their budget"]

    def unset(body: Body, times: int) -> Answer:
        """Reply like vLLM without a reasoning parser."""
        if "thinking_token_budget" in body:
            return fails(400, "reasoning_config is not configured")
        return thinker(SHAPES["vLLM"])(body, times)

    with chat_server(unset, BUDGETED) as up:
        assert {c for c, _ in classes(draw(engine_at(up.url), how))} == {"complete"}


def kwargs(name: str) -> Callable[[Body], Any]:
    return lambda body: body.get("chat_template_kwargs", {}).get(name)


def effort(body: Body) -> Any:
    return {None: None, "none": False}.get(body.get("reasoning_effort"), True)


@pytest.mark.parametrize("thinking", ["on", "off"])
@pytest.mark.parametrize(
    ("heeds", "on", "off"),
    [
        (kwargs("enable_thinking"), {"chat_template_kwargs": {"enable_thinking": True}},
         {"chat_template_kwargs": {"enable_thinking": False}}),
        (kwargs("thinking"), {"chat_template_kwargs": {"thinking": True}},
         {"chat_template_kwargs": {"thinking": False}}),
        (effort, {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
    ],
    ids=["Qwen", "DeepSeek", "OpenAI"],
)  # fmt: skip
def test_the_field_is_sent_that_has_the_effect(
    heeds: Callable[[Body], Any], on: Any, off: Any, thinking: Literal["on", "off"]
) -> None:
    def thinks(body: Body) -> bool:
        """By default it does the opposite of the request."""
        return thinking == "off" if heeds(body) is None else bool(heeds(body))

    with chat_server(thinker(SHAPES["vLLM"], thinks), LISTED) as up:
        engine = engine_at(up.url, thinking)
        drawn = draw(engine)
        sent = on if thinking == "on" else off
        assert sent.items() <= up.queried[-1].items()
        how = Decoding(max_new_tokens=9, max_thinking_tokens=8)
        draw(engine, how)
        assert up.queried[-1]["max_tokens"] == (17 if thinking == "on" else 9)
    assert sent.items() <= engine.fingerprint["sent"].items()
    assert engine.fingerprint["prompting"]["thinking"] == thinking
    assert {one.thought is not None for one in drawn} == {thinking == "on"}
    assert len(engine.usage.notes) == (thinking == "on")  # one limit for thought and answer


def test_a_server_that_takes_no_field_is_sent_none() -> None:
    def strict(body: Body, times: int) -> Answer:
        if {"chat_template_kwargs", "reasoning_effort"} & body.keys():
            return fails(400, "unrecognized request argument")
        return thinker(SHAPES["vLLM"], lambda body: False)(body, times)

    with chat_server(strict, LISTED) as up:
        off, on = engine_at(up.url, "off"), engine_at(up.url, "on")
        assert draw(off)
        assert off.usage.notes == []
        assert draw(on)
    assert "turned thinking on in a trial (sent: {})" in on.usage.notes[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thought_although_thinking_is_off_is_reported(shape: str) -> None:
    with chat_server(thinker(SHAPES[shape]), LISTED) as up:
        engine = engine_at(up.url, "off")
        drawn = draw(engine)
    assert classes(drawn) == {("complete", False)}
    assert all(one.hidden or one.thought for one in drawn)
    first, second = engine.usage.notes
    assert 'turned thinking off in a trial (sent: {"reasoning_effort": "low"})' in first
    assert "wrote thoughts despite --thinking off" in second


def test_a_trial_leaves_room_for_hidden_thoughts() -> None:
    """24 tokens would show nothing of a model that first thinks 60 words, for some or all texts."""
    for words, refused, greets in ((60, False, True), (60, False, False), (5_000, True, True)):

        def thinks(body: Body, greets: bool = greets) -> bool:
            return greets or "Say a word" not in json.dumps(body)

        rule = thinker(SHAPES["hidden"], thinks, before="so " * words)
        with chat_server(rule, LISTED) as up:
            engine = engine_at(up.url, options="")
            if refused:
                with pytest.raises(ModelError, match="hidden thoughts do not end within 1,024"):
                    draw(engine)
            else:
                assert classes(draw(engine)) == {("complete", False)}
