"""Models behind OpenAI-compatible servers, named `openai:URL#MODEL`, as engines.

A server's draws cannot be made again: a seed is sent with every request, a digest of (seed,
purpose, query, chunk, number of the request), and nothing rests on its being heeded. So a draw is
asked for once. Only a request that was turned away (no connection, 429, 503) is repeated, as
nothing was drawn for it. A draw that is lost once it may have been made (an error, a time-out, a
broken answer, one of n that did not come) stays lost: it is `missing`, and counts as a full leak
in upper bounds and as none in lower ones, since its text may be the reason. Every output that came
is kept, also a filtered or empty one, with the way it ended (see `answers`). What
came is kept (see `Keeps`), and a request is kept as lost before it is sent, until it comes: so a
command that was stopped requests only the rest, and what was under way is lost, since long or
hanging answers are under way more often than others. A query all of whose requests are refused is a
Failure: nothing is claimed of it.

The replies of a judge or a rewriter are no draws that are counted (`replies`, see `endpoint`). A
request for one is sent again until it comes, and only whole replies are kept.

No probabilities are taken from a server. The protocol does not say under which distribution its
log-probabilities are, before or after temperature and truncation, and leaves the end token out:
`Completion` promises otherwise. So nothing is explored, forced or proved.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

from leakbound.engines.addresses import key_for, located
from leakbound.engines.answers import has_thought
from leakbound.engines.manner import Manner, Options, require_offered, settle, with_schema
from leakbound.engines.prompting import Prompting
from leakbound.engines.server import LostError, NoReplyError, Patience, RefusedError, Server
from leakbound.engines.trial import require_draws
from leakbound.errors import IncompleteError, InputError
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
    """Some draws of a chunk: `choices` of them, under a key and a number of their own."""

    query: Query
    key: str
    number: int
    choices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Came:
    """A request's outcome, as it is kept; with neither outputs nor losses, it was not taken.

    opened: whether an output closes a thought that its prompt opened.
    """

    number: int
    outputs: tuple[Output, ...] = ()
    lost: int = 0
    tokens: int = 0
    opened: bool = False
    prompt_tokens: int = 0


class ServedEngine:
    """Draws from a model behind a server; see `Generate` and `Keeps` for the contracts.

    Nothing is sent before the first use. Then the server states its kind, the fields are
    negotiated, and unless that is left out the server is tried (see `trial`).

    Args:
        location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
        prompting: how questions become prompts (None: `Prompting()`).
        patience: how long an answer is tried for (None: 600 s, of a reply 120 s). The number of
            simultaneous requests, and how long a busy server is waited for, are options of the
            location too.
        replies: whether it is a judge or a rewriter, which is not tried: see the module.
        schema: the JSON schema that outputs shall follow, as text; empty: none.

    Raises:
        InputError: an invalid location, unknown options, and those that contradict
            the prompting.
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
        options = Options.read(written)
        self.options = replace(options, probe="off", unlisted="on") if replies else options
        self.prompting = prompting or Prompting()
        self.api = options.way(self.prompting)
        patience = patience or (Patience() if replies else _PATIENCE)
        self._patience = replace(
            patience,
            concurrency=options.concurrency or patience.concurrency,
            longest_wait=options.patience or patience.longest_wait,
        )

    @classmethod
    def open(cls, location: str, prompting: Prompting, **_weights: Any) -> ServedEngine:
        """The model at `URL#MODEL`; nothing is sent yet.

        Args:
            location: `URL#MODEL`, or with options `URL#MODEL?name=value&…`.
            prompting: how questions become prompts.
            _weights: how weights are loaded, which plays no part.

        Returns:
            The engine.

        Raises:
            InputError: as of the class.
        """
        return cls(location, prompting)

    @property
    def name(self) -> str:
        return f"openai:{self.url}#{self.model}"

    @property
    def hides_thoughts(self) -> bool:
        """True if an output of its trial had a hidden thought."""
        return self._manner.thinks == "hidden"

    @property
    def fingerprint(self) -> JsonObject:
        """Where the model is, what its server states, and all fields added to a query."""
        manner, prompting = self._manner, self.prompting
        heeds = "heeds the decoding and the neutral settings that it"
        confirmed = bool(manner.statement.kind)
        assumes = [  # none of it can be checked from here
            "the model stays the one that its server names",
            f"the server {heeds} is sent"
            if confirmed
            else f"the server {heeds} was sent, not confirmed",
            "it draws each output by itself",
            "what it turns away (429, 503) it has not drawn",
        ]
        if ignored := sorted(self.options.ignored):
            assumes.append(f"the fields {', '.join(ignored)} of its replies hold no output")
        if self.options.probe == "off":
            assumes.append("it draws: it was not tried")
        facts = {"opened by the prompt": manner.opened, "closed at their budget": manner.closes}
        thoughts: list[Json] = [fact for fact, is_so in facts.items() if is_so]
        return {
            "engine": "openai",
            "url": self.url,
            "model": self.model,
            "says": manner.statement.says,
            "answers": dict(manner.stated),
            "sent": {**manner.statement.sampling(1.0), **manner.switch},
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
        """Refuse what the protocol cannot say: nothing is sent.

        Args:
            queries: those to be drawn.
            decoding: the distribution to draw from.

        Raises:
            InputError: a decoding beyond temperature, top-p, stop strings and the number of new
                tokens (of a chat, also of a thought), or a query of a chat that opens the answer
                for the model.
        """
        require_offered(decoding, thoughts=self.api == "chat")
        if self.api == "completions":
            return
        for query in queries:
            if query.prefix:
                raise InputError(
                    f"query {query.id!r} opens the answer for the model ({query.prefix[:40]!r}), "
                    "which chat completions cannot say. Write the plain prompt with "
                    "--prompt-template."
                )

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query.

        Args:
            queries: those to be drawn.
            decoding: the distribution to draw from.
            draws: which draws of each query, and what keys them.

        Returns:
            An iterator, in the order of the queries; a Failure for a query all of whose requests
            the server refused.

        Raises:
            InputError: what `check` refuses.
            IncompleteError: the server left requests without an answer that nothing was drawn for,
                lost many in a row, or answers as another model. What came is kept.
            ModelError: a server that cannot be reached, wants another key or address, takes no
                request, or does not draw, as the trial shows.
        """
        self.check(queries, decoding)
        budget = decoding.max_thinking_tokens
        if budget is not None and self._manner.thinks != "off" and not self._manner.closes:
            room = self._manner.room(decoding)
            self._note(
                f"the server has one limit for thought and answer, {room:,} tokens: a "
                "thought may be longer than --max-thinking-tokens, and an answer after a short one "
                "longer than --max-new-tokens"
            )
        started = time.perf_counter()
        came: dict[str, dict[int, _Came]] = {}
        waiting = [request for query in queries for request in self._requests(query, draws, came)]
        waiting.sort(key=lambda request: request.number)  # a stop loses a few draws of many queries
        refused = self._ask_all(waiting, decoding, came) if waiting else {}
        if any(part.opened for parts in came.values() for part in parts.values()):
            came = {key: _unfinished(parts) for key, parts in came.items()}
        for query in queries:
            yield self._result(query, decoding, draws, came, refused.get(query.id))
        self.usage.seconds += time.perf_counter() - started

    def _requests(
        self, query: Query, draws: Draws, came: dict[str, dict[int, _Came]]
    ) -> Iterator[_Request]:
        """The requests still to be made for a query; what came before goes into `came`."""
        for chunk, size in draws.chunks(query.id):
            key = _key(query, draws, chunk)
            kept = [from_json(_Came, value, "a kept answer") for value in self.kept.get(key)]
            came[key] = {record.number: record for record in kept}  # the last one of each
            left = size - sum(len(record.outputs) + record.lost for record in came[key].values())
            numbers = count(1 + max(came[key], default=-1))
            while left > 0:
                choices = min(self._manner.choices, left)
                yield _Request(query=query, key=key, number=next(numbers), choices=choices)
                left -= choices

    def _ask_all(
        self, waiting: Sequence[_Request], decoding: Decoding, came: dict[str, dict[int, _Came]]
    ) -> dict[str, RefusedError]:
        """Ask; what comes goes into `came`. Why queries were refused altogether, by their ids."""
        failed: list[NoReplyError] = []
        refused: dict[_Request, RefusedError] = {}

        def take(request: _Request, result: _Came | NoReplyError) -> None:
            if isinstance(result, RefusedError):
                refused[request] = result
            elif isinstance(result, NoReplyError):
                failed.append(result)
            else:
                came[request.key][request.number] = result
                self.tell(request.choices, result.tokens)

        with self._server() as server:
            server.each(partial(self._ask, server, decoding), waiting, take, stop=server.cut)
        if failed:
            raise IncompleteError(
                f"{self.name!r} left {len(failed)} of {len(waiting)} requests without a reply, one "
                f"with {failed[0]}. What came is kept: see to the server, then run the same "
                "command again."
            ) from failed[0]
        answered = {
            job.query.id for job in refused if any(got.outputs for got in came[job.key].values())
        }
        for request in refused:
            if request.query.id in answered:  # the query was not refused: these draws are lost
                came[request.key][request.number] = self._keep(request, lost=request.choices)
            else:
                self._keep(request)
        return {job.query.id: why for job, why in refused.items() if job.query.id not in answered}

    def _ask(self, server: Server, decoding: Decoding, request: _Request) -> _Came | NoReplyError:
        """The outcome of a request, kept; a NoReplyError where nothing was drawn for it."""
        manner, key = self._manner, f"{request.key} {request.number}"
        put = (self._question(request.query), decoding, request.choices, key)
        lost = self._keep(request, lost=request.choices)  # until it comes
        try:
            answer = manner.ask(server, *put, again=self.replies or decoding.greedy)
        except RefusedError as error:
            return error
        except NoReplyError as error:
            is_lost = isinstance(error, LostError) and not self.replies
            if not is_lost:
                self._keep(request)
            server.lose(self.name, error)
            return lost if is_lost else error
        if answer.stated != (begun := manner.stated) and not self.replies:
            server.abandon()
            raise IncompleteError(
                f"{self.name!r} now answers as {_named(answer.stated)}, and was begun as "
                f"{_named(begun)}: nothing of the new one is kept. Restore the model and run the "
                "same command again, or name another --out."
            )
        server.heard()
        outputs = answer.outputs
        if manner.opened:
            outputs = tuple(map(_thought, outputs))
        elif answer.opened:
            self._note(
                "outputs close a thought that their prompt opened, as the greeting did not show: "
                "outputs beside them that were cut and close none are read as unfinished thoughts"
            )
        if answer.unknown:
            self._note(
                f"replies have unknown fields ({', '.join(answer.unknown)}), which may hold a part "
                "of an output: outputs with them are missing"
            )
        counted = [counted_as(output, decoding.stop) for output in outputs]
        if "empty" in counted and request.choices > 1:
            self._note(
                "a request for several outputs has one count of tokens, which does not explain its "
                "empty outputs, so these are missing: write ?n=1 behind the model's name to have "
                "each output counted"
            )
        return self._keep(
            request,
            outputs=outputs,
            lost=request.choices - len(outputs),
            tokens=answer.tokens or 0,
            opened=answer.opened,
            prompt_tokens=answer.prompt_tokens,
        )

    def _keep(self, request: _Request, **outcome: Any) -> _Came:
        """Keep the outcome of a request in place of what was kept of it; of replies, whole ones."""
        came = _Came(number=request.number, **outcome)
        if not self.replies or (came.outputs and all(map(self._is_reply, came.outputs))):
            self.kept.put(request.key, to_json(came))
        return came

    def _is_reply(self, output: Output) -> bool:
        """Whether an output has an answer, which follows the schema."""
        follows = not self.schema or json_object(output.answer) is not None
        return follows and not is_missing(output, counted_as(output))

    def _result(
        self,
        query: Query,
        decoding: Decoding,
        draws: Draws,
        came: dict[str, dict[int, _Came]],
        refused: RefusedError | None,
    ) -> Sample | Failure:
        """The sample of a query, chunk by chunk in the order of its requests."""
        if refused is not None:
            return Failure(query=query, reason=f"its server does not take it: {refused}")
        completions: list[Completion] = []
        missing = 0
        for chunk, _ in draws.chunks(query.id):
            mine = [part for _, part in sorted(came[_key(query, draws, chunk)].items())]
            drawn = Counter(output for part in mine for output in part.outputs)
            completions += [
                Completion.of(output, count=number, chunk=chunk) for output, number in drawn.items()
            ]
            missing += sum(part.lost for part in mine)
            if self.prompting.thinking == "off" and any(map(has_thought, drawn)):
                self._note(
                    "the model thought although --thinking off was requested: its thoughts are "
                    "read and counted"
                )
            self.usage.sampled_tokens += sum(part.tokens for part in mine)
            self.usage.prompt_tokens += sum(part.prompt_tokens for part in mine)
        if missing:
            self._note(
                "draws that never arrived from the server are missing: they count as full leaks in "
                "upper bounds and as none in lower bounds"
            )
        self.usage.draws += sum(completion.count for completion in completions)
        return Sample(
            query=query, decoding=decoding, completions=tuple(completions), missing=missing
        )

    def requests(self, sizes: Sequence[int]) -> int:
        """Return the number of requests for chunks of these sizes; see `Requests`."""
        return sum(-(-size // self._manner.choices) for size in sizes)

    def _waits(self, text: str) -> None:
        """Report a wait that the server states, immediately and in the run."""
        self.tell(0, 0, note=text)
        self._note("the server rejected requests; they were sent again when its Retry-After stated")

    def _note(self, note: str) -> None:
        if note not in self.usage.notes:
            self.usage.notes.append(note)

    def _question(self, query: Query) -> Json:
        """The messages of a chat, or the plain prompt."""
        if self.api == "completions":
            return self.prompting.text(query)
        return [{**turn} for turn in self.prompting.conversation(query)]

    def _server(self) -> Server:
        """A connection to the server, with its key."""
        server = Server(self.url, key_for(self.url), self._patience)
        server.waits = self._waits
        return server

    @cached_property
    def _manner(self) -> Manner:
        """The negotiated requests; ModelError if a trial shows that the server does not draw."""
        try:
            with self._server() as server:
                chat, thinking = self.api == "chat", self.prompting.thinking
                plain = Manner(
                    model=self.model,
                    chat=chat,
                    ignored=self.options.ignored,
                    strict=not self.replies,
                )
                manner = settle(server, plain, self.options, thinking)
                if self.schema:
                    manner = with_schema(server, manner, self.schema)
                if self.options.probe == "on":
                    manner = require_draws(server, manner, self.name)
        except NoReplyError as error:
            raise IncompleteError(
                f"{self.name!r} could not be tried: {error}. See to the server, then run the same "
                "command again."
            ) from error
        failed = {"on": manner.thinks == "no", "off": manner.thinks != "off"}
        if failed.get(thinking):
            self._note(
                f"no field that the server takes turned thoughts {thinking} for a greeting (sent: "
                f"{_named(manner.switch)}): all thoughts are read and counted"
            )
        return manner


def _thought(output: Output) -> Output:
    """An output whose prompt opened a thought: one that closes none has no answer."""
    if output.refused or output.thought is not None or not visible(output.answer):
        return output
    return replace(output, thought=output.answer.strip(), answer="")


def _unfinished(parts: Mapping[int, _Came]) -> dict[int, _Came]:
    """Outputs next to one whose prompt opened a thought: if one was cut, its thought was too."""

    def read(output: Output) -> Output:
        return _thought(output) if output.finish == "length" else output

    return {
        number: replace(part, outputs=tuple(map(read, part.outputs)))
        for number, part in parts.items()
    }


def _key(query: Query, draws: Draws, chunk: int) -> str:
    """The key of a chunk's draws."""
    return json.dumps([draws.seed, draws.purpose, query.id, chunk])


def _named(stated: Mapping[str, Json]) -> str:
    return json.dumps(stated, ensure_ascii=False)
