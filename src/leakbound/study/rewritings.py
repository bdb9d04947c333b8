"""`Rewritings`, other texts that a model gets in addition to each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path

from leakbound.errors import InputError
from leakbound.inputs import (
    DRAWS,
    NUMBER,
    Criterion,
    Filters,
    InputSource,
    digests_of,
    fingerprint_of,
    parse_inputs,
)
from leakbound.inputs.sources import FileInputs
from leakbound.registry import near
from leakbound.stats import Design
from leakbound.study.settings import Loading, ModelSettings
from leakbound.types import Decoding, Request
from leakbound.types.decoding import require
from leakbound.types.records import require_types

NONE = "none"


@dataclass(frozen=True, slots=True)
class Rewritings:
    """Rewritings of every question, and how outputs are divided among a question's queries.

    Attributes:
        source: "rules", "benchmark", "file:PATH" or "model:NAME".
        queries: the number of candidate rewritings per question, at least 1.
        ids: keep the rewritings that the model under evaluation answers as confidently as the
            question (Cheng et al. 2025, Algorithm 2).
        ids_draws: the number of answers per rewriting for `ids`, at least 1.
        criterion: the measure of confidence for `ids`: "mean_prob" (the mean probability of an
            answer), "mean_logprob", or "mean_logprob_per_token".
        design: the allocation of outputs: "allocated" draws the query of each output at random;
            "fixed" gives all queries the same number; "fresh" gives one output to each of n
            independent rewritings by a chat model. "fresh" ignores `queries` and leaves out the
            question itself; statements are about the distribution of rewritings.
        filters: remove rewritings that lose a fact of the question or contain a word of the
            answer. False keeps them: a leak may then come from the rewriting.
        embedder: a sentence-embedding model; only rewritings with the question's meaning are kept
            (None: all are kept).
        similarity: the minimum cosine between embeddings of texts with the same meaning, in [-1, 1]
            (None: 0.8).

    Raises:
        InputError: a value is not valid. All values are checked before a model is loaded.
    """

    source: str
    _: KW_ONLY
    queries: int = NUMBER
    ids: bool = False
    ids_draws: int = DRAWS
    criterion: Criterion = "mean_prob"
    design: Design = "allocated"
    filters: bool = True
    embedder: str | None = None
    similarity: float | None = None

    def __post_init__(self) -> None:
        require_types(self)
        for name, remedy in (
            ("queries", "For the original questions only, use the inputs `none`."),
            ("ids_draws", f"To select no inputs, leave `ids` out; else use {DRAWS}."),
        ):
            number = getattr(self, name)
            require(number >= 1, name, number, "at least 1", remedy)
        if (least := self.similarity) is not None:
            want = "used with an `embedder`"
            require(self.embedder is not None, "similarity", least, want, "Add `embedder=NAME`.")
            require(-1 <= least <= 1, "similarity", least, "in [-1, 1]", "Use 0.8.")
        fits = self.filters or self.embedder is None
        require(fits, "filters", False, "True for an `embedder`, which filters")
        source = self.open()
        if self.design == "fresh" and source.finite:
            raise InputError(
                f"design 'fresh' needs a new rewriting for every output, but the inputs "
                f"{self.source!r} are a finite list. Use `model:NAME`, or design 'allocated'."
            )

    def require_file(self) -> None:
        """Raise InputError if the file of rewritings does not exist."""
        source = self.open()
        if isinstance(source, FileInputs) and not source.path.is_file():
            hint = near(source.path)
            raise InputError(f"the inputs {self.source!r} name no file. {hint}Check the path.")

    @property
    def kind(self) -> str:
        """The name in `source` without its argument; rewritings have it as `Query.source`."""
        return self.source.strip().partition(":")[0]

    @property
    def argument(self) -> str:
        """The argument of `source`, after its colon."""
        return self.source.strip().partition(":")[2]

    @property
    def models(self) -> tuple[str, ...]:
        """The name of the chat model that writes the rewritings, if any."""
        return (self.argument,) if self.kind == "model" else ()

    def open(
        self, loading: Loading | None = None, servers: frozenset[str] = frozenset()
    ) -> InputSource:
        """Return the source; its chat model is loaded by `loading` at the first request.

        A model on a server is used only if its URL is among `servers`.
        """
        if self.source.strip() == NONE:
            raise InputError(
                f"inputs {NONE!r} mean the questions only. Omit `rewritings`, and omit profiles "
                "with rewritings, such as cheng."
            )
        later = partial(_Later, loading=loading or ModelSettings().loading, servers=servers)
        return parse_inputs(self.source, later)

    def open_filters(self, loading: Loading) -> Filters:
        """Return the filters that a rewriting must pass; load the embedder if there is one."""
        if self.embedder is None:
            return Filters(content=self.filters)
        from leakbound.engines.models import OpenModels  # torch loads when it is needed

        return Filters(embed=OpenModels(**loading).embed(self.embedder), similarity=self.similarity)

    @property
    def source_name(self) -> str:
        """The source, with the name of a file instead of its path."""
        source = self.open()
        return f"file:{source.path.name}" if isinstance(source, FileInputs) else self.source

    @property
    def fingerprint(self) -> dict[str, str]:
        """Everything that rewritings depend on besides the source's name, such as digests."""
        source = fingerprint_of(self.open(), self.argument)
        files = {} if self.embedder is None else digests_of(Path(self.embedder).expanduser())
        return source | {f"embedder, {name}": digest for name, digest in files.items()}


@dataclass(frozen=True, slots=True)
class _Later:
    """A chat model that is loaded at its first request, once per process."""

    name: str
    loading: Loading
    servers: frozenset[str]

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of the files of a local model, with its weights.

        Subfolders are not loaded, so they have no digest. The fingerprint of a model on a hub or
        server is only its name.
        """
        return digests_of(Path(self.name.removeprefix("transformers:")).expanduser(), deep=False)

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """See `Chat.chat`."""
        from leakbound.engines.models import OpenModels

        models = OpenModels(**self.loading, servers=self.servers)
        return models.chat(self.name).chat(requests, decoding, seed)
