"""The request fields of a server: negotiated at the start, from its statements and refusals.

Servers have defaults of their own: llama.cpp keeps 40 tokens and cuts by min-p, and so does
llama-cpp-python, which punishes repetition too; vLLM and transformers take those of the model's
folder. If a server states its kind, each of these is sent to it at its neutral value, which its
documentation says that it obeys. Any other is sent every such setting under the names that the
common servers have for it, or those that its `/openapi.json` names; whether it obeys is not known.

Servers also differ in the field that turns thoughts on or off. Each that is documented is tried
with a greeting, and the first is used that the server takes and that has the effect.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal
from urllib.parse import parse_qsl

from leakbound.engines.answers import Answer, OutputRequest, read_answer
from leakbound.engines.prompting import Prompting
from leakbound.engines.server import RefusedError, Server
from leakbound.errors import InputError, ModelError
from leakbound.registry import suggestion
from leakbound.text.counting import visible
from leakbound.types import Decoding, Json, JsonObject, Thinking, from_json

_PENALTIES: JsonObject = {"presence_penalty": 0, "frequency_penalty": 0}
_NEUTRAL: Mapping[str, JsonObject] = {
    # The order is ours: the temperature first, then the smallest set of tokens that holds top-p.
    "llama.cpp": {
        **_PENALTIES, "samplers": ["temperature", "top_p"], "top_k": 0, "min_p": 0, "typical_p": 1,
        "top_n_sigma": -1, "xtc_probability": 0, "repeat_penalty": 1, "dry_multiplier": 0,
        "dynatemp_range": 0, "mirostat": 0, "ignore_eos": False, "reasoning_format": "none",
    },
    "vLLM": {
        **_PENALTIES, "top_k": -1, "min_p": 0, "repetition_penalty": 1, "min_tokens": 0,
        "ignore_eos": False,
    },
    "transformers": {"frequency_penalty": 0},
}  # fmt: skip
# As llama.cpp, llama-cpp-python, vLLM, SGLang, Ollama and TGI call them.
_EVERY: JsonObject = {
    **_PENALTIES, "min_p": 0, "typical_p": 1, "tfs_z": 1, "top_n_sigma": -1, "xtc_probability": 0,
    "repetition_penalty": 1, "repeat_penalty": 1, "dry_multiplier": 0, "dynatemp_range": 0,
    "mirostat": 0, "mirostat_mode": 0, "min_tokens": 0, "ignore_eos": False,
}  # fmt: skip
_ALL_TOKENS = (-1, 0)  # top-k of a server that keeps all: not every one takes either
_SAMPLES: JsonObject = {
    "do_sample": True, "top_k": 0, "min_p": None, "typical_p": 1.0, "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
}  # fmt: skip
_OF_A_MODEL = ("id", "root", "parent", "owned_by", "max_model_len", "meta")
_OF_LLAMA = ("build_info", "model_path", "model_alias", "model_ftype", "bos_token", "eos_token")
_CHATS = "/v1/chat/completions"
_WIDE = 53  # bits of a seed: what a float64 holds
_NARROW = 31

Api = Literal["chat", "completions"]
Thinks = Literal["off", "no", "visibly", "hidden"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A server's statement of its kind.

    kind: `llama.cpp`, `vLLM` or `transformers`; empty where it does not say.
    says: the parts that distinguish models and builds.
    takes: the fields of a request, as its description names them; None: it has none.
    neutral: the fields added to every request.
    """

    kind: str
    says: JsonObject
    takes: frozenset[str] | None = None
    neutral: JsonObject = field(default_factory=lambda: _PENALTIES)

    @classmethod
    def of(cls, kind: str, says: JsonObject) -> Statement:
        """The statement of a kind of server that is known."""
        return cls(kind, says, neutral=_NEUTRAL[kind])

    def ways(self) -> Iterator[Statement]:
        """Yield the ways to request no truncation, the surest one first."""
        if self.kind:
            yield self
            return
        for top_k in _ALL_TOKENS:
            every = {**_EVERY, "top_k": top_k}
            if self.takes is not None:
                every = {k: v for k, v in every.items() if k in self.takes or k in _PENALTIES}
            yield replace(self, neutral=every)
        yield self

    def sampling(self, temperature: float) -> JsonObject:
        """Return the fields added to a request at this temperature."""
        if self.kind != "transformers" or not temperature:
            return self.neutral
        return {**self.neutral, "generation_config": json.dumps(_SAMPLES, sort_keys=True)}


