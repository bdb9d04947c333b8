"""Whether a server draws at all: a trial before the first draw that counts.

A prompt of random words has no likely continuation by construction, so what is drawn after it
shows how it was drawn. A server is refused that gives always, or nine times in ten, one answer at
T = 1 (it ignores the temperature, or keeps one answer for all); that answers variedly at T = 0;
whose outputs are equal within a request more than between requests (n copies of one draw), or in
the same places of two requests (a seed that is ignored, a cache). Each is refused only if it is
seen twice, after two prompts.

False alarms. A server that keeps its promises fails a trial with a chance of at most `FALSE_ALARM`:

- equal: no output has a chance above 1/2 after such a prompt, so 36 of 40 draws are equal with
  chance 2e-7 at most (binomial tail, for each of the two outputs that can be so likely);
- varied at T = 0: its greedy answer differs by roundings in one of a hundred answers, so 5 of 9
  differ with chance 1.3e-8 at most (126 / 100^5);
- copies: independent draws may be exchanged, so their places are a random arrangement; the share
  of 9,999 arrangements that have as many copies is at most 3e-4 with that chance, for each of two
  counts, and this rests on no condition.

Twice each: (2e-7)^2 + (1.3e-8)^2 + 2 (3e-4)^2 < 2e-7. A model that says one thing to every
prompt breaks the first condition and cannot be distinguished from such a server; users who know it
leave the trial out (`?probe=off`), which the results then say.
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

from leakbound.engines.answers import Answer, has_thought
from leakbound.engines.manner import Manner, require_known
from leakbound.engines.server import Server
from leakbound.errors import ModelError
from leakbound.text.counting import counted_as, is_missing
from leakbound.text.keywords import normalise
from leakbound.types import Decoding, Output

FALSE_ALARM = 2e-7
"""The chance, at most, that a server that keeps its promises is refused."""

_DRAWS, _ALIKE = 40, 0.9
_REQUESTS = 4  # at least
_GREEDY, _AGREEING = 9, 5
_SHARE = 3e-4  # of the arrangements
_ARRANGEMENTS = 9_999
_SHOWN = 40
_TRIED = Decoding(max_new_tokens=24)
# Tokens of models that think: thoughts begin in similar ways, and hidden ones must end first.
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
"""The texts of each request, as they are compared; None for one that is missing."""

Draw = Callable[[str, range, int, float], Table]
"""(prompt, numbers of requests, outputs of each, temperature) -> what came."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a trial found: which of its tests found it, and that in words."""

    name: str
    says: str


def require_draws(server: Server, manner: Manner, name: str) -> Manner:
    """The manner, once the server of `name` was tried; ModelError where it does not draw.

    One output a request, where it left some empty that only a request of one can tell.
    """
    outputs = _trial_of(server, manner, name)
    bare = [output for output in outputs if _compared(output) is None]
    if manner.choices > 1 and any(counted_as(output) == "empty" for output in bare):
        manner = replace(manner, choices=1)
        outputs = _trial_of(server, manner, name)
    return replace(manner, thinks="hidden") if any(o.hidden for o in outputs) else manner


def _trial_of(server: Server, manner: Manner, name: str) -> list[Output]:
    """The outputs of a trial; ModelError where they show a fault."""
    came: list[tuple[int, Answer]] = []
    room = _TRIED.max_new_tokens + _ROOM[manner.thinks]

    def draw(prompt: str, numbers: range, choices: int, temperature: float) -> Table:
        decoding = replace(_TRIED, temperature=temperature, max_new_tokens=room)
        question = manner.question(_CHAT.format(words=prompt) if manner.chat else prompt)
        answers: dict[int, Answer] = {}

        def ask(number: int) -> Answer:
            key = json.dumps(["trial", prompt, number])
            return manner.ask(server, question, decoding, choices, key)

        server.each(ask, numbers, answers.__setitem__, stop=server.abandon)
        for answer in answers.values():
            require_known(answer, name)
        came.extend((choices, answer) for answer in answers.values())
        return [
            [*map(_compared, own), *[None] * (choices - len(own))]
            for own in (answers[i].outputs for i in numbers)
        ]

    fault = tried(draw, manner.choices, prompt_of(manner.model))
    says, drawn = None if fault is None else fault.says, sum(choices for choices, _ in came)
    outputs = [output for _, answer in came for output in answer.outputs]
    lost: Counter[str] = Counter(counted_as(o) for o in outputs if _compared(o) is None)
    lost["fewer"] = drawn - len(outputs)
    if manner.choices > 1:
        lost.pop("empty", 0)  # only a request of one output shows whether they are empty
    longer = any(answer.longer for _, answer in came)
    if longer or 2 * lost.total() > drawn:
        why = "failed" if longer else lost.most_common(1)[0][0]
        says = (
            f"of {drawn} outputs {lost[why]} are not as they were asked for "
            f"({'longer' if longer else why})"
        )
        if why == "cut":
            says += f": its thoughts are hidden and do not end within {room:,} tokens"
    if says is not None and not _ROOM[manner.thinks] and any(map(has_thought, outputs)):
        return _trial_of(server, replace(manner, thinks="hidden"), name)  # with more room
    if says is not None:
        raise ModelError(
            f"{name!r} was tried with random words, and {says}. No bound would hold. Fix "
            "the server or its settings; if this is how the model itself answers, write "
            "?probe=off behind its name, and the results say so."
        )
    return outputs


