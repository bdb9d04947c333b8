"""A server's reply to a request for outputs: the one place that turns a choice into an `Output`.

An output that did not arrive as it was drawn is lost, and never replaced: its text may be the
reason. A choice without a text is lost, and so are outputs that are longer than requested or that
the server cut early, as its count of tokens shows. Every other choice is an `Output`, also if it
was filtered, calls a tool or failed; `leakbound.text.counting` decides how it counts.

Fields are on an allow list, because a leak may be in any other field. An output with an unknown
field is an error, and the trial stops before drawing.

An empty text counts only if the count of tokens leaves no room for more. A request has one count
for all its outputs, so the fewest tokens that the other texts need (two words per token) are
subtracted, and the rest is divided among the empty outputs. A count that is negative, or too small
for the texts, is no count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leakbound.text.counting import split_thought, visible
from leakbound.types import Finish, Output

Loss = Literal["fewer", "no text", "longer", "cut"]
_WORDS = 2  # in a token, at most
_ANY = 1 << 30  # tokens
_FINISHES: Mapping[str, Finish] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
    **dict.fromkeys(
        ("content_filter", "content_filtered", "guardrail_intervened", "safety", "blocklist",
         "prohibited_content", "spii", "recitation"),
        "filtered",
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool"),
    **dict.fromkeys(("error", "abort", "malformed_function_call"), "error"),
}  # fmt: skip
_WORST: tuple[Finish, ...] = ("error", "filtered", "tool", "length", "stop")
_FILTERS = (
    "content_filter_results", "content_filter_result", "content_filter_offsets",
    "prompt_filter_results", "safety_ratings", "vertex_ai_safety_results",
    "amazon-bedrock-guardrailAction",
)  # fmt: skip
_WITHHELD = ("INTERVENED", "GUARDRAIL_INTERVENED", "BLOCKED")  # of a guardrail's action
_THOUGHTS = (
    "reasoning", "reasoning_content", "reasoning_text", "reasoning_details", "reasoning_items",
    "thinking", "thinking_content", "thinking_blocks", "thought", "thoughts",
)  # fmt: skip
_SHOWN = frozenset(("text", "content", *_THOUGHTS))
_TEXTS = frozenset((*_SHOWN, "summary"))
_CLOSED = ("summary", "redacted", "encrypted")  # types of thoughts that are not shown in full
_OF_THOUGHTS = frozenset(("type", "id", "index", "format", "signature", "closed", "status"))
_OF_CHOICES = frozenset(
    ("index", "role", "logprobs", "token_ids", "prompt_token_ids", "prompt_logprobs", "stop_reason",
     "matched_stop", "annotations", "citations", "seed", "hidden_states", "meta_info",
     "routed_experts", "thought_signatures")
)  # fmt: skip
_OF_REPLIES = frozenset(
    ("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier",
     "provider", "timings", "__verbose", "metadata", "prompt_logprobs", "prompt_token_ids",
     "prompt_routed_experts", "kv_transfer_params", "sglext", "request_id", "x_groq", "time_info",
     "usage_breakdown", "perf_metrics", "prompt", "citations", "search_results",
     "vertex_ai_grounding_metadata", "vertex_ai_url_context_metadata",
     "vertex_ai_citation_metadata")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for outputs.

    choices: how many.
    chat: whether they come as messages.
    most: tokens of each, at most.
    stop: strings that end one, left out.
    ignored: names of further fields that hold no part of an output.
    """

    choices: int
    chat: bool
    most: int
    stop: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answerer:
    """The names that an answer gives of who gave it; None where it says nothing."""

    model: str | None = None
    system_fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outputs that came of a request, and why others did not.

    outputs: those that came.
    losses: why each of the others did not.
    tokens: how many were drawn, as the server says; None: it gives no valid count.
    covers: whether the count, if there is one, may be that of all outputs.
    unknown: names of fields that may hold a part of an output.
    stated: who gave it.
    """

    outputs: tuple[Output, ...]
    losses: tuple[Loss, ...]
    tokens: int | None
    covers: bool
    unknown: tuple[str, ...]
    stated: Answerer


def read_answer(body: Any, request: Asked) -> Answer:
    """The answer in a body of JSON; ValueError where it is none, or has more than was asked for."""
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
        raise ValueError("no choices")
    if len(choices) > request.choices:
        raise ValueError(f"{len(choices)} choices where {request.choices} were asked for")
    shared = _Fields(request.ignored)
    shared.read(body, _OF_REPLIES)
    count, thinking = _counts(body)
    read = [_output(choice, request, shared, bool(thinking)) for choice in choices]
    outputs = [output for output in read if isinstance(output, Output)]
    losses: list[Loss] = [loss for loss in read if not isinstance(loss, Output)]
    losses += ["fewer"] * (request.choices - len(choices))
    tokens = count if type(count) is int and count >= sum(map(_least, outputs)) else None
    if tokens is not None:
        outputs, more = _by_count(outputs, tokens, thinking, request)
        losses += more
    return Answer(
        outputs=tuple(outputs),
        losses=tuple(losses),
        tokens=tokens,
        covers=count is None or (tokens is not None and tokens >= len(choices)),
        unknown=tuple(sorted(shared.unknown)),
        stated=Answerer(_text(body, "model"), _text(body, "system_fingerprint")),
    )


def read_reply(body: Any) -> str | None:
    """The answer of the first choice; None where the model declines. ValueError for no text."""
    try:
        choice = body["choices"][0]
        declined = choice["message"]["content"] is None
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("no choices") from error
    request = Asked(choices=1, chat=True, most=_ANY)
    output = _output(choice, request, _Fields(frozenset()), False)
    if not isinstance(output, Output):
        raise ValueError("a content that is no text")
    return None if declined or output.refused else output.answer


@dataclass(slots=True)
class _Fields:
    """The fields of a choice, or of a reply, apart from the answer."""

    ignored: frozenset[str]
    marks: set[Finish] = field(default_factory=set)
    thoughts: list[str] = field(default_factory=list)
    refusal: str = ""
    hidden: bool = False
    unknown: set[str] = field(default_factory=set)

    def read(self, fields: Mapping[str, Any], about: frozenset[str]) -> None:
        """Read all fields but those in `about`, which hold no part of an output."""
        for name, value in fields.items():
            if name in about or name in self.ignored or _is_empty(value):
                continue
            finish = _FINISHES.get(str(value).lower())
            if name == "provider_specific_fields" and isinstance(value, Mapping):
                self.read(value, about)
            elif name in _FILTERS:
                self.marks |= {"filtered"} if _withholds(value) else set()
            elif name == "error":
                self.marks.add("error")
            elif about is _OF_REPLIES:
                self.know_not(name)
            elif name == "finish_reason":
                self.marks.add(finish or "error")
            elif name == "native_finish_reason":  # each provider has words of its own
                self.marks |= {finish} if finish else set()
            elif name in ("tool_calls", "function_call"):
                self.marks.add("tool")
            elif name == "refusal" and isinstance(value, str):
                self.refusal = value
            elif name in _TEXTS:
                self.think(value)
            else:
                self.know_not(name)

    def know_not(self, name: str) -> None:
        """Note a field that may hold a part of an output."""
        self.unknown.add(name)
        self.marks.add("error")

    def content(self, parts: Sequence[Any]) -> str:
        """The text in the parts of a content; thoughts and refusals among them are kept apart."""
        texts = []
        for part in ({"type": "text", "text": p} if isinstance(p, str) else p for p in parts):
            kind = f"{part.get('type')}" if isinstance(part, Mapping) else ""
            if kind in ("text", "output_text", "refusal"):
                texts += [part["text"]] if isinstance(part.get("text"), str) else []
                self.read({k: v for k, v in part.items() if k not in ("type", "text")}, _OF_CHOICES)
            elif "think" in kind or "reason" in kind:
                self.think(part)
            else:
                self.know_not(f"content of type {kind!r}")
        return "".join(texts)

    def think(self, value: Any) -> None:
        """Read a thought: a text, parts of one, or a mark that it is not shown in full."""
        if isinstance(value, str):
            self.thoughts.append(value)
        elif isinstance(value, Sequence):
            for part in value:
                self.think(part)
        elif isinstance(value, Mapping):
            names = {name for name in value if not _is_empty(value[name])}
            shown = names & _SHOWN and not names - _SHOWN - _OF_THOUGHTS
            closed = any(word in f"{value.get('type')}" for word in _CLOSED)
            self.hidden |= closed or not shown
            self.think([value[name] for name in value if name in names & _TEXTS])
        else:
            self.hidden = True


def _output(choice: Any, request: Asked, shared: _Fields, thinking: bool) -> Output | Loss:
    """One choice as an output, or why it is none; names of unknown fields go into `shared`.

    `thinking`: whether the outputs of the reply spent tokens on thoughts.
    """
    message = choice.get("message") if isinstance(choice, Mapping) else None
    message = message if isinstance(message, Mapping) else None
    holder, place = (message, "content") if request.chat else (choice, "text")
    content = holder.get(place) if isinstance(holder, Mapping) else 0
    if content == [] or not isinstance(content, str | Sequence | None):
        return "no text"
    own = _Fields(request.ignored, {*shared.marks})
    text = content if isinstance(content, str) else own.content(content or ())
    for fields in (choice, message):
        if isinstance(fields, Mapping):
            apart = {place if fields is holder else "", "message" if message is not None else ""}
            own.read({k: v for k, v in fields.items() if k not in apart}, _OF_CHOICES)
    shared.unknown |= own.unknown
    inline, answer = split_thought(text)
    if own.refusal and not visible(answer):
        answer = own.refusal
    thoughts = dict.fromkeys((inline or "", *own.thoughts, own.refusal))
    thought = "\n".join(t for t in thoughts if visible(t) and t not in (text, answer)) or None
    try:
        f"{answer}{thought}".encode()
    except UnicodeEncodeError:
        return "no text"
    marks = own.marks if choice.get("finish_reason") else {"error"}
    finish = next((finish for finish in _WORST if finish in marks), _WORST[0])
    output = Output(
        answer=answer,
        thought=thought,
        finish=finish,
        refused=visible(own.refusal),
        hidden=own.hidden or (thinking and thought is None),
    )
    if finish not in ("stop", "length"):
        return output
    if len(answer.split()) > _WORDS * request.most:
        return "longer"
    at = min((answer.find(stop) for stop in request.stop if stop in answer), default=None)
    return output if at is None else replace(output, answer=answer[:at], finish="stop_string")


def _by_count(
    outputs: Sequence[Output], tokens: int, thinking: int, request: Asked
) -> tuple[list[Output], list[Loss]]:
    """The outputs that the count of tokens does not contradict, and what it shows of the others.

    `thinking`: tokens spent on thoughts, which the limit of some servers does not bind.
    """
    if tokens - thinking > request.choices * request.most:
        return [], ["longer"] * len(outputs)
    left = tokens - sum(map(_least, outputs))
    long = [output for output in outputs if output.finish == "length"]
    if cut := tokens < len(long) * request.most:
        outputs = [output for output in outputs if output.finish != "length"]
    share = -(-left // max(1, sum(map(_is_bare, outputs))))
    counted = [replace(o, tokens=share) if _is_bare(o) else o for o in outputs]
    return counted, ["cut"] * len(long) if cut else []


def _is_bare(output: Output) -> bool:
    """Whether an output that ended by itself shows nothing, so that its tokens must explain it."""
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


def _withholds(results: Any) -> bool:
    """Whether the results of a filter report that it withheld something."""
    return any(
        leaf in _WITHHELD or (leaf is True and name != "detected")
        for name, leaf in _leaves(results)
    )


def _counts(body: Mapping[str, Any]) -> tuple[Any, int]:
    """The count of tokens drawn as it is stated, and how many of them were spent on thoughts."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("completion_tokens_details")
    for holder in (details, usage):
        spent = holder.get("reasoning_tokens") if isinstance(holder, Mapping) else None
        if isinstance(spent, int) and spent > 0:
            return usage.get("completion_tokens"), spent
    return usage.get("completion_tokens"), 0


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) else None
