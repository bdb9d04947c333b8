"""Test, before the first counted draw, whether a server's outputs are random draws.

A prompt of random words has no likely continuation, so independent draws after
such a prompt should differ. A server is refused in these cases, each of which
must be observed after two prompts:

- equal: nine of ten outputs at T = 1 have the same text. The server ignores the
  temperature or has one answer for all requests.
- temperature: outputs at T = 0 differ.
- copies: outputs are equal within a request, or at the same places of two
  requests, more often than chance explains. Such outputs are copies of one
  draw, or the server ignores the seed or has a cache.

A correct server fails a trial with probability at most `FALSE_ALARM`:

- equal: if no output has a probability above 1/2 after such a prompt, 36 of 40 draws are equal with
  probability at most 2e-7 (binomial tail, for each of the two outputs that can be so likely);
- temperature: if rounding changes one of a hundred greedy answers, 5 of 9 differ with probability
  at most 1.3e-8 (126 / 100^5);
- copies: independent draws are exchangeable, so their arrangement over places is random. The number
  of copies is compared with 9,999 random arrangements. For each of the two counts of copies, the
  probability that at most a fraction 3e-4 of the arrangements has at least as many copies is at
  most 3e-4. This needs no condition.

Each case must be observed twice: (2e-7)^2 + (1.3e-8)^2 + 2 (3e-4)^2 < 2e-7. A
model that replies to every prompt with the same text violates the first
condition, and cannot be distinguished from a faulty server. For such a model,
`?probe=off` skips the trial, and the results state this.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from leakbound.errors import ModelError
from leakbound.served.negotiation import RequestFormat
from leakbound.served.replies import Reply, has_thought
from leakbound.served.server import Server
from leakbound.text.counting import counted_as, is_missing
from leakbound.text.keywords import normalise
from leakbound.types import Decoding, Output

FALSE_ALARM = 2e-7
"""The largest probability that a correct server is refused."""

_DRAWS, _EQUAL = 40, 0.9
_REQUESTS = 4  # the smallest number of requests
_GREEDY, _AGREEING = 9, 5
_FRACTION = 3e-4  # of the arrangements
_ARRANGEMENTS = 9_999
_SHOWN = 40
_TRIED = Decoding(max_new_tokens=24)
# Tokens for thoughts: visible ones begin in similar ways, hidden ones must end first.
_ROOM = {"off": 0, "no": 0, "visibly": 72, "hidden": 1_000}
_CHAT = "Go on with this list of random words, at random, and write nothing else: {words}"
_WORDS = (
    "anvil badge candle dune ember fjord gravel hinge island jigsaw kettle lantern mantle "
    "nectar orchard pebble quarry ribbon saddle thimble umbrella velvet walnut yarn zipper "
    "basil copper dolphin engine feather glacier harbor igloo jacket kernel ladder magnet "
    "needle oyster pillow quilt rocket sandal tunnel urchin violin whistle canyon drizzle "
    "falcon garnet hammock ivory juniper kite lemon meadow nickel onyx paddle "
)

Table = Sequence[Sequence[str | None]]
"""The normalised texts of each request's outputs; None for a missing output."""

Draw = Callable[[str, range, int, float], Table]
"""A function (prompt, numbers of requests, outputs per request, temperature) -> their texts."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a trial found: the name of the test, and a description."""

    name: str
    message: str


def require_draws(server: Server, form: RequestFormat, name: str) -> RequestFormat:
    """Test the server of the model `name`; return the format, or raise ModelError if a trial fails.

    If the server returned empty outputs, the trial is repeated with one output per request, and all
    later requests are for one output. Only then the token count shows whether an output is empty.
    """
    outputs = _outputs_of_trial(server, form, name)
    bare = [output for output in outputs if _compared(output) is None]
    if form.choices > 1 and any(counted_as(output) == "empty" for output in bare):
        form = replace(form, choices=1)
        outputs = _outputs_of_trial(server, form, name)
    return replace(form, thinks="hidden") if any(o.hidden for o in outputs) else form


