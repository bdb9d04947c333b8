"""Convert the choices in a server's reply to `Output` objects.

Every choice in a reply is an output; `leakbound.text.counting` decides how the output counts. An
output that did not arrive as it was drawn is an error. It is never replaced by another draw,
because its text may be the reason for the error. Such outputs have an incomplete character, are
longer than requested, or were cut early by the server, which the server's token count shows.

Known fields of replies are on an allow list, because any other field may
contain a leak. An output with an unknown field is an error, and the trial stops
before drawing.

An empty text is accepted as complete only if the token count is not larger than
an empty output needs. The server sends one count for all outputs of a request.
The fewest tokens that the other texts need (two words per token) are
subtracted, and the remaining tokens are divided among the empty outputs. A
count that is negative, or too small for the texts, is invalid.

A thought arrives in a field, in a part of the content or in tags. If the prompt opens the thought,
the text has only the closing tag (see `Reply.opened`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leakbound.text.counting import closes_thought, finish_of, output_of, visible
from leakbound.types import Finish, Output

_WORDS = 2  # the largest number of words in a token
_IDENTITY = ("model", "system_fingerprint")
_ENDED: tuple[Finish, ...] = ("length", "stop_string", "stop")
_WORST: tuple[Finish, ...] = ("error", "filtered", "tool", *_ENDED)
_WITHHELD = ("INTERVENED", "GUARDRAIL_INTERVENED", "BLOCKED")  # actions of guardrails


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
_SUMMARIES = _names("summary reasoning_summary thinking_summary")  # summaries of hidden thoughts
# Fields that contain no part of an output: in a thought, a choice, a reply.
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

    Attributes:
        choices: the number of outputs.
        chat: whether outputs are messages.
        most: the largest number of tokens per output.
        stop: strings that end an output and are not part of it.
        ignored: names of additional reply fields that contain no part of an output.
        strict: whether outputs are counted as draws. False for judges and rewriters: unknown
            fields, length and finish reason then do not matter, and a reply without text is
            invalid.
    """

    choices: int
    chat: bool
    most: int
    stop: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    strict: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outputs of one request.

    Attributes:
        outputs: one output per choice.
        longer: whether the outputs are longer than requested, so that all outputs are errors.
        tokens: the server's count of drawn tokens; None: no count; 0: the count is invalid.
        prompt_tokens: the server's count of prompt tokens; 0: no count.
        unknown: names of fields that may contain a part of an output.
        identity: the values of the fields `_IDENTITY`; None for a field that the reply lacks.
        opened: whether a text closes a thought that its prompt opened.
    """

    outputs: tuple[Output, ...]
    longer: bool
    tokens: int | None
    unknown: tuple[str, ...]
    identity: Mapping[str, str | None]
    opened: bool = False
    prompt_tokens: int = 0


def read_reply(body: Any, request: OutputRequest) -> Reply:
    """Return the reply in a JSON body; raise ValueError for no outputs, or more than requested."""
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ValueError("no choices")
    if len(choices) > request.choices:
        raise ValueError(f"{len(choices)} choices, but {request.choices} were requested")
    counts = {name: value for name, value in _leaves(body.get("usage")) if type(value) is int}
    count, thinking = counts.get("completion_tokens"), max(0, counts.get("reasoning_tokens", 0))
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
    named = {name: body.get(name) for name in _IDENTITY}
    return Reply(
        outputs=tuple(outputs),
        longer=longer,
        tokens=count,
        unknown=tuple(sorted(unknown)),
        identity={name: value if isinstance(value, str) else None for name, value in named.items()},
        opened=any(
            name in ("content", "text") and isinstance(leaf, str) and closes_thought(leaf)
            for name, leaf in _leaves(choices)
        ),
        prompt_tokens=max(0, counts.get("prompt_tokens", 0)),
    )


def has_thought(output: Output) -> bool:
    """Return whether an output has a visible or hidden thought (not a text next to a refusal)."""
    return not output.refused and (output.hidden or visible(output.thought))


@dataclass(slots=True)
class _Fields:
    """Read the fields of a choice, except the answer."""

    request: OutputRequest
    unknown: set[str]
    marks: set[Finish] = field(default_factory=set)
    thoughts: list[str] = field(default_factory=list)
    refusal: str = ""
    hidden: bool = False

    def read(self, fields: Mapping[str, Any]) -> None:
        """Read all fields that may contain a part of an output."""
        for name, value in fields.items():
            if name in _OF_CHOICES or name in self.request.ignored or _is_empty(value):
                continue
            if name == "provider_specific_fields" and isinstance(value, Mapping):
                self.read(value)
            elif name in _FILTERS:
                if any(
                    leaf in _WITHHELD or (leaf is True and key != "detected")
                    for key, leaf in _leaves(value)
                ):
                    self.marks.add("filtered")
            elif name == "error":
                self.marks.add("error")
            elif name in ("finish_reason", "native_finish_reason"):
                self.marks.add(finish_of(value) or "stop")  # providers use different words
            elif name in ("tool_calls", "function_call"):
                self.marks.add("tool")
            elif name == "refusal" and isinstance(value, str):
                self.refusal = value
            elif name in _THOUGHTS | _SUMMARIES:
                self.hidden |= name in _SUMMARIES
                self.think(value)
            elif self.request.strict:
                self.reject(name)

    def reject(self, name: str) -> None:
        """Record a field that may contain a part of an output."""
        self.unknown.add(name)
        self.marks.add("error")

    def content(self, content: Any) -> str:
        """Return the text in `content`; read its other parts like fields of the choice."""
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
            self.reject("content")
        return "".join(text for text in texts if isinstance(text, str))

    def think(self, value: Any) -> None:
        """Read a thought: a text, a list of parts, or a mark that some of the thought is hidden."""
        if isinstance(value, str):
            self.thoughts.append(value)
        elif isinstance(value, Sequence):
            for part in value:
                self.think(part)
        elif isinstance(value, Mapping):
            names = {k for k in value if not _is_empty(value[k])} - _OF_THOUGHTS
            in_full = names <= _THOUGHTS and "summary" not in str(value.get("type"))
            self.hidden |= not names or not in_full
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
    """Return a choice as an output; add names of unknown fields to `unknown`.

    `of_reply`: fields of the reply. `thinking`: the number of tokens that the reply's outputs spent
    on thoughts.
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
    """Apply the token count: set the tokens of empty outputs, and mark outputs that were cut."""
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
    """Return True if an output ended without visible text, which its token count must explain."""
    shows = visible(output.answer) or visible(output.thought) or output.hidden
    return output.finish in ("stop", "stop_string") and not shows


def _least(output: Output) -> int:
    """Return the smallest number of tokens that the texts of an output need."""
    words = len(f"{output.answer} {output.thought or ''}".split())
    return 0 if _is_bare(output) else -(-words // _WORDS)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and value of every innermost field."""
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
