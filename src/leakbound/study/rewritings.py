"""`Rewritings`: other wordings of each question that a model gets in addition to the question."""

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
        ids: whether to keep only the rewritings that the evaluated model answers as confidently as
            the question (Cheng et al. 2025, Algorithm 2).
        ids_draws: the number of answers per rewriting for `ids`, at least 1.
        criterion: the measure of confidence for `ids`: "mean_prob" (the mean probability of an
            answer), "mean_logprob", or "mean_logprob_per_token".
        design: the allocation of outputs: "allocated" draws the query of each output at random;
            "fixed" draws equal numbers of outputs for all queries; "fresh" draws one output for
            each of n independent rewritings by a chat model. "fresh" ignores `queries` and leaves
            out the question itself; statements are about the distribution of rewritings.
        filters: whether to remove rewritings that omit a fact of the question or contain a word of
            the answer. If False, a leak may come from the rewriting.
        embedder: a sentence-embedding model that removes rewritings whose meaning differs from the
            question's (None: no such removal).
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
            ("ids_draws", f"Use {DRAWS}, or omit `ids` to keep all rewritings."),
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
                f"{self.source!r} are a finite list. Use inputs model:NAME, or design 'allocated'."
            )

    def require_file(self) -> None:
        """Raise InputError if the file of rewritings does not exist."""
        source = self.open()
        if isinstance(source, FileInputs) and not source.path.is_file():
            hint = near(source.path)
            raise InputError(f"`inputs` {self.source} must be a file. {hint}Check the path.")

    @property
    def kind(self) -> str:
        """The part of `source` before its colon. It becomes `Query.source` of the rewritings."""
        return self.source.strip().partition(":")[0]

    @property
    def argument(self) -> str:
        """The part of `source` after its colon."""
        return self.source.strip().partition(":")[2]

    @property
    def models(self) -> tuple[str, ...]:
        """The name of the chat model that writes the rewritings, if any."""
        return (self.argument,) if self.kind == "model" else ()

    def open(
        self, loading: Loading | None = None, servers: frozenset[str] = frozenset()
    ) -> InputSource:
        """Return the source. Its chat model, if any, is loaded with `loading` at the first request.

        A model on a server is used only if its URL is among `servers`.
        """
        if self.source.strip() == NONE:
            raise InputError(
                f"inputs {NONE!r} mean no rewritings. Omit `rewritings`, and use no "
                "profile with rewritings, such as cheng."
            )
        later = partial(_Later, loading=loading or ModelSettings().loading, servers=servers)
        return parse_inputs(self.source, later)

    def open_filters(self, loading: Loading) -> Filters:
        """Return the filters that a rewriting must pass. Load the embedder if there is one."""
        if self.embedder is None:
            return Filters(content=self.filters)
        from leakbound.engines.models import OpenModels  # torch loads when it is needed

        return Filters(embed=OpenModels(**loading).embed(self.embedder), similarity=self.similarity)

    @property
    def source_name(self) -> str:
        """The source. If it is a file, only the file's name without the folders."""
        source = self.open()
        return f"file:{source.path.name}" if isinstance(source, FileInputs) else self.source

    @property
    def fingerprint(self) -> dict[str, str]:
        """Digests of the files and models that decide the rewritings, by name."""
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
        """Digests of the files of a local model, including its weights.

        Subfolders have no digest, because they are not loaded. A model on a hub or server has no
        digests.
        """
        return digests_of(Path(self.name.removeprefix("transformers:")).expanduser(), deep=False)

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """See `Chat.chat`."""
        from leakbound.engines.models import OpenModels

        models = OpenModels(**self.loading, servers=self.servers)
        return models.chat(self.name).chat(requests, decoding, seed)
