"""Negotiate which request fields an OpenAI-compatible server supports.

Servers have different default settings, which change the distribution of outputs. llama.cpp keeps
the 40 likeliest tokens and applies min-p. llama-cpp-python does the same and penalises repetition.
vLLM and transformers read the generation config in the model's folder. If a server reports its
kind, every sampling setting of this kind of server is sent with its neutral value, as documented. A
request to any other server contains the neutral value of every such setting, under the names that
common servers use or that its `/openapi.json` lists. Whether such a server applies these values is
unknown.

Servers also differ in the field that turns thinking on or off. Each documented field is tried in a
request with a greeting. The first field that the server accepts and that has the requested effect
is used.
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

from leakbound.durable import sha256_of
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError
from leakbound.registry import suggestion
from leakbound.served.replies import OutputRequest, Reply, read_reply
from leakbound.served.server import RefusedError, Server
from leakbound.text.counting import visible
from leakbound.types import Decoding, Json, JsonObject, Thinking, from_json

_PENALTIES: JsonObject = {"presence_penalty": 0, "frequency_penalty": 0}
_NEUTRAL: Mapping[str, JsonObject] = {
    # The order of sampling steps that leakbound defines: temperature first, then the nucleus
    # (top-p).
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
    "": _PENALTIES,
}  # fmt: skip
# The names in llama.cpp, llama-cpp-python, vLLM, SGLang, Ollama and TGI.
_EVERY: JsonObject = {
    **_PENALTIES, "min_p": 0, "typical_p": 1, "tfs_z": 1, "top_n_sigma": -1, "xtc_probability": 0,
    "repetition_penalty": 1, "repeat_penalty": 1, "dry_multiplier": 0, "dynatemp_range": 0,
    "mirostat": 0, "mirostat_mode": 0, "min_tokens": 0, "ignore_eos": False,
}  # fmt: skip
_ALL_TOKENS = (-1, 0)  # values of top-k that keep all tokens: some servers accept only one of them
_SAMPLES: JsonObject = {
    "do_sample": True, "top_k": 0, "min_p": None, "typical_p": 1.0, "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
}  # fmt: skip
_OF_A_MODEL = ("id", "root", "parent", "owned_by", "max_model_len", "meta")
_OF_LLAMA = ("build_info", "model_path", "model_alias", "model_ftype", "bos_token", "eos_token")
_WIDE = 53  # bits of a seed: the precision of a float64
_NARROW = 31
_LENGTHS = ("max_tokens", "max_completion_tokens")  # names that servers use for the length limit
_MOST = 16  # outputs per request: a lost request loses all of them
_STOPS = 4  # stop strings per request; replies are cut at all stop strings
_GREETING, _SHORTEST = "Say a word.", Decoding(max_new_tokens=1)
_GREETED = (Decoding(temperature=0, max_new_tokens=512), Decoding(max_new_tokens=512))
# Fields documented by vLLM, SGLang and llama.cpp (templates use different names), then by OpenAI,
# Ollama and llama.cpp.
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
_COUNTS = ("n", "concurrency", "patience")  # options that are numbers
_BUDGET = "thinking_token_budget"  # a field of vLLM, which closes a thought at its budget

Api = Literal["chat", "completions"]
Thinks = Literal["off", "no", "visibly", "hidden"]


@dataclass(frozen=True, slots=True)
class Options:
    """The options after the `?` of `openai:URL#MODEL?name=value&…`.

    Attributes:
        api: `chat` or `completions`; empty: determined by the prompting.
        probe: `off` skips the trial of the server.
        n: the largest number of outputs per request.
        concurrency: the largest number of simultaneous requests; None: 8.
        ignore: reply fields that contain no part of an output, separated by commas.
        unlisted: `on` accepts a model that the server does not list.
        patience: the longest time without a reply from a busy server, in seconds; None: 600.
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
        """Return the names in `ignore`."""
        return frozenset(filter(None, self.ignore.split(",")))

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"`{name}` of a server must be at least 1, got {value}.")

    @classmethod
    def read(cls, text: str) -> Options:
        """Parse a query string; raise InputError for an unknown option or value."""
        options = {
            name: int(value) if name in _COUNTS and value.isdecimal() else value
            for name, value in parse_qsl(text, keep_blank_values=True)
        }
        return from_json(cls, options, "the part OPTIONS of openai:URL#MODEL?OPTIONS")

    def endpoint(self, prompting: Prompting) -> Api:
        """Return the endpoint for this prompting; raise InputError if `api` contradicts it."""
        plain = prompting.chat is False
        api: Api = self.api or ("completions" if plain else "chat")
        if api == "completions" and prompting.thinking != "auto":
            raise InputError(
                f"--thinking {prompting.thinking} works only with chat messages, but the "
                "completions API sends plain prompts. Omit --thinking."
            )
        if api == "chat" and plain:
            raise InputError(
                "a plain prompt cannot be sent as a chat message. Omit --prompt-template, or write "
                "?api=completions after the model's name."
            )
        if api == "completions" and prompting.chat:
            raise InputError(
                "these prompts need a chat model, but ?api=completions continues plain text. Omit "
                "?api=completions, or write the plain prompt with --prompt-template."
            )
        if api == "chat" and prompting.compat is not None:
            raise InputError(
                f"chat messages cannot express the prompts of {prompting.compat}. Write the plain "
                "prompt with --prompt-template."
            )
        return api


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The properties that a server reports.

    Attributes:
        kind: `llama.cpp`, `vLLM` or `transformers`; empty: not reported.
        facts: values that distinguish models and builds of the server.
        fields: the request fields in the server's API description; None: the server has none.
    """

    kind: str = ""
    facts: JsonObject = field(default_factory=dict)
    fields: frozenset[str] | None = None

    def neutral_settings(self) -> Iterator[JsonObject]:
        """Yield sets of fields that turn truncation off, the most complete set first."""
        for top_k in () if self.kind else _ALL_TOKENS:
            every = {**_EVERY, "top_k": top_k}
            accepted = every if self.fields is None else {*self.fields, *_PENALTIES}
            yield {name: value for name, value in every.items() if name in accepted}
        yield _NEUTRAL[self.kind]


def server_info(server: Server, model: str, models: Sequence[JsonObject]) -> ServerInfo:
    """Return the properties that a server reports of itself and of the model `model`."""
    root = server.url.removesuffix("/v1")
    named = [entry for entry in models if entry.get("id") == model] or models
    entry = named[0] if len(named) == 1 else {}
    listed = {name: entry[name] for name in _OF_A_MODEL if entry.get(name) is not None}
    facts: dict[str, Json] = {"model": listed} if listed else {}
    props = _object(server.get(f"{root}/props"))
    if "build_info" in props or "default_generation_settings" in props:
        template, settings = props.get("chat_template"), props.get("default_generation_settings")
        own: dict[str, Json] = {name: props[name] for name in _OF_LLAMA if name in props}
        own["n_ctx"] = _object(settings).get("n_ctx")
        own["chat_template"] = sha256_of(json.dumps(template))
        return ServerInfo("llama.cpp", {**facts, "server": own})
    version = _object(server.get(f"{root}/version")).get("version")
    if isinstance(version, str):
        facts["version"] = version
    description = _object(server.get(f"{root}/openapi.json"))
    kind = ""
    if listed.get("owned_by") == "vllm":
        kind = "vLLM"
    elif {"/load_model", "/v1/responses"} <= _object(description.get("paths")).keys():
        kind = "transformers"
    return ServerInfo(kind, facts, _fields(description))


def _fields(description: JsonObject) -> frozenset[str] | None:
    """Return the fields of a chat request in an OpenAPI description; None if there are none.

    The body has one schema, or refers to several schemas.
    """
    schemas = _object(_object(description.get("components")).get("schemas"))
    chats = _object(_object(description.get("paths")).get("/v1/chat/completions"))
    fields: set[str] = set()
    for name in re.findall(r"#/components/schemas/([\w.-]+)", json.dumps(chats.get("post"))):
        fields |= _object(_object(schemas.get(name)).get("properties")).keys()
    return frozenset(fields) if "messages" in fields else None


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """The fields of requests to one model of a server.

    Attributes:
        model: the name of the model on the server.
        chat: True: requests contain messages; False: they contain a text to complete.
        info: the properties that the server reports.
        neutral: the sampling settings that are sent.
        identity: the model and build that the server's replies state.
        length: the name of the field that limits the tokens of an output.
        choices: the largest number of outputs per request.
        ignored: reply fields that contain no part of an output, as the user states.
        extra: request fields that turn thinking on or off, and fields for a JSON schema.
        thinks: whether the reply to a greeting had a thought. "hidden": this thought or a thought
            in the trial was hidden. "off": thinking is turned off.
        opened: whether the prompt opens the thought, so that no output has the opening tag.
        closes: whether the server closes a thought at its budget.
        strict: whether outputs are counted, see `OutputRequest`.
    """

    model: str
    chat: bool
    info: ServerInfo = field(default_factory=ServerInfo)
    neutral: JsonObject = field(default_factory=dict)
    identity: Mapping[str, str | None] = field(default_factory=dict)
    length: str = _LENGTHS[0]
    choices: int = 1
    ignored: frozenset[str] = frozenset()
    extra: JsonObject = field(default_factory=dict)
    thinks: Thinks = "no"
    opened: bool = False
    closes: bool = False
    strict: bool = True

    def send(
        self,
        server: Server,
        question: Json,
        decoding: Decoding,
        choices: int,
        key: str,
        *,
        again: bool,
    ) -> Reply:
        """Request outputs by `Server.post`; every setting is sent, so no server default applies.

        The seed is a digest of `key`.
        """
        body: dict[str, Json] = {
            "model": self.model,
            "messages" if self.chat else "prompt": question,
            "n": choices,
            "stream": False,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            self.length: self.room(decoding),
            **self.added(decoding.temperature),
        }
        if self.closes and decoding.max_thinking_tokens is not None:
            body[_BUDGET] = decoding.max_thinking_tokens
        if not decoding.greedy:
            digest = hashlib.sha256(key.encode()).digest()
            bits = _WIDE if self.info.kind in ("vLLM", "transformers") else _NARROW
            body["seed"] = int.from_bytes(digest[:8]) >> (64 - bits)
        if decoding.stop:
            body["stop"] = list(decoding.stop[:_STOPS])
        request = OutputRequest(
            choices=choices,
            chat=self.chat,
            most=self.room(decoding),
            stop=decoding.stop,
            ignored=self.ignored,
            strict=self.strict,
        )
        path = "chat/completions" if self.chat else "completions"
        return server.post(path, body, partial(read_reply, request=request), again=again)

    def added(self, temperature: float) -> JsonObject:
        """Return the fields that are added to a request at this temperature."""
        samples = self.info.kind == "transformers" and temperature
        own = {"generation_config": json.dumps(_SAMPLES, sort_keys=True)} if samples else {}
        return {**self.neutral, **own, **self.extra}

    def room(self, decoding: Decoding) -> int:
        """Return the token limit on thought and answer together, as servers have only one."""
        return decoding.max_new_tokens if self.thinks == "off" else decoding.longest

    def probe(self, server: Server, text: str, decoding: Decoding, choices: int, key: str) -> Reply:
        """Request outputs that are not draws; raise ModelError for unknown fields in a reply."""
        question: Json = [{"role": "user", "content": text}] if self.chat else text
        reply = self.send(server, question, decoding, choices, key, again=True)
        if reply.unknown:
            fields = ", ".join(f"`{field}`" for field in reply.unknown)
            raise ModelError(
                f"replies of 'openai:{server.url}#{self.model}' have unknown fields: {fields}. "
                "They may contain output or report a filter; if so, turn them off in the server. "
                f"Otherwise, write ?ignore={','.join(reply.unknown)} after the model's name."
            )
        return reply


def negotiate(
    server: Server, plain: RequestFormat, options: Options, thinking: Thinking, schema: str = ""
) -> RequestFormat:
    """Return `plain` with the fields and the number of outputs per request that the server accepts.

    If the server's token count does not cover all outputs of a request, each request is for one
    output. Otherwise, cut outputs could not be detected. The JSON schema is left out if the server
    refuses it. Raises ModelError for a server that accepts no request. Unless `options.unlisted` is
    set, also raises ModelError for a model that the server does not list.
    """
    model = plain.model
    listed = _object(server.get(f"{server.url}/models")).get("data")
    models = [_object(entry) for entry in listed] if isinstance(listed, list) else []
    info = server_info(server, model, models)
    names = [entry.get("id") for entry in models]
    lists_all = info.kind != "transformers"  # transformers lists only models in the hub's cache
    if options.unlisted == "off" and lists_all and names and model not in names:
        raise ModelError(
            f"`{server.url}` lists no model {model!r}. {suggestion(model, names)} Use a "
            "listed model, or add --unlisted if the server has this model."
        )
    refusal: RefusedError | None = None
    for attempt in _attempts(replace(plain, info=info), options.n):
        try:
            key = json.dumps(["settling", attempt.choices])
            reply = attempt.probe(server, _GREETING, _SHORTEST, attempt.choices, key)
        except RefusedError as error:
            refusal = error
            continue
        count = len(reply.outputs)
        covered = reply.tokens is None or reply.tokens >= count
        if attempt.choices == 1 or (covered and count == attempt.choices):
            accepted = replace(attempt, identity=reply.identity)
            if plain.chat:
                accepted = _with_thinking(server, accepted, thinking)
            return _with_schema(server, accepted, schema) if schema else accepted
    endpoint = "chat/completions" if plain.chat else "completions"
    raise ModelError(
        f"`{server.url}` does not accept a request to {endpoint} for {model!r}: {refusal}. Check "
        "the name. For a model without a chat template, write ?api=completions after the name."
    ) from refusal


def _attempts(plain: RequestFormat, most: int) -> Iterator[RequestFormat]:
    """Yield formats to try: more complete settings first, then larger numbers of outputs first."""
    for neutral in plain.info.neutral_settings():
        base = replace(plain, neutral=neutral)
        choices = most
        while choices > 1:
            yield replace(base, choices=choices)
            choices //= 2
        for length in _LENGTHS:
            yield replace(base, length=length)


def _with_thinking(server: Server, plain: RequestFormat, thinking: Thinking) -> RequestFormat:
    """Add the first thinking field that has the wanted effect, or else the last accepted field."""
    last = None
    for switch in (*_SWITCHES[thinking], {}):
        if switch or last is None:
            last = _greeted(server, replace(plain, extra=switch), _GREETED) or last
        if last and (last.thinks != "no") is (thinking == "on"):
            break
    last = last or plain
    if thinking == "off" and last.thinks == "no":
        return replace(last, thinks="off")
    if _BUDGET not in (last.info.fields or ()):
        return last
    budget = replace(_GREETED[0], max_thinking_tokens=1)
    closing = replace(last, closes=True)
    return closing if _greeted(server, closing, [budget]) else last


def _with_schema(server: Server, plain: RequestFormat, schema: str) -> RequestFormat:
    """Add a request for JSON that follows a schema, if the server accepts it."""
    wanted: Json = {"name": "reply", "strict": True, "schema": json.loads(schema)}
    fields: JsonObject = {"response_format": {"type": "json_schema", "json_schema": wanted}}
    structured = replace(plain, extra={**plain.extra, **fields})
    return structured if _greeted(server, structured, _GREETED) else plain


def _greeted(
    server: Server, plain: RequestFormat, decodings: Sequence[Decoding]
) -> RequestFormat | None:
    """Return the format, with thinking as in replies to a greeting; None if no request succeeds."""
    for decoding in decodings:
        try:
            key = json.dumps(["thinking", decoding.temperature])
            reply = plain.probe(server, _GREETING, decoding, 1, key)
        except RefusedError:
            continue
        output = reply.outputs[0]
        shown: Thinks = "visibly" if visible(output.thought) else "no"
        return replace(plain, thinks="hidden" if output.hidden else shown, opened=reply.opened)
    return None


def require_supported(decoding: Decoding, *, thoughts: bool) -> None:
    """Raise InputError if requests cannot express a decoding; `thoughts` permits their limit."""
    budget = ("max_thinking_tokens",) if thoughts else ()
    others = decoding.beyond(
        "temperature", "top_p", "max_new_tokens", "max_tokens", "stop", "filter", *budget
    )
    if others:
        raise InputError(
            f"a server draws by temperature and top-p only, got {decoding.name!r}. Omit "
            f"{' and '.join(others)}."
        )
    if decoding.max_tokens is not None:
        raise InputError(
            f"max_tokens {decoding.max_tokens} limits prompt and completion together, but a server "
            "does not count prompt tokens in advance. Use --max-new-tokens."
        )
