"""Draw from models behind OpenAI-compatible servers, named `openai:URL#MODEL`.

A server's draws cannot be repeated. Each request has a seed, which is a digest
of (seed, purpose, query, chunk, number of the request). No guarantee assumes
that the server uses this seed. Each draw is requested once. Only a rejected
request (no connection, 429, 503) is repeated, because nothing was drawn for it.
A draw may also not arrive because of an error, a time-out, a broken reply or a
missing choice. Such a draw is lost, because its text may be the reason. A lost
draw is `missing`: it counts as a full leak in upper bounds and as no leak in
lower bounds. Every output that arrives is stored with its finish reason,
including filtered or empty outputs (see the module `replies`).

Outcomes are stored in a journal (see `Keeps`). A request is recorded as lost before it is sent,
until its reply arrives. So a command that was stopped and runs again requests only draws that were
never requested. Requests that were in flight at the stop remain lost. Drawing them again would
favour short replies, because long replies are in flight for longer. A query whose requests are all
refused is a Failure, and there are no statements about it.

Replies of a judge or a rewriter are not counted as draws (argument `replies`;
see the module `endpoint`). Requests to a judge or a rewriter are sent again
until a reply arrives, and only complete replies are kept.

No probabilities are read from a server. The protocol does not define whether
its log-probabilities are before or after temperature and truncation, and omits
the end token, unlike `Completion`. So outputs of servers cannot be explored,
teacher-forced or proved.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeAlias

from leakbound.engines.addresses import key_for, located
from leakbound.engines.prompting import Prompting
from leakbound.errors import IncompleteError, InputError
from leakbound.served.negotiation import Options, RequestFormat, negotiate, require_supported
from leakbound.served.replies import has_thought
from leakbound.served.server import LostError, NoReplyError, Patience, RefusedError, Server
from leakbound.served.trial import require_draws
from leakbound.text.counting import counted_as, is_missing, visible
from leakbound.text.rows import json_object
from leakbound.types import (
    Completion,
    Decoding,
    DrawJournal,
    Draws,
    Failure,
    Json,
    JsonObject,
    Output,
    Query,
    Sample,
    Tell,
    Unkept,
    Usage,
    from_json,
    to_json,
    untold,
)

_PATIENCE = Patience(timeout=600.0, whole=900.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request for some draws of a chunk; `key` is the key of the chunk."""

    query: Query
    chunk: int
    number: int
    choices: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The stored outcome of a request. If it has neither outputs nor losses, nothing was drawn.

    opened: whether an output closes a thought that its prompt opened.
    """

    number: int
    outputs: tuple[Output, ...] = ()
    lost: int = 0
    tokens: int = 0
    opened: bool = False
    prompt_tokens: int = 0


_Outcomes: TypeAlias = dict[tuple[int, int], _Outcome]  # by chunk and number of the request


class ServedEngine:
    """Draw from a model behind a server; see `Generate` and `Keeps` for the contracts.

    Nothing is sent before the first use. At the first use the request fields are negotiated, and
    the server is tested (see the module `trial`), unless the options skip the trial.

    Args:
        location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
        prompting: how questions become prompts (None: `Prompting()`).
        patience: the limits of a request (None: at most 600 s per step, or 120 s if `replies`).
            Options of the location replace its `concurrency` and `longest_wait`.
        replies: whether the model is a judge or a rewriter, which is not tested by a trial (see the
            module docstring).
        schema: the JSON schema of outputs, as text; empty: none.

    Raises:
        InputError: an invalid location, unknown options, or options that contradict the prompting.
    """

    def __init__(
        self,
        location: str,
        prompting: Prompting | None = None,
        *,
        patience: Patience | None = None,
        replies: bool = False,
        schema: str = "",
    ) -> None:
        self.usage = Usage()
        self.tell: Tell = untold
        self.kept: DrawJournal = Unkept()
        self.replies, self.schema = replies, schema
        self.url, named = located(location)
        self.model, _, written = named.partition("?")
        self.name = f"openai:{self.url}#{self.model}"
        options = Options.read(written)
        self.options = replace(options, probe="off", unlisted="on", n=1) if replies else options
        self.prompting = prompting or Prompting()
        self.api = options.endpoint(self.prompting)
        patience = patience or (Patience() if replies else _PATIENCE)
        self._patience = replace(
            patience,
            concurrency=options.concurrency or patience.concurrency,
            longest_wait=options.patience or patience.longest_wait,
        )

    @classmethod
    def open(cls, location: str, prompting: Prompting, **_weights: Any) -> ServedEngine:
        """Make the engine of a model at `URL#MODEL`; nothing is sent yet.

        Args:
            location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
            prompting: how questions become prompts.
            _weights: settings for loading local models; not used.

        Returns:
            The engine.

        Raises:
            InputError: see the class.
        """
        return cls(location, prompting)

    @property
    def fingerprint(self) -> JsonObject:
        """Describe the server, the prompting, and all fields added to a query."""
        form, prompting = self._format, self.prompting
        confirmed = bool(form.info.kind)
        sent = "is sent" if confirmed else "was sent and did not confirm"
        # These facts cannot be checked from outside. Stored runs are compared by these words.
        assumes = [
            "the server always uses the named model",
            f"the server follows the decoding and the neutral settings that it {sent}",
            "the server draws each output independently",
            "the server draws no output for a request that it rejects (429, 503)",
        ]
        if ignored := sorted(self.options.ignored):
            assumes.append(f"the reply fields {', '.join(ignored)} contain no output")
        if self.options.probe == "off":
            assumes.append("the server samples its outputs, which was not tried")
        facts = {"opened by the prompt": form.opened, "closed at their budget": form.closes}
        thoughts: list[Json] = [fact for fact, is_so in facts.items() if is_so]
        return {
            "engine": "openai",
            "url": self.url,
            "model": self.model,
            "says": form.info.facts,
            "answers": dict(form.identity),
            "sent": form.added(1.0),
            "prompting": {
                "template": None if self.api == "chat" else prompting.template,
                "system": prompting.system_for(None) if self.api == "chat" else None,
                "chat": self.api == "chat",
                "compat": prompting.compat,
                **({} if prompting.thinking == "auto" else {"thinking": prompting.thinking}),
            },
            **({"thoughts": thoughts} if thoughts else {}),
            "probe": self.options.probe,
            "repeatable": False,
            "confirmed": confirmed,
            "assumes": [*assumes],
        }

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse queries and decodings that the protocol cannot express; nothing is sent.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.

        Raises:
            InputError: a decoding with settings other than temperature, top-p, stop strings and
                limits on new tokens (for chats, also on tokens of a thought). For a chat, also a
                query that opens the answer for the model.
        """
        require_supported(decoding, thoughts=self.api == "chat")
        for query in queries:
            if query.prefix and self.api == "chat":
                raise InputError(
                    f"query {query.id!r} specifies the beginning of the answer "
                    f"({query.prefix[:40]!r}), but the chat API does not support this. Write the "
                    "plain prompt with --prompt-template."
                )

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure per query.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.
            draws: the draws of each query, and their keys.

        Returns:
            An iterator in the order of the queries, with a Failure for each query whose requests
            the server all refused.

        Raises:
            InputError: see `check`.
            IncompleteError: the server rejected requests, lost many requests in a row, or started
                to serve a different model. Received draws are kept.
            ModelError: a server that cannot be reached, needs a different key or address, accepts
                no request, or fails the trial.
        """
        self.check(queries, decoding)
        limited = decoding.max_thinking_tokens is not None
        if limited and self._format.thinks != "off" and not self._format.closes:
            room = self._format.room(decoding)
            self._note(
                f"the server has one limit for thought and answer together, {room:,} tokens. So a "
                "thought may exceed --max-thinking-tokens, and an answer after a short thought may "
                "exceed --max-new-tokens"
            )
        started = time.perf_counter()
        outcomes: dict[str, _Outcomes] = {query.id: {} for query in queries}
        pending = [
            request
            for query in queries
            for request in self._requests(query, draws, outcomes[query.id])
        ]
        pending.sort(key=lambda request: request.number)  # so a stop loses few draws of a query
        refused = self._send_all(pending, decoding, outcomes) if pending else {}
        opened = any(outcome.opened for own in outcomes.values() for outcome in own.values())
        for query in queries:
            own = outcomes[query.id]
            if why := refused.get(query.id):
                yield Failure(query=query, reason=f"the server does not accept this query: {why}")
            else:
                yield self._sample(query, decoding, _unfinished(own) if opened else own)
        self.usage.seconds += time.perf_counter() - started

    def _requests(self, query: Query, draws: Draws, outcomes: _Outcomes) -> Iterator[_Request]:
        """Yield the requests of a query to be sent; add its stored outcomes to `outcomes`."""
        for chunk, size in draws.chunks(query.id):
            key = json.dumps([draws.seed, draws.purpose, query.id, chunk])
            kept = [from_json(_Outcome, value, "a kept reply") for value in self.kept.get(key)]
            latest = {outcome.number: outcome for outcome in kept}
            outcomes |= {(chunk, number): outcome for number, outcome in latest.items()}
            left = size - sum(len(each.outputs) + each.lost for each in latest.values())
            numbers = count(1 + max(latest, default=-1))
            while left > 0:
                choices = min(self._format.choices, left)
                yield _Request(
                    query=query, chunk=chunk, number=next(numbers), choices=choices, key=key
                )
                left -= choices

    def _send_all(
        self, pending: Sequence[_Request], decoding: Decoding, outcomes: dict[str, _Outcomes]
    ) -> dict[str, RefusedError]:
        """Send requests and add their outcomes; return the refusals of queries without outputs."""
        failed: list[NoReplyError] = []
        refused: dict[_Request, RefusedError] = {}
        with self._server() as server:
            for request, result in server.each(partial(self._send, server, decoding), pending):
                if isinstance(result, RefusedError):
                    refused[request] = result
                elif isinstance(result, NoReplyError):
                    failed.append(result)
                else:
                    outcomes[request.query.id][request.chunk, request.number] = result
                    self.tell(request.choices, result.tokens)
        if failed:
            raise IncompleteError(
                f"{self.name!r} did not reply to {len(failed)} of {len(pending)} requests, for "
                f"example with {failed[0]}. Received draws are kept. Fix the server, then run the "
                "same command again."
            ) from failed[0]
        accepted = {name for name, own in outcomes.items() if any(o.outputs for o in own.values())}
        for request in refused:  # the journal records the request as lost since it was sent
            lost = _Outcome(number=request.number, lost=request.choices)
            outcomes[request.query.id][request.chunk, request.number] = lost
        return {job.query.id: why for job, why in refused.items() if job.query.id not in accepted}

    def _send(
        self, server: Server, decoding: Decoding, request: _Request
    ) -> _Outcome | NoReplyError:
        """Send a request, store and return its outcome; raise NoReplyError if nothing was drawn."""
        form, key = self._format, f"{request.key} {request.number}"
        question = self._question(request.query)
        lost = self._keep(request, lost=request.choices)  # until the reply is there
        try:
            reply = form.send(server, question, decoding, request.choices, key, again=self.replies)
        except RefusedError as error:
            return error
        except NoReplyError as error:
            is_lost = isinstance(error, LostError)
            if not is_lost:
                self._keep(request)
            server.count_loss(self.name, error)
            return lost if is_lost else error
        if reply.identity != form.identity and not self.replies:
            server.abandon()
            raise IncompleteError(
                f"{self.name!r} now identifies itself as {_shown(reply.identity)}, but the run "
                f"began with {_shown(form.identity)}. Its new draws are not kept. Restore the "
                "first model and run the same command again, or use another --out."
            )
        server.count_reply()
        outputs = reply.outputs
        if form.opened:
            outputs = tuple(map(_thought, outputs))
        elif reply.opened:
            self._note(
                "some outputs end a thought that the prompt began, but no output of the trial did. "
                "So a cut output without the end of a thought counts as an unfinished thought"
            )
        if reply.unknown:
            self._note(
                f"replies have unknown fields ({', '.join(reply.unknown)}), which may contain a "
                "part of an output. So outputs with such fields count as missing"
            )
        counted = [counted_as(output, decoding.stop) for output in outputs]
        if "empty" in counted and request.choices > 1:
            self._note(
                "the server reports one token count for several outputs, which does not show why "
                "an output is empty. So empty outputs count as missing. Write ?n=1 after the "
                "model's name to request each output separately"
            )
        return self._keep(
            request,
            outputs=outputs,
            lost=request.choices - len(outputs),
            tokens=reply.tokens or 0,
            opened=reply.opened,
            prompt_tokens=reply.prompt_tokens,
        )

    def _keep(self, request: _Request, **fields: Any) -> _Outcome:
        """Store the outcome of a request; of judges and rewriters, store only complete replies."""

        def is_reply(output: Output) -> bool:
            follows = not self.schema or json_object(output.answer) is not None
            return follows and not is_missing(output, counted_as(output))

        outcome = _Outcome(number=request.number, **fields)
        if not self.replies or (outcome.outputs and all(map(is_reply, outcome.outputs))):
            self.kept.put(request.key, to_json(outcome))
        return outcome

    def _sample(self, query: Query, decoding: Decoding, outcomes: _Outcomes) -> Sample:
        """Return the sample of a query; its completions are in the order of chunks and requests."""
        drawn = Counter(
            (place[0], output) for place in sorted(outcomes) for output in outcomes[place].outputs
        )
        if self.prompting.thinking == "off" and any(has_thought(output) for _, output in drawn):
            self._note(
                "the model wrote thoughts despite --thinking off. The thoughts are evaluated"
            )
        missing = sum(outcome.lost for outcome in outcomes.values())
        if missing:
            self._note(
                "draws that never arrived from the server are missing: they count as full leaks in "
                "upper bounds and as no leaks in lower bounds"
            )
        self.usage.sampled_tokens += sum(outcome.tokens for outcome in outcomes.values())
        self.usage.prompt_tokens += sum(outcome.prompt_tokens for outcome in outcomes.values())
        self.usage.draws += drawn.total()
        return Sample(
            query=query,
            decoding=decoding,
            completions=tuple(
                Completion.of(output, count=number, chunk=chunk)
                for (chunk, output), number in drawn.items()
            ),
            missing=missing,
        )

    def requests(self, sizes: Sequence[int]) -> int:
        """Return the number of requests for chunks of these sizes; see `Requests`."""
        return sum(-(-size // self._format.choices) for size in sizes)

    def _report_wait(self, text: str) -> None:
        """Report a wait that the server requests, immediately and as a note on the result."""
        self.tell(0, 0, note=text)
        self._note(
            "the server rejected some requests, so they were sent again after its Retry-After time"
        )

    def _note(self, note: str) -> None:
        if note not in self.usage.notes:
            self.usage.notes.append(note)

    def _question(self, query: Query) -> Json:
        """Return the messages of a chat, or the plain prompt."""
        if self.api == "completions":
            return self.prompting.text(query)
        return [{**turn} for turn in self.prompting.conversation(query)]

    def _server(self) -> Server:
        """Return a client of the server, with its key."""
        return Server(self.url, key_for(self.url), self._patience, self._report_wait)

    @cached_property
    def _format(self) -> RequestFormat:
        """Return the negotiated requests; raise ModelError if the server fails the trial."""
        thinking = self.prompting.thinking
        plain = RequestFormat(
            model=self.model,
            chat=self.api == "chat",
            ignored=self.options.ignored,
            strict=not self.replies,
        )
        try:
            with self._server() as server:
                form = negotiate(server, plain, self.options, thinking, self.schema)
                if self.options.probe == "on":
                    form = require_draws(server, form, self.name)
        except NoReplyError as error:
            raise IncompleteError(
                f"the trial of {self.name!r} failed: {error}. Fix the server, then run the same "
                "command again."
            ) from error
        failed = {"on": form.thinks == "no", "off": form.thinks != "off"}
        if failed.get(thinking):
            self._note(
                f"no request field that the server accepts turned thinking {thinking} in a trial "
                f"(sent: {_shown(form.extra)}). All thoughts are evaluated"
            )
        return form


def _thought(output: Output) -> Output:
    """Convert an output whose prompt opened a thought; an unclosed thought is the whole text."""
    if output.refused or output.thought is not None or not visible(output.answer):
        return output
    return replace(output, thought=output.answer.strip(), answer="")


def _unfinished(outcomes: _Outcomes) -> _Outcomes:
    """Convert cut outputs to unfinished thoughts, because the prompt opens a thought."""

    def read(output: Output) -> Output:
        return _thought(output) if output.finish == "length" else output

    return {
        place: replace(outcome, outputs=tuple(map(read, outcome.outputs)))
        for place, outcome in outcomes.items()
    }


def _shown(fields: Mapping[str, Json]) -> str:
    return json.dumps(fields, ensure_ascii=False)
