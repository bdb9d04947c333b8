"""What a server says of itself, and the settings by which it is told to truncate nothing.

Servers have defaults of their own: llama.cpp keeps 40 tokens and cuts by min-p, vLLM and
transformers take those of the model's folder. Where one says what it is, each of these is sent to
it at its neutral value; a server that does not say is sent what the protocol itself has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from leakbound.engines.server import Server
from leakbound.types import Json, JsonObject

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
    "": _PENALTIES,
}  # fmt: skip
_SAMPLES: JsonObject = {
    "do_sample": True, "top_k": 0, "min_p": None, "typical_p": 1.0, "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
}  # fmt: skip
_OF_A_MODEL = ("id", "root", "parent", "owned_by", "max_model_len", "meta")
_OF_LLAMA = ("build_info", "model_path", "model_alias", "model_ftype", "bos_token", "eos_token")
_WIDE = 53  # bits of a seed: what a float64 holds
_NARROW = 31


@dataclass(frozen=True, slots=True)
class Statement:
    """What a server says it is.

    kind: `llama.cpp`, `vLLM` or `transformers`; empty where it does not say.
    says: what of that tells one model and build from another.
    """

    kind: str
    says: JsonObject

    @property
    def neutral(self) -> JsonObject:
        """What is sent beside every request."""
        return _NEUTRAL[self.kind]

    @property
    def seed_bits(self) -> int:
        """How large a seed may be."""
        return _WIDE if self.kind in ("vLLM", "transformers") else _NARROW

    def sampling(self, temperature: float) -> JsonObject:
        """What is sent beside a request at this temperature."""
        if self.kind != "transformers" or not temperature:
            return self.neutral
        return {**self.neutral, "generation_config": json.dumps(_SAMPLES, sort_keys=True)}


def statement_of(server: Server, model: str) -> Statement:
    """What the server says of itself and of this model, as far as it says anything."""
    root = server.url.removesuffix("/v1")
    listed = _entry(server.get(f"{server.url}/models"), model)
    props, version = _object(server.get(f"{root}/props")), _object(server.get(f"{root}/version"))
    says: dict[str, Json] = {"model": listed} if listed else {}
    if "build_info" in props or "default_generation_settings" in props:
        return Statement("llama.cpp", {**says, "server": _llama(props)})
    if isinstance(version.get("version"), str):
        says["version"] = version["version"]
    if listed.get("owned_by") == "vllm":
        return Statement("vLLM", says)
    paths = _object(_object(server.get(f"{root}/openapi.json")).get("paths"))
    # A model of transformers' own server is listed only where it lies in the hub's cache.
    if {"/load_model", "/v1/responses"} <= paths.keys():
        return Statement("transformers", says)
    return Statement("", says)


def _llama(props: JsonObject) -> JsonObject:
    """What of the properties of a llama.cpp server tells one model and build from another."""
    template = json.dumps(props.get("chat_template"))
    known = {name: props[name] for name in _OF_LLAMA if name in props}
    settings = _object(props.get("default_generation_settings"))
    digest = hashlib.sha256(template.encode()).hexdigest()
    return {**known, "n_ctx": settings.get("n_ctx"), "chat_template": digest}


def _entry(found: Json, model: str) -> JsonObject:
    """What a list of models says of this one, or of the only one that there is."""
    listed = _object(found).get("data")
    models = [_object(one) for one in listed] if isinstance(listed, list) else []
    named = [one for one in models if one.get("id") == model] or models
    one = named[0] if len(named) == 1 else {}
    return {name: one[name] for name in _OF_A_MODEL if one.get(name) is not None}


def _object(found: Json) -> JsonObject:
    return found if isinstance(found, Mapping) else {}
