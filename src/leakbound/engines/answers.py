"""A server's reply to a request for outputs: the one place that turns a choice into an `Output`.

Every choice is an output; `leakbound.text.counting` decides how it counts. One that did not arrive
as it was drawn is an error, and never replaced: its text may be the reason. Such are outputs with
half a character, those that are longer than requested, and those that the server cut early, as its
count of tokens shows.

Fields are on an allow list, because a leak may be in any other field. An output with an unknown
field is an error, and the trial stops before drawing.

An empty text counts only if the count of tokens leaves no room for more. A request has one count
for all its outputs, so the fewest tokens that the other texts need (two words per token) are
subtracted, and the rest is divided among the empty outputs. A count that is negative, or too small
for the texts, is no count.

A thought comes in a field, in a part of the content or in tags. Where the prompt opens it, only its
closing tag is in the text (see `Answer.opened`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leakbound.text.counting import (
    closes_thought,
    finish_of,
    output_of,
    visible,
)
from leakbound.types import Finish, Output

_WORDS = 2  # in a token, at most
_NAMES = ("model", "system_fingerprint")  # that a reply gives of who gave it
_ENDED: tuple[Finish, ...] = ("length", "stop_string", "stop")
_WORST: tuple[Finish, ...] = ("error", "filtered", "tool", *_ENDED)
_WITHHELD = ("INTERVENED", "GUARDRAIL_INTERVENED", "BLOCKED")  # of a guardrail's action


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FILTERS = _names(
    "content_filter_results content_filter_result content_filter_offsets prompt_filter_results "
    "safety_ratings vertex_ai_safety_results amazon-bedrock-guardrailAction"
)
_THOUGHTS = _names(
    "text content reasoning reasoning_content reasoning_text reasoning_details reasoning_items "
    "thinking thinking_content thinking_blocks thought thoughts"
)
_SUMMARIES = _names("summary reasoning_summary thinking_summary")  # of thoughts that are hidden
# What holds no part of an output: in a thought, a choice, a reply.
_OF_THOUGHTS = _names("type id index format signature closed status")
_OF_CHOICES = _names(
    "index role logprobs token_ids prompt_token_ids prompt_logprobs stop_reason "
    "matched_stop annotations citations seed hidden_states meta_info routed_experts "
    "thought_signatures"
)
_OF_REPLIES = _names(
    "id object created model choices usage system_fingerprint service_tier provider timings "
    "__verbose metadata prompt prompt_logprobs prompt_token_ids prompt_routed_experts "
    "kv_transfer_params sglext request_id x_groq time_info usage_breakdown perf_metrics citations "
    "search_results vertex_ai_grounding_metadata vertex_ai_url_context_metadata "
    "vertex_ai_citation_metadata"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """A request for outputs.

    choices: how many.
    chat: whether they come as messages.
    most: tokens of each, at most.
    stop: strings that end one, left out.
    ignored: names of further fields that hold no part of an output.
    strict: whether they are counted as draws. A reply of a judge is not: no further field, length
        or reason of its end speaks against it, and one that is no text is no answer.
    """

    choices: int
    chat: bool
    most: int
    stop: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outputs that came of a request.

    outputs: one for each choice.
    longer: whether they are longer than requested, and so all errors.
    tokens: how many were drawn, as the server says; None: it does not; 0: its count is impossible.
    prompt_tokens: how many the prompt has, as the server says; 0: it does not.
    unknown: names of fields that may hold a part of an output.
    stated: who gave it, by the names of `_NAMES`; None where the reply does not say.
    opened: whether a text closes a thought that its prompt opened.
    """

    outputs: tuple[Output, ...]
    longer: bool
    tokens: int | None
    unknown: tuple[str, ...]
    stated: Mapping[str, str | None]
    opened: bool = False
    prompt_tokens: int = 0


def read_answer(body: Any, request: OutputRequest) -> Answer:
    """The answer in a body of JSON; ValueError for none, or for more outputs than requested."""
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ValueError("no choices")
    if len(choices) > request.choices:
        raise ValueError(f"{len(choices)} choices where {request.choices} were asked for")
    count, thinking, prompt_tokens = _counts(body)
    unknown: set[str] = set()
    of_reply = {name: value for name, value in body.items() if name not in _OF_REPLIES}
    outputs = [_output(choice, of_reply, request, unknown, thinking) for choice in choices]
    if count is not None and count < sum(map(_least, outputs)):
        count = 0
    words = [len(output.answer.split()) for output in outputs if output.finish in _ENDED]
    longer = (count or 0) - thinking > request.choices * request.most or (
        max(words, default=0) > _WORDS * request.most
    )
    if not request.strict:
        if any(output.finish == "error" for output in outputs):
            raise ValueError("no text")
    elif longer:
        outputs = [replace(output, finish="error") for output in outputs]
    elif count:
        outputs = _by_count(outputs, count, request)
    return Answer(
        outputs=tuple(outputs),
        longer=longer,
        tokens=count,
        unknown=tuple(sorted(unknown)),
        stated={
            name: value if isinstance(value := body.get(name), str) else None for name in _NAMES
        },
        opened=any(
            name in ("content", "text") and isinstance(leaf, str) and closes_thought(leaf)
            for name, leaf in _leaves(choices)
        ),
        prompt_tokens=prompt_tokens,
    )


def has_thought(output: Output) -> bool:
    """Whether an output has a thought, visible or not; a text next to a refusal does not count."""
    return not output.refused and (output.hidden or visible(output.thought))


