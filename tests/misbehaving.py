"""Chat servers on this machine: one with a known output distribution, and any that misbehave.

`chat_server` answers by a rule. `honest` is the correct rule; a lie is a rule made of another.
`engine_at` is an engine at such a server.
"""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from leakbound.engines import Prompting
from leakbound.served.openai import ServedEngine
from leakbound.served.server import Patience
from leakbound.testing import FakeEngine
from leakbound.types import Decoding, Draws, Query, Sample

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; its last `cut` bytes are announced and not sent.

    instead: called with the connection in place of an answer.
    """

    body: str = "{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int = 0
    instead: Callable[[socket.socket], None] | None = None


def says(text: str | None, **how: Any) -> Answer:
    """Return a valid answer with this reply."""
    return Answer(json.dumps({"choices": [{"message": {"content": text}}]}), **how)


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps({"error": {"message": message}}), status, shown)


@dataclass
class Served:
    """A running server: its address, and its requests with their counts."""

    url: str = ""
    queried: list[Body] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def texts(self) -> list[str]:
        """The last turn of each conversation."""
        return [body["messages"][-1]["content"] for body in self.queried]


Rule = Callable[[Body, int], Answer]
"""(body, number of earlier requests with the same messages) -> answer."""


def _question(body: Body) -> str:
    return json.dumps(body.get("messages", body.get("prompt")))


GREETING = "Say a word."
"""The text of requests that negotiate fields."""


@contextmanager
def chat_server(
    rule: Rule, pages: Mapping[str, object] | None = None, *, greets: bool = False
) -> Iterator[Served]:
    """Serve by the rule on a free port during the `with`; `pages`: answers to GET by path.

    `greets`: greetings are answered and not recorded, so that the rule is only about questions.
    """
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # one packet an answer: two would wait for each other

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if greets and question(body) == GREETING:
                self.answer(says("hello"))
                return
            with served.lock:
                before = served.times[_question(body)]
                served.times[_question(body)] += 1
                served.queried.append(body)
                served.headers.append({k.lower(): v for k, v in self.headers.items()})
            self.answer(rule(body, before))

        def do_GET(self) -> None:
            if self.path in (pages or {}):
                self.answer(Answer(json.dumps((pages or {})[self.path])))
            else:
                self.answer(fails(404))

        def answer(self, answer: Answer) -> None:
            time.sleep(answer.delay)
            payload = answer.body.encode()
            if answer.instead is not None:
                with suppress(OSError):
                    answer.instead(self.connection)
                self.close_connection = True
                return
            try:
                self.send_response_only(answer.status)  # without a date
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload[: len(payload) - answer.cut])
            except OSError:
                pass  # the client has hung up
            self.close_connection = bool(answer.cut)

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        block_on_close = False

        def handle_error(self, *where: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # the client has hung up
                super().handle_error(*where)

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        served.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def judge_server(rule: Rule) -> AbstractContextManager[Served]:
    """A server of a judge or a rewriter."""
    return chat_server(rule, greets=True)


def changed(change: Callable[[Body, Answer], Answer]) -> Callable[[Rule], Rule]:
    """A lie: the answers of another rule, changed."""
    return lambda rule: lambda body, before: change(body, rule(body, before))


def rewritten(edit: Callable[[Body, Body], object]) -> Callable[[Rule], Rule]:
    """A lie: the JSON of another rule's answers, edited in place."""

    def change(body: Body, answer: Answer) -> Answer:
        got = json.loads(answer.body)
        edit(body, got)
        return Answer(json.dumps(got))

    return changed(change)


NAMED = {"model": "m", "system_fingerprint": "fp"}
LISTED: Mapping[str, object] = {"/v1/models": {"data": [{"id": "m", "owned_by": "us"}]}}
WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnprst"]
Law = Mapping[str, float]


def question(body: Body) -> str:
    """Return the text of the question, without its template."""
    return str(body["prompt"] if "prompt" in body else body["messages"][-1]["content"])


def texts_of(engine: FakeEngine | None, body: Body, seed: object) -> list[tuple[str, str]]:
    """`n` outputs of a request and how each ended; random words without an engine."""
    n, most, temperature = body.get("n", 1), body["max_tokens"], body["temperature"]
    if engine is None:
        rng = random.Random(f"{seed} {question(body)}" if temperature else question(body))
        drawn = [" ".join(rng.choices(WORDS, k=min(most, 40))) for _ in range(n)]
        end = "length" if most <= 40 else "stop"
        return [(text, end) for text in (drawn if temperature else [drawn[0]] * n)]
    how = Decoding(temperature=temperature, top_p=body["top_p"], max_new_tokens=most)
    draws = Draws(sizes=(1,) * n, seed=int(str(seed or 0)))
    (sample,) = engine.generate([Query(id="q", prompt_id="q", text="")], how, draws)
    by_chunk = {c.chunk: (c.answer, c.finish) for c in sample.completions}
    return [by_chunk[i] for i in range(n)]


def packed(body: Body, drawn: list[tuple[str, str]], **more: Any) -> Answer:
    """Return outputs in the form of the API, with the count of their tokens."""
    kept = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"message": {"content": t}})
    choices = [{"index": i, "finish_reason": e, **kept(t)} for i, (t, e) in enumerate(drawn)]
    usage = {"completion_tokens": sum(len(t.split()) + (e == "stop") for t, e in drawn)}
    return Answer(json.dumps({**NAMED, "choices": choices, "usage": usage, **more}))


def honest(laws: Mapping[str, Law]) -> Rule:
    """Return the rule of an honest server; unknown questions get random words."""

    unseeded, one_at_a_time = count(), threading.Lock()
    engines = {text: FakeEngine({"q": law}) for text, law in laws.items()}

    def rule(body: Body, _: int) -> Answer:
        engine = next((made for text, made in engines.items() if text in question(body)), None)
        with one_at_a_time:  # requests arrive in several threads, and an engine serves one
            return packed(body, texts_of(engine, body, body.get("seed", next(unseeded))))

    return rule


WHO = "who did it"
QUERY = Query(id="q0", prompt_id="q0", text=WHO)
QUICK = Patience(timeout=60, attempts=3, first_wait=0.01, longest_wait=60)


def engine_at(url: str, options: str = "probe=off", prompting: Prompting | None = None) -> Any:
    return ServedEngine(f"{url}#m?{options}", prompting, patience=QUICK)


def draw(engine: ServedEngine, n: int, decoding: Decoding) -> Sample:
    (sample,) = engine.generate([QUERY], decoding, Draws(sizes=(n,)))
    return sample


def queries_of(served: Served) -> list[Body]:
    """The requests that ask the question."""
    return [body for body in served.queried if WHO in question(body)]


def described(takes: Collection[str]) -> dict[str, object]:
    """Return a description of a chat like FastAPI's: schemas refer to other schemas."""
    schemas = {
        "Chat": {"properties": {name: {} for name in takes}, "anyOf": []},
        "Reply": {"properties": {"choices": {}}},
    }
    body = {"schema": {"$ref": "#/components/schemas/Chat"}}
    wanted = {"requestBody": {"content": {"application/json": body}}}
    return {
        "/openapi.json": {
            "paths": {"/v1/chat/completions": {"post": wanted}},
            "components": {"schemas": schemas},
        },
    }