def statement_of(server: Server, model: str) -> Statement:
    """The server's statement of itself and of this model, as far as it says anything."""
    root = server.url.removesuffix("/v1")
    listed = _entry(server.get(f"{server.url}/models"), model)
    props, version = _object(server.get(f"{root}/props")), _object(server.get(f"{root}/version"))
    says: dict[str, Json] = {"model": listed} if listed else {}
    if "build_info" in props or "default_generation_settings" in props:
        template, settings = props.get("chat_template"), props.get("default_generation_settings")
        facts: dict[str, Json] = {name: props[name] for name in _OF_LLAMA if name in props}
        facts["n_ctx"] = _object(settings).get("n_ctx")
        facts["chat_template"] = hashlib.sha256(json.dumps(template).encode()).hexdigest()
        return Statement.of("llama.cpp", {**says, "server": facts})
    if isinstance(version.get("version"), str):
        says["version"] = version["version"]
    described = _object(server.get(f"{root}/openapi.json"))
    if listed.get("owned_by") == "vllm":
        return replace(Statement.of("vLLM", says), takes=_fields(described))
    paths = _object(described.get("paths"))
    if {"/load_model", "/v1/responses"} <= paths.keys():
        return Statement.of("transformers", says)
    return Statement("", says, takes=_fields(described) if paths else None)


def _fields(described: JsonObject) -> frozenset[str] | None:
    """The fields of a request for a chat, by the description of an API; None if it has none.

    As OpenAPI has it: the schema of the body, or those that it refers to.
    """
    schemas = _object(_object(described.get("components")).get("schemas"))
    fields: set[str] = set()
    text = json.dumps(_object(_object(described.get("paths")).get(_CHATS)).get("post"))
    for name in re.findall(r"#/components/schemas/([\w.-]+)", text):
        fields |= _object(_object(schemas.get(name)).get("properties")).keys()
    return frozenset(fields) if "messages" in fields else None


def _models(listing: Json) -> list[JsonObject]:
    """The entries of a list of models."""
    listed = _object(listing).get("data")
    return [_object(entry) for entry in listed] if isinstance(listed, list) else []


def _entry(listing: Json, model: str) -> JsonObject:
    """The entry of this model in a list of models, or that of the only one that there is."""
    models = _models(listing)
    named = [entry for entry in models if entry.get("id") == model] or models
    entry = named[0] if len(named) == 1 else {}
    return {name: entry[name] for name in _OF_A_MODEL if entry.get(name) is not None}


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


LENGTHS = ("max_tokens", "max_completion_tokens")  # not every server takes the same word
_MOST = 16  # outputs per request: one loss is a loss of all
_STOPS = 4  # strings that a request may name; all are cut at, whether it names them or not
_GREETING, _SHORTEST = "Say a word.", Decoding(max_new_tokens=1)
_LOOKS = (Decoding(temperature=0, max_new_tokens=512), Decoding(max_new_tokens=512))
# As vLLM, SGLang and llama.cpp document them (their templates differ in the name), and as OpenAI,
# Ollama and llama.cpp do.
_SWITCHES: Mapping[Thinking, Sequence[JsonObject]] = {
    "auto": (),
    "on": (
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"chat_template_kwargs": {"thinking": True}},
        {"reasoning_effort": "medium"},
    ),
    "off": (
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"chat_template_kwargs": {"thinking": False}},
        {"reasoning_effort": "none"},
        {"reasoning_effort": "low"},
    ),
}
_COUNTS = ("n", "concurrency", "patience")  # of the options
_BUDGET = "thinking_token_budget"  # vLLM's: it closes a thought that reaches its budget