@dataclass(slots=True)
class _Fields:
    """The fields of a choice, apart from the answer."""

    request: OutputRequest
    unknown: set[str]
    marks: set[Finish] = field(default_factory=set)
    thoughts: list[str] = field(default_factory=list)
    refusal: str = ""
    hidden: bool = False

    def read(self, fields: Mapping[str, Any]) -> None:
        """Read all fields but those that hold no part of an output."""
        for name, value in fields.items():
            if name in _OF_CHOICES or name in self.request.ignored or _is_empty(value):
                continue
            if name == "provider_specific_fields" and isinstance(value, Mapping):
                self.read(value)
            elif name in _FILTERS:
                withheld = any(
                    leaf in _WITHHELD or (leaf is True and key != "detected")
                    for key, leaf in _leaves(value)
                )
                self.marks |= {"filtered"} if withheld else set()
            elif name == "error":
                self.marks.add("error")
            elif name in (
                "finish_reason",
                "native_finish_reason",
            ):  # a provider's has its own words
                self.marks.add(finish_of(value) or "stop")
            elif name in ("tool_calls", "function_call"):
                self.marks.add("tool")
            elif name == "refusal" and isinstance(value, str):
                self.refusal = value
            elif name in _THOUGHTS | _SUMMARIES:
                self.hidden |= name in _SUMMARIES
                self.think(value)
            elif self.request.strict:
                self.know_not(name)

    def know_not(self, name: str) -> None:
        """Note a field that may hold a part of an output."""
        self.unknown.add(name)
        self.marks.add("error")

    def content(self, content: Any) -> str:
        """The text of a content; what else is among its parts is read like other fields."""
        texts = []
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, Mapping):
                rest = {name: part[name] for name in part if name not in _OF_THOUGHTS}
                if part.get("type") in ("text", "output_text"):
                    texts.append(rest.pop("text", None))
                self.read(rest)
            else:
                texts.append(part)
        if not all(isinstance(text, str | None) for text in texts):
            self.know_not("content")
        return "".join(text for text in texts if isinstance(text, str))

    def think(self, value: Any) -> None:
        """Read a thought: a text, parts of one, or a mark that it is not shown in full."""
        if isinstance(value, str):
            self.thoughts.append(value)
        elif isinstance(value, Sequence):
            for part in value:
                self.think(part)
        elif isinstance(value, Mapping):
            names = {k for k in value if not _is_empty(value[k])} - _OF_THOUGHTS
            whole = names <= _THOUGHTS and "summary" not in str(value.get("type"))
            self.hidden |= not names or not whole
            self.think([value[k] for k in value if k in names & (_THOUGHTS | _SUMMARIES)])
        else:
            self.hidden = True


def _output(
    choice: Any,
    of_reply: Mapping[str, Any],
    request: OutputRequest,
    unknown: set[str],
    thinking: int,
) -> Output:
    """One choice as an output; names of unknown fields go into `unknown`.

    `of_reply`: fields of the reply. `thinking`: tokens that its outputs spent on thoughts.
    """
    fields = {**choice} if isinstance(choice, Mapping) else {"choice": choice}
    message = {**fields.pop("message")} if isinstance(fields.get("message"), Mapping) else {}
    if not (request.strict or "content" in message):
        raise ValueError("no message")
    own = _Fields(request, unknown)
    text = own.content(message.pop("content", None) if request.chat else fields.pop("text", None))
    for part in (of_reply, fields, message):
        own.read(part)
    if visible(text):
        own.thoughts.append(own.refusal)
    else:
        text = own.refusal
    otherwise: Finish = "error" if request.strict else "stop"
    marks = {finish_of(fields.get("finish_reason") or otherwise) or otherwise, *own.marks}
    output = output_of(
        text,
        next((finish for finish in _WORST if finish in marks), "error"),
        thoughts=own.thoughts,
        refused=visible(own.refusal),
        hidden=own.hidden,
        reasoned=thinking,
    )
    try:
        f"{output.answer}{output.thought}".encode()
    except UnicodeEncodeError:
        return Output(answer="", finish="error")
    places = [at for stop in request.stop if (at := output.answer.find(stop)) >= 0]
    if output.finish not in _ENDED or not places:
        return output
    return replace(output, answer=output.answer[: min(places)], finish="stop_string")


def _by_count(outputs: Sequence[Output], tokens: int, request: OutputRequest) -> list[Output]:
    """The outputs with what the count of tokens shows: the own tokens of empty ones, and cuts."""
    left = tokens - sum(map(_least, outputs))
    share = -(-left // max(1, sum(map(_is_bare, outputs))))
    early = tokens < request.most * sum(output.finish == "length" for output in outputs)
    return [
        replace(output, finish="error")
        if early and output.finish == "length"
        else replace(output, tokens=share if _is_bare(output) else None)
        for output in outputs
    ]


def _is_bare(output: Output) -> bool:
    """Whether an output that ended shows nothing, so that its tokens must explain it."""
    shows = visible(output.answer) or visible(output.thought) or output.hidden
    return output.finish in ("stop", "stop_string") and not shows


def _least(output: Output) -> int:
    """The fewest tokens that the texts of an output need."""
    words = len(f"{output.answer} {output.thought or ''}".split())
    return 0 if _is_bare(output) else -(-words // _WORDS)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All values in nested fields that hold no others, with their names."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value


def _is_empty(value: Any) -> bool:
    return not any(leaf for _, leaf in _leaves(value))


def _counts(body: Mapping[str, Any]) -> tuple[int | None, int, int]:
    """The server's counts of tokens: drawn, those of them in thoughts, and in the prompt."""
    counts = {name: value for name, value in _leaves(body.get("usage")) if type(value) is int}
    thinking = max(0, counts.get("reasoning_tokens", 0))
    return counts.get("completion_tokens"), thinking, max(0, counts.get("prompt_tokens", 0))
