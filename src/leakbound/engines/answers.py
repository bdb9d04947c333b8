"""A server's answer to a request for outputs: those that are whole, and how many are not.

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

from leakbound.types import Finish, Output

Loss = Literal["fewer", "no text", "not all of it", "ended otherwise", "longer", "cut", "empty"]
_WORDS = 2  # in a token, at most
_ELSEWHERE = ("reasoning_content", "reasoning", "tool_calls", "function_call", "refusal")
_ENDS: Mapping[object, Finish] = {"stop": "stop", "length": "length"}


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
    """The names that an answer gives of who gave it; None where it says nothing."""

    model: str | None = None
    system_fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outputs that came of a request, and why others did not.

    outputs: those that are whole.
    losses: why each of the others is not.
    tokens: how many were drawn, as the server says; None: it does not.
    stated: who gave it.
    """

    outputs: tuple[Output, ...]
    losses: tuple[Loss, ...]
    tokens: int | None
    stated: Answerer


def read_answer(body: Any, request: Asked) -> Answer:
    """The answer in a body of JSON; ValueError where it is none, or has more than was asked for."""
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ValueError("no choices")
    if len(choices) > request.choices:
        raise ValueError(f"{len(choices)} choices where {request.choices} were asked for")
    tokens = _count(body)
    read = [_output(choice, request) for choice in choices]
    outputs = [output for output in read if isinstance(output, Output)]
    losses: list[Loss] = [loss for loss in read if not isinstance(loss, Output)]
    losses += ["fewer"] * (request.choices - len(choices))
    whole, more = _by_count(outputs, tokens, request)
    return Answer(
        outputs=tuple(whole),
        losses=(*losses, *more),
        tokens=tokens,
        stated=Answerer(_text(body, "model"), _text(body, "system_fingerprint")),
    )


def _output(choice: Any, request: Asked) -> Output | Loss:
    """One choice as an output, or why it is none."""
    holder = choice.get("message") if isinstance(choice, Mapping) and request.chat else choice
    if not isinstance(holder, Mapping):
        return "no text"
    text = holder.get("content" if request.chat else "text")
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
    if len(text.split()) > _WORDS * request.most:
        return "longer"
    places = [at for stop in request.stop if (at := text.find(stop)) >= 0]
    if places:
        return Output(answer=text[: min(places)], finish="stop_string")
    return Output(answer=text, finish=reason)


def _by_count(
    outputs: Sequence[Output], tokens: int | None, request: Asked
) -> tuple[list[Output], list[Loss]]:
    """The outputs that the server's count of tokens does not speak against, and what it shows."""
    if tokens is None:
        whole = [output for output in outputs if output.answer]
        return whole, ["empty"] * (len(outputs) - len(whole))
    if tokens > request.choices * request.most:
        return [], ["longer"] * len(outputs)
    long = [output for output in outputs if output.finish == "length"]
    if tokens < len(long) * request.most:
        outputs = [output for output in outputs if output.finish != "length"]
        return list(outputs), ["cut"] * len(long)
    empty = [output for output in outputs if not output.answer and output.finish == "stop"]
    unseen = 1 + max((len(stop.encode()) for stop in request.stop), default=0)
    others = sum(-(-len(output.answer.split()) // _WORDS) for output in outputs)
    if empty and tokens - others > unseen * len(empty):
        return [output for output in outputs if output not in empty], ["empty"] * len(empty)
    return list(outputs), []


def _count(body: Mapping[str, Any]) -> int | None:
    usage = body.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) else None