@dataclass(frozen=True, slots=True)
class Options:
    """The options behind the `?` of `openai:URL#MODEL?name=value&…`.

    api: `chat` or `completions`; empty: by the prompting.
    probe: `off` leaves the trial of the server out.
    n: outputs a request, at most.
    concurrency: requests at once; None: 8.
    ignore: fields of replies that hold no part of an output, with commas between them.
    unlisted: `on` accepts a model that the server does not list.
    patience: seconds without an answer in which a busy server is waited for; None: 600.
    """

    api: Literal["", "chat", "completions"] = ""
    probe: Literal["on", "off"] = "on"
    n: int = _MOST
    concurrency: int | None = None
    ignore: str = ""
    unlisted: Literal["on", "off"] = "off"
    patience: int | None = None

    @property
    def ignored(self) -> frozenset[str]:
        """The names in `ignore`."""
        return frozenset(filter(None, self.ignore.split(",")))

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"`{name}` of a server must be at least 1, got {value}.")

    @classmethod
    def read(cls, text: str) -> Options:
        """The options in a query string; InputError for one that there is not."""
        options: dict[str, Json] = dict(parse_qsl(text, keep_blank_values=True))
        for name in _COUNTS:
            if str(options.get(name, "")).isdecimal():
                options[name] = int(str(options[name]))
        return from_json(cls, options, "what stands behind ? of openai:URL#MODEL?")

    def way(self, prompting: Prompting) -> Api:
        """Which of the two ways of asking; InputError where prompting and options contradict."""
        plain = prompting.chat is False
        api: Api = self.api or ("completions" if plain else "chat")
        if api == "completions" and prompting.thinking != "auto":
            raise InputError(
                f"--thinking {prompting.thinking} is a setting of chats, and this sends plain "
                "prompts. Leave it out."
            )
        if api == "chat" and plain:
            raise InputError(
                "a plain prompt (--prompt-template) is no message of a chat. Leave it out, or "
                "write ?api=completions behind the model's name."
            )
        if api == "completions" and prompting.chat:
            raise InputError(
                "this asks chat models, and ?api=completions asks for a text to go on with. Leave "
                "it out, or write the plain prompt with --prompt-template."
            )
        if api == "chat" and prompting.compat is not None:
            raise InputError(
                f"prompts as {prompting.compat} makes them cannot be said in messages. Write the "
                "plain prompt with --prompt-template."
            )
        return api


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The way to request outputs of one model of a server.

    model: its name there.
    chat: True for messages, False for a text to complete.
    statement: what the server says it is.
    stated: what its answers say gave them.
    length: its word for the most tokens of an output.
    choices: outputs that a request may ask for.
    ignored: fields of replies that hold no part of an output, as the user states.
    switch: the fields that turn thoughts on or off, and those of a schema.
    thinks: whether its greeting had a thought, "hidden" also if one of the trial was; "off": it has
        none, as it is told.
    opened: whether the prompt opens that thought, so that its opening tag is in no output.
    closes: whether the server closes a thought that reaches its budget.
    strict: whether outputs are counted, see `OutputRequest`.
    """

    model: str
    chat: bool
    statement: Statement = field(default_factory=lambda: Statement("", {}))
    stated: Mapping[str, str | None] = field(default_factory=dict)
    length: str = LENGTHS[0]
    choices: int = 1
    ignored: frozenset[str] = frozenset()
    switch: JsonObject = field(default_factory=dict)
    thinks: Thinks = "no"
    opened: bool = False
    closes: bool = False
    strict: bool = True

    @property
    def path(self) -> str:
        """The path of requests, below the server's URL."""
        return "chat/completions" if self.chat else "completions"

    def ask(
        self,
        server: Server,
        question: Json,
        decoding: Decoding,
        choices: int,
        key: str,
        *,
        again: bool = True,
    ) -> Answer:
        """The answer to a request for so many outputs, as `Server.post` has it."""
        request = OutputRequest(
            choices=choices,
            chat=self.chat,
            most=self.room(decoding),
            stop=decoding.stop,
            ignored=self.ignored,
            strict=self.strict,
        )
        body = self.body(question, decoding, choices, key)
        return server.post(self.path, body, partial(read_answer, request=request), again=again)

    def body(self, question: Json, decoding: Decoding, choices: int, key: str) -> JsonObject:
        """A request with nothing left to the server's defaults; its seed is a digest of `key`."""
        body: dict[str, Json] = {
            "model": self.model,
            "messages" if self.chat else "prompt": question,
            "n": choices,
            "stream": False,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            self.length: self.room(decoding),
            **self.statement.sampling(decoding.temperature),
            **self.switch,
        }
        if self.closes and decoding.max_thinking_tokens is not None:
            body[_BUDGET] = decoding.max_thinking_tokens
        if not decoding.greedy:
            digest = hashlib.sha256(key.encode()).digest()
            bits = _WIDE if self.statement.kind in ("vLLM", "transformers") else _NARROW
            body["seed"] = int.from_bytes(digest[:8]) >> (64 - bits)
        if decoding.stop:
            body["stop"] = list(decoding.stop[:_STOPS])
        return body

    def room(self, decoding: Decoding) -> int:
        """The most tokens of thought and answer together: a server has one limit for both."""
        return decoding.max_new_tokens if self.thinks == "off" else decoding.longest

    def question(self, text: str) -> Json:
        """A text in the form that this server takes."""
        return [{"role": "user", "content": text}] if self.chat else text