def _compared(output: Output) -> str | None:
    """The letters and digits of an output, normalised; None where it is missing.

    A cache that varies blanks, capitals or markup gives the same letters.
    """
    shown = replace(output, answer=f"{output.thought or ''} {output.answer}")
    if is_missing(shown, counted_as(shown)):
        return None
    text = normalise(shown.answer)
    return "".join(filter(str.isalnum, text)) or text


def prompt_of(key: str) -> str:
    """Random words to go on with, others for every key."""
    digest = hashlib.sha256(key.encode()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, np.uint32))
    return ", ".join(rng.choice(_WORDS.split(), _SHOWN).tolist()) + ","


def tried(draw: Draw, choices: int, key: str) -> Fault | None:
    """The fault of a server, seen after two prompts; None for a sound one.

    `choices`: outputs that a request may ask for. What `draw` raises passes.
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
    if most >= _ALIKE * drawn:
        return Fault(
            "alike",
            f"{most} of {drawn} outputs at T = 1 are the same text: "
            "it ignores the temperature, or answers with copies",
        )
    if fault := _copies(table, key):
        return fault
    last = number + requests
    greedy = draw(prompt, range(last, last + _GREEDY), 1, 0.0)
    if _most(greedy) < _AGREEING:
        return Fault(
            "temperature",
            f"no {_AGREEING} of {_GREEDY} answers at T = 0 are alike: it ignores the temperature",
        )
    return None


def _most(table: Table) -> int:
    """How often the commonest text came."""
    texts = Counter(text for row in table for text in row if text is not None)
    return max(texts.values(), default=0)


def _copies(table: Table, key: str) -> Fault | None:
    """Copies within requests, or in the same places of several, beyond what chance arranges.

    What did not arrive keeps its place: it stands last in its row, which no chance arranged.
    """
    numbers: dict[str, int] = {}
    every = [text for row in table for text in row]
    codes = np.array(
        [-i if text is None else numbers.setdefault(text, len(numbers))
         for i, text in enumerate(every, start=1)]
    )  # fmt: skip
    came = codes >= 0
    rng = np.random.default_rng(np.frombuffer(hashlib.sha256(key.encode()).digest(), np.uint32))
    arranged = np.tile(codes, (_ARRANGEMENTS, 1))
    arranged[:, came] = rng.permuted(arranged[:, came], axis=1)
    shape = (-1, len(table), len(table[0]))
    for name, (count, says) in _COPIES.items():
        seen = count(codes.reshape(shape))[0]
        as_many = 1 + int(np.sum(count(arranged.reshape(shape)) >= seen))
        if as_many <= _SHARE * (_ARRANGEMENTS + 1):
            return Fault(name, says)
    return None


Count = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""The pairs of equal outputs in each table, [tables, requests, choices]: within a request, or in
the same place of two requests."""
_COPIES: Mapping[str, tuple[Count, str]] = {
    "one draw": (
        lambda tables: (tables[..., :, None] == tables[..., None, :]).sum((1, 2, 3)),
        "the outputs of a request are copies of one draw",
    ),
    "one answer": (
        lambda tables: (tables[:, :, None] == tables[:, None, :]).sum((1, 2, 3)),
        "requests with other seeds get the same outputs: it ignores the seed, or has a cache",
    ),
}
