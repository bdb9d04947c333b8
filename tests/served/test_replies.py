"""Replies of common servers, each with its outputs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from leakbound.served.replies import OutputRequest, read_reply
from leakbound.text.counting import counted_as
from leakbound.types import Output

NONE = {"refusal": None, "annotations": None, "audio": None, "function_call": None,
        "tool_calls": [], "reasoning": None}  # fmt: skip
CLEAR = {"hate": {"filtered": False, "severity": "safe"},
         "protected_material_text": {"detected": True, "filtered": False}}  # fmt: skip
CAUGHT = {**CLEAR, "violence": {"filtered": True, "severity": "medium"}}
BLOCK = {"type": "thinking", "thinking": "Ann?", "signature": "EqoB"}
NO = {"content": "no"}


def is_(counted: str, **how: Any) -> tuple[Output, str]:
    """An output and its class; by default "no" with a normal end."""
    return Output(**({"answer": "no", "finish": "stop"} | how)), counted


def choice(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {
        "index": 0,
        "message": {"role": "assistant", **message},
        "finish_reason": finish,
        **more,
    }


def reply(*choices: dict[str, Any] | None, count: Any = None, **more: Any) -> dict[str, Any]:
    usage = {} if count is None else {"completion_tokens": count, "prompt_tokens": 5}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": list(choices), "usage": usage, **more}  # fmt: skip


def vllm(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    own = choice({**NONE, **message}, finish, logprobs=None, stop_reason=None, token_ids=None)
    return reply(own, service_tier=None, prompt_logprobs=None, kv_transfer_params=None, **more)


def llama(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    timings = {"prompt_n": 5, "predicted_ms": 7.5}
    return reply(choice(message, finish), system_fingerprint="b6000", timings=timings, **more)


def sglang(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    own = choice({"reasoning_content": None, "tool_calls": None, **message}, finish, matched_stop=7)
    return reply(own, metadata={"weight_version": "default"}, **more)


def litellm(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    fields = {"refusal": None, "citations": None, **more}
    own = {"tool_calls": None, "function_call": None, "provider_specific_fields": fields, **message}
    return reply(choice(own, finish, provider_specific_fields={}), service_tier=None)


def router(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    own = {"native_finish_reason": "end_turn", "logprobs": None, **more}
    return reply(choice({"refusal": None, **message}, finish, **own), provider="Anthropic")


def azure(message: dict[str, Any], finish: str = "stop", results: Any = CLEAR) -> dict[str, Any]:
    before = [{"prompt_index": 0, "content_filter_results": CLEAR}]
    own = choice({**NONE, **message}, finish, content_filter_results=results)
    return reply(own, prompt_filter_results=before)


def spent(tokens: int) -> dict[str, Any]:
    return {"completion_tokens": tokens, "completion_tokens_details": {"reasoning_tokens": tokens}}


REPLIES: dict[str, tuple[dict[str, Any], tuple[Output, str]]] = {
    "vllm: stop": (vllm({"content": "no idea"}), is_("complete", answer="no idea")),
    "vllm: length": (vllm({**NO}, "length"), is_("cut", finish="length")),
    "vllm: reasoning parser": (vllm({**NO, "reasoning": "Ann?"}), is_("complete", thought="Ann?")),
    "vllm: older reasoning parser": (vllm({**NO, "reasoning_content": "Ann?"}),
     is_("complete", thought="Ann?")),
    "vllm: cut inside the thought": (vllm({"content": None, "reasoning": "Ann"}, "length"),
     is_("cut", answer="", thought="Ann", finish="length")),
    "vllm: a thought and no answer": (vllm({"content": None, "reasoning": "Ann"}, count=3),
     is_("empty", answer="", thought="Ann")),
    "vllm: no reasoning parser": (vllm({"content": "<think>\nAnn?\n</think>\n\nno"}),
     is_("complete", thought="Ann?")),
    "vllm: tool call": (vllm({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"),
     is_("failed", answer="", finish="tool")),
    "vllm: end token first": (vllm({"content": ""}, count=1), is_("complete", answer="")),
    "llama.cpp: stop": (llama({**NO}, count=2), is_("complete")),
    "llama.cpp: the template opened the thought": (llama({"content": "Ann?\n</think>\n\nno"}),
     is_("complete", thought="Ann?")),
    "llama.cpp: the thought is not closed": (llama({"content": "<think>Ann and"}, "length"),
     is_("cut", answer="", thought="Ann and", finish="length")),
    "llama.cpp: an empty thought": (llama({"content": "<think>\n\n</think>\n\nno"}),
     is_("complete")),
    "llama.cpp: Magistral": (llama({"content": "[THINK]Ann?[/THINK]no"}),
     is_("complete", thought="Ann?")),
    "sglang: abort": (sglang({"content": "it was"}, "abort"),
     is_("failed", answer="it was", finish="error")),
    "sglang: reasoning tokens": (
     sglang({**NO}) | {"usage": {"completion_tokens": 9, "reasoning_tokens": 6}},
     is_("complete", hidden=True)),
    "tgi": (reply(choice({**NO}, "eos_token", logprobs=None)), is_("complete")),
    "transformers serve": (
     reply(choice({**NO, "tool_calls": None}), system_fingerprint="", request_id="r"),
     is_("complete")),
    "ollama: thinking": (reply(choice({**NO, "reasoning": "Ann?"}), system_fingerprint="fp_ollama"),
     is_("complete", thought="Ann?")),
    "mistral: content in parts": (
     reply(choice({"content": [{"type": "thinking", "thinking": [{"type": "text",
     "text": "Ann?"}], "closed": True}, {"type": "text", "text": "no"}]})),
     is_("complete", thought="Ann?")),
    "litellm: stop": (litellm({**NO}), is_("complete")),
    "litellm: thinking": (litellm({**NO, "reasoning_content": "Ann?", "thinking_blocks": [BLOCK]}),
     is_("complete", thought="Ann?")),
    "litellm: thinking among the provider's fields": (litellm({**NO}, thinking_blocks=[BLOCK]),
     is_("complete", thought="Ann?")),
    "litellm: redacted": (
     litellm({**NO, "thinking_blocks": [{"type": "redacted_thinking", "data": "b64"}]}),
     is_("complete", hidden=True)),
    "litellm: guardrail": (litellm({"content": "Blocked."}, "guardrail_intervened"),
     is_("filtered", answer="Blocked.", finish="filtered")),
    "bedrock: guardrail": (
     reply(choice({"content": "Blocked."}, **{"amazon-bedrock-guardrailAction": "INTERVENED"})),
     is_("filtered", answer="Blocked.", finish="filtered")),
    "bedrock: no intervention": (
     reply(choice({**NO}, **{"amazon-bedrock-guardrailAction": "NONE"})),
     is_("complete")),
    "openrouter: stop": (router({**NO}), is_("complete")),
    "openrouter: text": (
     router({**NO, "reasoning": "Ann?", "reasoning_details": [{"type": "reasoning.text",
     "text": "Ann?", "format": "x", "index": 0}]}),
     is_("complete", thought="Ann?")),
    "openrouter: summary": (
     router({**NO, "reasoning_details": [{"type": "reasoning.summary", "summary": "Ann?"}]}),
     is_("complete", thought="Ann?", hidden=True)),
    "openrouter: a text that is a summary": (
     router({**NO, "reasoning_details": [{"type": "reasoning.summary", "text": "Ann?"}]}),
     is_("complete", thought="Ann?", hidden=True)),
    "unheard of: a field of its own for a summary": (
     reply(choice({**NO, "reasoning_summary": "Ann?"})),
     is_("complete", thought="Ann?", hidden=True)),
    "openrouter: encrypted": (
     router({**NO, "reasoning_details": [{"type": "reasoning.encrypted", "data": "b64"}]}),
     is_("complete", hidden=True)),
    "openrouter: the provider's filter": (router({"content": ""}, native_finish_reason="SAFETY"),
     is_("filtered", answer="", finish="filtered")),
    "openrouter: error": (router({"content": "it was"}, "error", error={"code": 502}),
     is_("failed", answer="it was", finish="error")),
    "openai: stop": (reply(choice({**NONE, **NO, "annotations": []}, logprobs=None)),
     is_("complete")),
    "openai: refusal": (reply(choice({"content": None, "refusal": "I cannot."})),
     is_("complete", answer="I cannot.", refused=True)),
    "openai: refusal as a part": (
     reply(choice({"content": [{"type": "refusal", "refusal": "I cannot."}]})),
     is_("complete", answer="I cannot.", refused=True)),
    "openai: refusal next to a text": (reply(choice({**NO, "refusal": "Ann is secret."})),
     is_("complete", thought="Ann is secret.", refused=True)),
    "openai: all tokens spent on thoughts": (
     reply(choice({"content": ""}, "length")) | {"usage": spent(9)},
     is_("cut", answer="", finish="length", hidden=True)),
    "openai: thoughts and nothing": (reply(choice({"content": ""})) | {"usage": spent(1)},
     is_("empty", answer="", hidden=True)),
    "openai: summary as of Responses": (
     reply(choice({**NO, "reasoning": {"summary": [{"type": "summary_text", "text": "Ann?"}]}})),
     is_("complete", thought="Ann?", hidden=True)),
    "openai: function call": (
     reply(choice({"content": None, "function_call": {"name": "f"}}, "function_call")),
     is_("failed", answer="", finish="tool")),
    "azure: nothing filtered": (azure({**NO}), is_("complete")),
    "azure: filtered": (azure({"content": ""}, "content_filter", CAUGHT),
     is_("filtered", answer="", finish="filtered")),
    "azure: filtered with a text": (azure({"content": "I cannot."}, results=CAUGHT),
     is_("filtered", answer="I cannot.", finish="filtered")),
    "unknown: no reason": (reply(choice({**NO}, None)), is_("failed", finish="error")),
    "unknown: its own reason": (reply(choice({**NO}, "moderated")), is_("failed", finish="error")),
    "unknown: another field": (reply(choice({**NO, "moderation": {"flagged": True}})),
     is_("failed", finish="error")),
    "unknown: another field of the reply": (reply(choice({**NO}), moderation={"flagged": True}),
     is_("failed", finish="error")),
    "unknown: another kind of part": (
     reply(choice({"content": ["no", {"type": "image_url", "image_url": "x"}]})),
     is_("failed", finish="error")),
    "unknown: null in place of a choice": (reply(None), is_("failed", answer="", finish="error")),
    "unknown: a count of another type, half a character": (
     reply(choice({"content": "\ud800"}), count=True), is_("failed", answer="", finish="error")),
    "unknown: empty fields": (reply(choice({**NO, "moderation": {"flagged": False, "why": []}})),
     is_("complete")),
    "unknown: a second text": (reply(choice({**NO}, text="Ann")), is_("complete", thought="Ann")),
    "unknown: thought next to the message": (reply(choice({**NO}, reasoning="Ann?")),
     is_("complete", thought="Ann?")),
    "longer than requested": (reply(choice({"content": " ".join("x" * 19)})),
     is_("failed", answer=" ".join("x" * 19), finish="error")),
    "cut earlier than requested": (reply(choice({**NO}, "length"), count=3),
     is_("failed", finish="error")),
    "blanks": (reply(choice({"content": " " * 60}), count=4),
     is_("empty", answer="")),
    "empty, cut by length": (reply(choice({"content": ""}, "length"), count=9),
     is_("empty", answer="", finish="length")),
    "empty, negative count": (reply(choice({"content": ""}), count=-5), is_("empty", answer="")),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_each_reply_has_one_output(name: str) -> None:
    body, row = REPLIES[name]
    answer = read_reply(body, OutputRequest(choices=1, chat=True, most=9))
    (got,) = answer.outputs
    assert (replace(got, tokens=None), counted_as(got)) == row
    assert bool(answer.unknown) is name.startswith("unknown: another")


def test_a_completion_is_read_like_a_message() -> None:
    wanted = OutputRequest(choices=3, chat=False, most=9)
    of = [{"text": "no", "index": 0, "finish_reason": "stop", "logprobs": None},
          {"text": "</think>no", "finish_reason": "length", "message": {"content": "Ann"}},
          {"text": "no", "finish_reason": "stop", "message": "Ann"}]  # fmt: skip
    answer = read_reply(reply(*of), wanted)
    assert answer.outputs == (
        Output(answer="no", finish="stop"),
        Output(answer="no", thought="Ann", finish="length"),
        Output(answer="no", finish="error"),
    )
    assert answer.unknown == ("message",)


def test_a_thought_that_the_prompt_opened_shows_by_its_end() -> None:
    wanted = OutputRequest(choices=2, chat=True, most=9)
    of = [choice({"content": "Ann?\n</think>\n\nno"}), choice({"content": "Ann"}, "length")]
    assert read_reply(reply(*of), wanted).opened
    assert not read_reply(reply(of[1], choice({"content": "<think>Ann"})), wanted).opened


def test_one_count_is_shared_by_the_empty_outputs_of_a_request() -> None:
    """Eight words need at least four tokens; the rest may explain two empty outputs."""
    wanted = OutputRequest(choices=3, chat=True, most=9)
    of = [choice({"content": "a b c d e f g h"}), choice({"content": ""}), choice({"content": " "})]
    for count, tokens in ((6, 1), (7, 2), (9, 3), (3, None), (0, None), (2.5, None), ("6", None)):
        got = read_reply(reply(*of, count=count), wanted)
        assert [output.tokens for output in got.outputs] == [None, tokens, tokens]
        assert [counted_as(o) for o in got.outputs[1:]] == 2 * [
            "complete" if tokens == 1 else "empty"
        ]
        assert got.tokens == (count if tokens else 0 if type(count) is int else None)
    longer = read_reply(reply(*of, count=28), wanted)
    assert longer.longer
    assert {output.finish for output in longer.outputs} == {"error"}


def test_ignored_fields_are_not_read() -> None:
    wanted = OutputRequest(choices=1, chat=True, most=9, ignored=frozenset({"latency"}))
    got = read_reply(reply(choice({"content": "no"}, latency=1.5), latency=2), wanted)
    assert (got.unknown, got.outputs[0].finish) == ((), "stop")


def test_no_text_of_a_reply_goes_unread() -> None:
    """A mark in any place belongs to an output, or makes it unclean."""
    rng = random.Random(0)
    places = ["x", "text", "refusal", "reasoning", "thoughts", "audio", "moderation", "tool_calls"]
    shapes = [lambda v: v, lambda v: [v], lambda v: {"text": v}, lambda v: [{"deep": [v]}],
              lambda v: {"type": "text", "text": v}, lambda v: {"a": {"b": v}}]  # fmt: skip
    for _ in range(500):
        got, place = choice({"content": "no"}), rng.choice(places)
        holder = got if rng.random() < 0.5 else got["message"]
        holder[place] = rng.choice(shapes)("Ann")
        (out,) = read_reply(reply(got), OutputRequest(choices=1, chat=True, most=9)).outputs
        assert "Ann" in f"{out.answer} {out.thought}" or out.finish != "stop" or out.hidden, got
