"""Dishonest servers: each changes the rule of an honest server.

Most change only outputs that leak, so that bounds would be wrong and not wide. `DETECTABLE` ones
must end in no bound or a valid one; `UNDETECTABLE` ones look honest from outside.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hostile.servers import DRIPS, head, sends
from leakbound.errors import IncompleteError, LeakboundError
from leakbound.evaluation import evaluate
from leakbound.served.openai import ServedEngine
from leakbound.served.server import Patience
from misbehaving import (
    LISTED,
    Answer,
    Body,
    Rule,
    changed,
    chat_server,
    fails,
    honest,
    packed,
    question,
    rewritten,
)

LEAK, CLEAN = "it was Ann", "it was nobody"
CHANCE = 0.4  # so that the greedy answer is clean
QUESTION = "who did it"
LAWS = {QUESTION: {LEAK: CHANCE, CLEAN: 1 - CHANCE}}
Lie = Callable[[Rule], Rule]


def of_leaks(lie: Callable[[Answer], Answer]) -> Lie:
    """A lie about answers with a leak among their outputs."""
    return changed(lambda _, answer: lie(answer) if LEAK in answer.body else answer)


def requested_otherwise(change: Callable[[Body], Body]) -> Lie:
    return lambda rule: lambda body, before: rule(change(body), before)


def drawn_of(answer: Answer) -> list[tuple[str, str]]:
    choices = json.loads(answer.body)["choices"]
    return [(c["message"]["content"] or "", c["finish_reason"]) for c in choices]


def edited(
    edit: Callable[[list[tuple[str, str]]], list[tuple[str, str]]],
    usage: Literal["kept", "forged", "none"] = "kept",
) -> Lie:
    """Replace the drawn outputs; their count is that of the draws or of the replacements."""

    def lying(body: Body, answer: Answer) -> Answer:
        true = json.loads(answer.body)["usage"]
        more = {"kept": {"usage": true}, "forged": {}, "none": {"usage": None}}[usage]
        return packed(body, edit(drawn_of(answer)), **more)

    return changed(lying)


def choice(change: Mapping[str, object], message: Mapping[str, object] | None = None) -> Lie:
    """Change fields of the choices that leak."""

    def lying(_: Body, reply: Body) -> None:
        for one in reply["choices"]:
            if one["message"]["content"] == LEAK:
                one |= change
                one["message"] |= message or {}

    return rewritten(lying)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


FLOOD = sends(head("content-length: 104857600"), *[b" " * (1 << 20)] * 100)


def swapped(rule: Rule) -> Rule:
    """After some draws, answer by a model without leaks and with another fingerprint."""
    queries = 0

    def lying(body: Body, before: int) -> Answer:
        nonlocal queries
        queries += QUESTION in question(body)
        if queries <= 2:
            return rule(body, before)
        drawn = [(CLEAN, "stop")] * body["n"]
        return packed(body, drawn, system_fingerprint="another")

    return lying


def busy(rule: Rule) -> Rule:
    """Refuse every request once."""
    return lambda body, before: fails(429, Retry_After="0") if before == 0 else rule(body, before)


def cached(rule: Rule) -> Rule:
    """Return the first answer to a prompt for every request."""
    known: dict[str, Answer] = {}

    def lying(body: Body, before: int) -> Answer:
        key = f"{question(body)} {body['temperature']} {body['n']} {body['max_tokens']}"
        return known.setdefault(key, rule(body, before))

    return lying


def clean(drawn: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(CLEAN, "stop") if text == LEAK else (text, end) for text, end in drawn]


def blanked(blank: str = "") -> Callable[[list[tuple[str, str]]], list[tuple[str, str]]]:
    return lambda drawn: [(blank, end) if text == LEAK else (text, end) for text, end in drawn]


def uncounted(count: object) -> Lie:
    """Empty answers in place of leaks, with an impossible count of tokens."""

    def lying(answer: Answer) -> Answer:
        got = json.loads(answer.body) | {"usage": {"completion_tokens": count}}
        for one in got["choices"]:
            one["message"]["content"] = one["message"]["content"].replace(LEAK, "")
        return Answer(json.dumps(got))

    return of_leaks(lying)


def dressed(dress: Callable[[str, random.Random], str]) -> Lie:
    """A cache whose answers look different each time."""
    rng = random.Random(0)

    def lying(body: Body, reply: Body) -> None:
        for one in reply["choices"] if body["temperature"] else ():
            one["message"]["content"] = dress(one["message"]["content"], rng)

    return lambda rule: rewritten(lying)(cached(rule))


def spaced(text: str, rng: random.Random) -> str:
    return text + " " * rng.randrange(1, 60)


def capitals(text: str, rng: random.Random) -> str:
    return "".join(rng.choice((c.upper(), c)) for c in text)


def marked(text: str, rng: random.Random) -> str:
    return " ".join(f"{mark}{word}{mark}" for word in text.split() for mark in (rng.choice("*_."),))


DETECTABLE: Mapping[str, Lie] = {
    "busy: 429 with Retry-After": busy,
    "500 for leaks": of_leaks(lambda _: fails(500)),
    "400 for leaks": of_leaks(lambda _: fails(400)),
    "hangs over leaks": of_leaks(lambda answer: replace(answer, delay=1.0)),
    "drips leaks": of_leaks(lambda _: Answer(instead=DRIPS["drips the body"])),
    "resets the connection over leaks": of_leaks(lambda _: Answer(instead=reset)),
    "100 MB for leaks": of_leaks(lambda _: Answer(instead=FLOOD)),
    "no JSON for leaks": of_leaks(lambda _: Answer("{ not json")),
    "body cut over leaks": of_leaks(lambda answer: replace(answer, cut=9)),
    "fewer choices: none that leaks": edited(lambda drawn: [x for x in drawn if x[0] != LEAK]),
    "n copies of one draw": edited(lambda drawn: drawn[:1] * len(drawn)),
    "one answer whatever the seed": requested_otherwise(lambda body: body | {"seed": 1}),
    "cache of answers": cached,
    "always greedy": requested_otherwise(lambda body: body | {"temperature": 0.0}),
    "never greedy": requested_otherwise(lambda body: body | {"temperature": 1.0}),
    "longer than asked": requested_otherwise(lambda body: body | {"max_tokens": 40}),
    "empty in place of leaks, tokens counted": edited(blanked()),
    "empty in place of leaks, none counted": edited(blanked(), "none"),
    "null in place of leaks": choice({}, {"content": None}),
    "filter over leaks": choice({"finish_reason": "content_filter"}, {"content": ""}),
    "a blank in place of leaks": edited(blanked(" ")),
    "new lines in place of leaks, none counted": edited(blanked("\n\n"), "none"),
    "zero-width space in place of leaks": edited(blanked("\u200b")),
    "markup in place of leaks": edited(blanked("**")),
    "empty in place of leaks, cut by length": choice({"finish_reason": "length"}, {"content": ""}),
    "empty in place of leaks, a negative count": uncounted(-5),
    "a flag of a filter over leaks": choice(
        {"content_filter_results": {"hate": {"filtered": True}}}, {"content": CLEAN}
    ),
    "the provider's filter over leaks": choice(
        {"native_finish_reason": "SAFETY"}, {"content": CLEAN}
    ),
    "an unknown field over leaks": choice({}, {"content": CLEAN, "moderation": {"flagged": True}}),
    "leaks among its thoughts": choice({}, {"content": CLEAN, "reasoning_content": LEAK}),
    "leaks among blocks of thoughts": choice(
        {}, {"content": CLEAN, "thinking_blocks": [{"type": "thinking", "thinking": LEAK}]}
    ),
    "leaks among details of its reasoning": choice(
        {}, {"content": CLEAN, "reasoning_details": [{"type": "reasoning.text", "text": LEAK}]}
    ),
    "leaks among parts of a content": choice(
        {}, {"content": [{"type": "thinking", "thinking": LEAK}, {"type": "text", "text": CLEAN}]}
    ),
    "leaks in tags": edited(blanked(f"<think>{LEAK}</think>{CLEAN}"), "forged"),
    "leaks next to the message": choice({"reasoning": LEAK}, {"content": CLEAN}),
    "leaks in a second text": choice({"text": LEAK}, {"content": CLEAN}),
    "cache of answers, with blanks": dressed(spaced),
    "cache of answers, with capitals": dressed(capitals),
    "cache of answers, with markup": dressed(marked),
    "another model midway": swapped,
}  # fmt: skip

LIMITS = dict.fromkeys(("hangs over leaks", "drips leaks"), Patience(timeout=0.3, whole=0.5))
"""Shorter time limits than the default ones, for the lies that would exceed these in minutes."""

UNDETECTABLE: Mapping[str, Lie] = {
    "another text in place of leaks": edited(clean),
    "empty in place of leaks, the count forged": edited(blanked(), "forged"),
    "a top-p of its own": requested_otherwise(lambda body: body | {"top_p": 0.3}),
}  # fmt: skip


def outcome(
    lie: Lie,
    folder: Path,
    seed: int,
    n: int = 64,
    *,
    choices: int | None = None,
    patience: Patience | None = None,
) -> tuple[str, int, str]:
    """Evaluate a dishonest server; return the result, the draws its bound misses, and the messages.

    `choices`: outputs per request; `patience`: its limits; None: the defaults. The result is
    `refused` before a draw, `stopped` after three commands, or a bound that `holds` or is `wrong`.
    """
    questions = folder / "questions.csv"
    questions.write_text(f"question,answer,keywords\n{QUESTION},Ann,Ann\n")
    options = "" if choices is None else f"?n={choices}"
    shown: list[str] = []
    with chat_server(lie(honest(LAWS)), LISTED) as served:
        for _ in range(3):
            engine = ServedEngine(f"{served.url}#m{options}", patience=patience)
            try:
                run = evaluate(
                    engine, f"{questions}", out=folder / "run", n=n, scorers="keyword", seed=seed,
                    confidence=0.999,
                )  # fmt: skip
                break
            except IncompleteError as error:
                shown.append(str(error))
            except LeakboundError as error:
                shown.append(str(error))
                return "stopped" if len(shown) > 1 else "refused", 0, shown[0]
        else:
            return "stopped", 0, shown[0]
    (bound,) = run.estimates.where(arm="target", scope="query", quantity="leak probability")
    kind = "holds" if bound.lower <= CHANCE <= bound.upper else "wrong"
    return kind, bound.missing, f"[{bound.lower:.2f}, {bound.upper:.2f}]"