def _outputs_of_trial(server: Server, form: RequestFormat, name: str) -> list[Output]:
    """Return the outputs of a trial; raise ModelError if they show a fault."""
    received: list[tuple[int, Reply]] = []
    room = _TRIED.max_new_tokens + _ROOM[form.thinks]

    def draw(prompt: str, numbers: range, choices: int, temperature: float) -> Table:
        decoding = replace(_TRIED, temperature=temperature, max_new_tokens=room)
        text = _CHAT.format(words=prompt) if form.chat else prompt

        def send(number: int) -> Reply:
            key = json.dumps(["trial", prompt, number])
            return form.probe(server, text, decoding, choices, key)

        replies = dict(server.each(send, numbers))
        received.extend((choices, reply) for reply in replies.values())
        texts = [[*map(_compared, replies[number].outputs)] for number in numbers]
        return [[*row, *[None] * (choices - len(row))] for row in texts]

    fault = find_fault(draw, form.choices, prompt_of(form.model))
    message = None if fault is None else fault.message
    requested = sum(choices for choices, _ in received)
    outputs = [output for _, reply in received for output in reply.outputs]
    lost: Counter[str] = Counter(counted_as(o) for o in outputs if _compared(o) is None)
    lost["fewer"] = requested - len(outputs)
    if form.choices > 1:
        lost.pop("empty", 0)  # only a request for one output shows whether the output is empty
    longer = any(reply.longer for _, reply in received)
    if longer or 2 * lost.total() > requested:
        why = "failed" if longer else lost.most_common(1)[0][0]
        message = (
            f"{lost[why]} of {requested} outputs are not as requested "
            f"({'longer than the limit' if longer else why})"
        )
        if why == "cut":
            message += f", because hidden thoughts do not end within {room:,} tokens"
    if message is not None and not _ROOM[form.thinks] and any(map(has_thought, outputs)):
        return _outputs_of_trial(server, replace(form, thinks="hidden"), name)  # with more tokens
    if message is not None:
        raise ModelError(
            f"the server of {name!r} failed a trial with random words: {message}. No bound would "
            "be valid. Fix the server or its settings. If the model itself answers like this, "
            "write ?probe=off after the model's name; the results then record this assumption."
        )
    return outputs


def _compared(output: Output) -> str | None:
    """Return the normalised letters and digits of an output; None if it is missing.

    So copies of one output count as equal even if they differ in blanks, capitals or markup.
    """
    shown = replace(output, answer=f"{output.thought or ''} {output.answer}")
    if is_missing(shown, counted_as(shown)):
        return None
    text = normalise(shown.answer)
    return "".join(filter(str.isalnum, text)) or text


def prompt_of(key: str) -> str:
    """Return a prompt of random words, which depend on the key."""
    digest = hashlib.sha256(key.encode()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, np.uint32))
    return ", ".join(rng.choice(_WORDS.split(), _SHOWN).tolist()) + ","


def find_fault(draw: Draw, choices: int, key: str) -> Fault | None:
    """Return a fault of a server that is observed after both of two prompts; None if there is none.

    `choices`: the outputs per request. Errors of `draw` are not caught.
    """
    first = _trial(draw, choices, f"{key} 1", 0)
    if first is None:
        return None
    second = _trial(draw, choices, f"{key} 2", 1000)
    return first if second is not None and second.name == first.name else None


def _trial(draw: Draw, choices: int, key: str, number: int) -> Fault | None:
    prompt = prompt_of(key)
    requests = max(_REQUESTS, ceil(_DRAWS / choices))
    table = draw(prompt, range(number, number + requests), choices, 1.0)
    most, drawn = _most(table), requests * choices
    if most >= _EQUAL * drawn:
        return Fault(
            "equal",
            f"{most} of {drawn} outputs at T = 1 are the same text, so the server "
            "ignores the temperature or sends copies",
        )
    if fault := _copies(table, key):
        return fault
    last = number + requests
    greedy = draw(prompt, range(last, last + _GREEDY), 1, 0.0)
    if _most(greedy) < _AGREEING:
        return Fault(
            "temperature",
            f"fewer than {_AGREEING} of {_GREEDY} outputs at T = 0 are the same text, so the "
            "server ignores the temperature",
        )
    return None


def _most(table: Table) -> int:
    """Return the number of outputs with the commonest text."""
    texts = Counter(text for row in table for text in row if text is not None)
    return max(texts.values(), default=0)


def _copies(table: Table, key: str) -> Fault | None:
    """Return a fault if there are too many copies within requests or at the same place in requests.

    Missing outputs are not rearranged, because they are always the last outputs of their requests.
    """
    numbers: dict[str, int] = {}
    every = [text for row in table for text in row]
    codes = np.array(
        [-i if text is None else numbers.setdefault(text, len(numbers))
         for i, text in enumerate(every, start=1)]
    )  # fmt: skip
    arrived = codes >= 0
    rng = np.random.default_rng(np.frombuffer(hashlib.sha256(key.encode()).digest(), np.uint32))
    arranged = np.tile(codes, (_ARRANGEMENTS, 1))
    arranged[:, arrived] = rng.permuted(arranged[:, arrived], axis=1)
    shape = (-1, len(table), len(table[0]))
    for name, (count, message) in _COPIES.items():
        seen = count(codes.reshape(shape))[0]
        as_many = 1 + int(np.sum(count(arranged.reshape(shape)) >= seen))
        if as_many <= _FRACTION * (_ARRANGEMENTS + 1):
            return Fault(name, message)
    return None


Count = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""A function that counts the pairs of equal outputs in each table of an array [tables, requests,
choices]: within a request, or at the same place of two requests.
"""
_COPIES: Mapping[str, tuple[Count, str]] = {
    "one draw": (
        lambda tables: (tables[..., :, None] == tables[..., None, :]).sum((1, 2, 3)),
        "the outputs of one request are copies of one draw",
    ),
    "one answer": (
        lambda tables: (tables[:, :, None] == tables[:, None, :]).sum((1, 2, 3)),
        "requests with different seeds get equal outputs: the server has a cache or ignores seeds",
    ),
}
