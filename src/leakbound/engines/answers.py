"""What a server answered to a request for outputs: those that are whole, and how many are not.

An output that did not arrive as it was drawn is lost, and never replaced: why it did not may be
what it said. Lost are outputs without a text or with half a character in it; those of which a part
stands elsewhere (thoughts, calls of tools, a refusal); those that ended otherwise than by their end
or their length, such as a filter's; longer ones than asked for; and ones that the server cut before
their length was reached, as its own count of tokens shows. An empty text counts as one only where
that count leaves no room for more: a filter may have taken what it said. Of several outputs there
is one count, so what the others say at least is taken off it, two words a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakbound.types import FinishReason

Loss = Literal["fewer", "no text", "not all of it", "ended otherwise", "longer", "cut", "empty"]
_WORDS = 2  # in a token, at most
_ELSEWHERE = ("reasoning_content", "reasoning", "tool_calls", "function_call", "refusal")
_ENDS: Mapping[object, FinishReason] = {"stop": "stop", "length": "length"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for outputs.

    choices: how many.
    chat: whether they come as messages.
    most: tokens of each, at most.
    stop: strings that end one, left out.
    """

    choices: int
    chat: bool
    most: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answerer:
    """What an answer says of who gave it; None where it says nothing."""

    model: str | None = None
    system_fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One output that arrived whole."""

    text: str
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request.

    outputs: those that are whole.
    losses: why each of the others is not.
    tokens: how many were drawn, as the server says; None: it does not.
    stated: who gave it.
    """

    outputs: tuple[Output, ...]
    losses: tuple[Loss, ...]
    tokens: int | None
    stated: Answerer


def read_answer(found: Any, asked: Asked) -> Answer:
    """The answer in a body of JSON; ValueError where it is none, or has more than was asked for."""
    choices = found.get("choices") if isinstance(found, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ValueError("no choices")
    if len(choices) > asked.choices:
        raise ValueError(f"{len(choices)} choices where {asked.choices} were asked for")
    tokens = _count(found)
    read = [_output(choice, asked) for choice in choices]
    outputs = [one for one in read if isinstance(one, Output)]
    losses: list[Loss] = [one for one in read if not isinstance(one, Output)]
    losses += ["fewer"] * (asked.choices - len(choices))
    whole, more = _by_count(outputs, tokens, asked)
    return Answer(
        outputs=tuple(whole),
        losses=(*losses, *more),
        tokens=tokens,
        stated=Answerer(_text(found, "model"), _text(found, "system_fingerprint")),
    )


def _output(choice: Any, asked: Asked) -> Output | Loss:
    """One choice as an output, or why it is none."""
    holder = choice.get("message") if isinstance(choice, Mapping) and asked.chat else choice
    if not isinstance(holder, Mapping):
        return "no text"
    text = holder.get("content" if asked.chat else "text")
    if not isinstance(text, str):
        return "no text"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "no text"
    if any(holder.get(name) for name in _ELSEWHERE):
        return "not all of it"
    reason = _ENDS.get(choice.get("finish_reason"))
    if reason is None:
        return "ended otherwise"
    if len(text.split()) > _WORDS * asked.most:
        return "longer"
    places = [at for stop in asked.stop if (at := text.find(stop)) >= 0]
    return Output(text[: min(places)], "stop_string") if places else Output(text, reason)


def _by_count(
    outputs: Sequence[Output], tokens: int | None, asked: Asked
) -> tuple[list[Output], list[Loss]]:
    """The outputs that the server's count of tokens does not speak against, and what it shows."""
    if tokens is None:
        whole = [one for one in outputs if one.text]
        return whole, ["empty"] * (len(outputs) - len(whole))
    if tokens > asked.choices * asked.most:
        return [], ["longer"] * len(outputs)
    long = [one for one in outputs if one.finish_reason == "length"]
    if tokens < len(long) * asked.most:
        outputs = [one for one in outputs if one.finish_reason != "length"]
        return list(outputs), ["cut"] * len(long)
    empty = [one for one in outputs if not one.text and one.finish_reason == "stop"]
    unseen = 1 + max((len(stop.encode()) for stop in asked.stop), default=0)
    others = sum(-(-len(one.text.split()) // _WORDS) for one in outputs)
    if empty and tokens - others > unseen * len(empty):
        return [one for one in outputs if one not in empty], ["empty"] * len(empty)
    return list(outputs), []


def _count(found: Mapping[str, Any]) -> int | None:
    usage = found.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) else None