def settle(server: Server, plain: Manner, options: Options, thinking: Thinking) -> Manner:
    """Negotiate with a server: the most outputs per request, at most `options.n`.

    `plain` has what is known in advance. If the count of tokens does not cover all outputs of a
    request, each request is for one: else nothing would show that some were cut. Raises ModelError
    for a server that takes no request, and unless `options.unlisted` for a model that the server
    does not list.
    """
    model = plain.model
    statement = statement_of(server, model)
    lists_all = statement.kind != "transformers"  # which lists the hub's cache only
    if options.unlisted == "off" and lists_all:
        names = [entry.get("id") for entry in _models(server.get(f"{server.url}/models"))]
        if names and model not in names:
            raise ModelError(
                f"`{server.url}` lists no model {model!r}. {suggestion(model, names)} Name a "
                "listed model, or add --unlisted if the server knows this one."
            )
    why: RefusedError | None = None
    for way in _attempts(replace(plain, statement=statement), 1 if not plain.strict else options.n):
        try:
            key = json.dumps(["settling", way.choices])
            answer = way.ask(server, way.question(_GREETING), _SHORTEST, way.choices, key)
        except RefusedError as error:
            why = error
            continue
        count = len(answer.outputs)
        require_known(answer, f"openai:{server.url}#{model}")
        covered = answer.tokens is None or answer.tokens >= count
        if way.choices == 1 or (covered and count == way.choices):
            way = replace(way, stated=answer.stated)
            return _with_thinking(server, way, thinking) if plain.chat else way
    raise ModelError(
        f"`{server.url}` does not take a request for {plain.path} of {model!r}: {why}. Check the "
        "model's name; for a model without a chat template write ?api=completions behind it."
    ) from why


def _with_thinking(server: Server, manner: Manner, thinking: Thinking) -> Manner:
    """The manner with a switch for thoughts: the first that has the effect, else the last taken."""
    seen: list[Manner] = []
    for switch in (*_SWITCHES[thinking], {}):
        if switch or not seen:
            seen += _looked(server, replace(manner, switch=switch), _LOOKS)
        if seen and (seen[-1].thinks != "no") is (thinking == "on"):
            break
    last = seen[-1] if seen else manner
    if thinking == "off" and last.thinks == "no":
        return replace(last, thinks="off")
    if _BUDGET not in (last.statement.takes or ()):
        return last
    budget = replace(_LOOKS[0], max_thinking_tokens=1)
    return replace(last, closes=bool(_looked(server, replace(last, closes=True), [budget])))


def with_schema(server: Server, manner: Manner, schema: str) -> Manner:
    """The manner with a request for JSON that follows a schema, if the server takes it."""
    wanted: Json = {"name": "reply", "strict": True, "schema": json.loads(schema)}
    fields: JsonObject = {"response_format": {"type": "json_schema", "json_schema": wanted}}
    structured = replace(manner, switch={**manner.switch, **fields})
    return structured if _looked(server, structured, _LOOKS) else manner


def _looked(server: Server, manner: Manner, looks: Sequence[Decoding]) -> list[Manner]:
    """The manner with what its greeting shows of its thoughts; empty where no look is taken."""
    for decoding in looks:
        try:
            key = json.dumps(["thinking", decoding.temperature])
            answer = manner.ask(server, manner.question(_GREETING), decoding, 1, key)
        except RefusedError:
            continue
        require_known(answer, f"openai:{server.url}#{manner.model}")
        output = answer.outputs[0]
        shown: Thinks = "visibly" if visible(output.thought) else "no"
        thinks: Thinks = "hidden" if output.hidden else shown
        return [replace(manner, thinks=thinks, opened=answer.opened)]
    return []


def _attempts(manner: Manner, most: int) -> Iterator[Manner]:
    """Ways to ask, those with most outputs a request first."""
    for statement in manner.statement.ways():
        base = replace(manner, statement=statement)
        choices = most
        while choices > 1:
            yield replace(base, choices=choices)
            choices //= 2
        for length in LENGTHS:
            yield replace(base, length=length)


def require_known(answer: Answer, name: str) -> None:
    """Raise ModelError for an answer of the model `name` with a field that is not known."""
    if answer.unknown:
        fields = ", ".join(f"`{field}`" for field in answer.unknown)
        raise ModelError(
            f"replies of {name!r} have unknown fields: {fields}. They may hold a part of an output "
            "or report a filter. Turn them off in the server. If they never do, write "
            f"?ignore={','.join(answer.unknown)} behind the model's name."
        )


def require_offered(decoding: Decoding, *, thoughts: bool) -> None:
    """Raise InputError for a decoding that the protocol cannot say; `thoughts`: have a limit."""
    budget = ("max_thinking_tokens",) if thoughts else ()
    others = decoding.beyond(
        "temperature", "top_p", "max_new_tokens", "max_tokens", "stop", "filter", *budget
    )
    if others:
        raise InputError(
            f"a chat endpoint draws by temperature and top-p only, got {decoding.name!r}. Leave "
            f"{' and '.join(others)} out."
        )
    if decoding.max_tokens is not None:
        raise InputError(
            f"max_tokens {decoding.max_tokens} bounds prompt and completion together, and a server "
            "counts no prompt in advance. Use --max-new-tokens."
        )
