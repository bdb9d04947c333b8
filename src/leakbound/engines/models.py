"""The models that scorers ask, opened by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from leakbound.engines.servers import require_named, servers_of
from leakbound.errors import needing
from leakbound.scorers import connect, make_scorer
from leakbound.types import Chat, Classify, Embed, Scorer

State = tuple[tuple[str, int, int], ...]

_KEPT = 8  # models of each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenModels:
    """`Models` from folders and the hub; each is opened once per process, until its files change.

    See `load_model` for the settings. `servers`: the URLs of the only servers that may be asked.
    torch loads when the first model is asked for.
    """

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    servers: frozenset[str] = frozenset()

    def embed(self, name: str) -> Embed:
        """A model of sentence-transformers."""
        return _embed(name, _state(name), self.device)

    def classify(self, name: str) -> Classify:
        """A classifier by its name, see `open_classifier`; never one with code of its own."""
        return _classify(name, _state(name), self.dtype, self.device)

    def chat(self, name: str) -> Chat:
        """A chat model by its name, see `open_chat`; UnnamedServerError for other servers."""
        require_named(name, self.servers)
        return _chat(
            name,
            _state(name),
            dtype=self.dtype,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )


def open_scorer(spec: str, **loading: Any) -> Scorer:
    """The scorer that `spec` describes, connected to the model it names, if any.

    A server in `spec` may be asked: write it yourself, never take it from a file of others.
    `loading`: the settings of `OpenModels`. Raises what `make_scorer` and `connect` do.
    """
    return connect(make_scorer(spec), OpenModels(servers=servers_of([spec]), **loading))


@lru_cache(maxsize=_KEPT)
def _embed(name: str, state: State, device: str) -> Embed:
    with needing(f"the model {name!r}", "models"):
        from leakbound.engines.embedding import SentenceEmbedder

    return SentenceEmbedder.open(name, None if device == "auto" else device)


@lru_cache(maxsize=_KEPT)
def _classify(name: str, state: State, dtype: str, device: str) -> Classify:
    with needing(f"the model {name!r}", "models"):
        from leakbound.engines.classify import open_classifier

    return open_classifier(name, dtype=dtype, device=device)


@lru_cache(maxsize=_KEPT)
def _chat(name: str, state: State, **loading: Any) -> Chat:
    with needing(f"the model {name!r}", "models"):
        from leakbound.engines.chat import open_chat

    return open_chat(name, **loading)


def _state(name: str) -> State:
    """What changes with the files of a model's folder; empty where it has none here."""
    folders = (Path(where).expanduser() for where in (name, name.partition(":")[2]) if where)
    folder = next((folder for folder in folders if folder.is_dir()), None)
    files = sorted(folder.rglob("*")) if folder else ()
    return tuple((str(f), (s := f.stat()).st_size, s.st_mtime_ns) for f in files)
