"""The transformers engine: completions of a causal language model, drawn by the forest."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import torch

from leakbound.engines.detokenizer import Detokenizer
from leakbound.engines.loading import LoadedModel, load_model
from leakbound.engines.margin import Margin
from leakbound.engines.prefix_cache import CachedModel, prefix_model
from leakbound.engines.probe import probe
from leakbound.engines.prompting import Prompting
from leakbound.engines.reading import Reader
from leakbound.engines.two_pass import in_two_passes
from leakbound.errors import InputError
from leakbound.sampling import ExploredTree, Explorer, Forest, Leaf, Node, Root, force
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Event,
    Exploration,
    Failure,
    JsonObject,
    ProbedPrompt,
    Query,
    Ranges,
    Reading,
    Sample,
    Tell,
    Usage,
    untold,
)

_CACHE_BYTES = 2 << 30  # generated keys and values that are held at once, at most
_MOST_ROWS = 1024
_EXPLORE_ROWS = 64  # prefixes forwarded together in an exploration
_LIGHT = math.log(1e-6)
FORCED = -1  # the chunk of a completion that was not drawn


class TransformersEngine:
    """Draws completions with transformers; see `Generate` and `Explores` for the contracts.

    `rows` bounds the prefixes forwarded at a time; by default 1,024, or as many as keep their
    keys and values within 2 GiB. It is part of the fingerprint: other shapes, other roundings.
    """

    def __init__(
        self, loaded: LoadedModel, prompting: Prompting | None = None, *, rows: int | None = None
    ) -> None:
        self.usage = Usage()
        self.tell: Tell = untold
        self.loaded = loaded
        self.prompting = prompting or Prompting()
        self._rows = rows
        self._text = Detokenizer(loaded)
        self._seam, note = prefix_model(loaded.model, loaded.eos_token_ids)
        self.usage.notes += [said for said in (note, loaded.early_end) if said]
        self._margin = Margin(self._seam, loaded.context_length)

    @classmethod
    def open(
        cls, location: str, prompting: Prompting | None = None, **loading: Any
    ) -> TransformersEngine:
        """Load the model at `location` (see `load_model` for `loading`) and make it an engine."""
        return cls(load_model(location, **loading), prompting)

    @property
    def fingerprint(self) -> JsonObject:
        """The model's fingerprint, how questions become prompts, and the row budget."""
        return {
            **self.loaded.fingerprint,
            "engine": "transformers",
            "prompting": self.prompting.describe(self.loaded.tokenizer),
            "row_budget": self._rows or f"at most {_MOST_ROWS} within {_CACHE_BYTES} bytes",
        }

    @cached_property
    def probe(self) -> tuple[ProbedPrompt, ...]:
        """See `Probes.probe`."""
        return probe(self.loaded, self.prompting)

    @property
    def machine(self) -> JsonObject:
        """What the exact draws, though not their law, also depend on."""
        return {"device": str(self.loaded.model.device.type), "threads": torch.get_num_threads()}

    @property
    def margin(self) -> float:
        """See `Explores.margin`; infinite for weights in half precision."""
        return self._margin.value

    def measure(self, queries: Sequence[Query]) -> None:
        """See `Measures.measure` and, for how it is done, `shape_margin`.

        Until it is called, exploring and forcing measure after the first queries they are given.
        """
        self._margin.measure(map(self.prompt_ids, queries))

    def rows(self, max_new_tokens: int) -> int:
        """The row budget for completions of this length."""
        if self._rows is not None:
            return self._rows
        config = self.loaded.model.config.get_text_config()
        attention = getattr(config, "num_attention_heads", 1)  # a state-space model has none
        heads = getattr(config, "num_key_value_heads", None) or attention
        width = getattr(config, "head_dim", None) or config.hidden_size // attention
        token = 2 * config.num_hidden_layers * heads * width * self.loaded.model.dtype.itemsize
        return int(max(16, min(_MOST_ROWS, _CACHE_BYTES // (token * max_new_tokens))))

    def prompt_ids(self, query: Query) -> tuple[int, ...]:
        """The tokens that completions of the query are drawn after."""
        return tuple(self._encode(query))

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError for a query that does not fit the context beside its completion."""
        limit = self.loaded.context_length
        if limit is None and decoding.max_tokens is None:
            return
        for query in queries:
            length = len(self._encode(query))
            room = _room(length, decoding)
            if room < 1:
                raise InputError(
                    f"query {query.id!r} has {length} prompt tokens, which leaves none of the "
                    f"{decoding.max_tokens} of prompt and completion. Raise --max-tokens."
                )
            if limit is not None and length + room > limit:
                raise InputError(
                    f"query {query.id!r} has {length} prompt tokens; with max_new_tokens "
                    f"{room} that exceeds the model's context of {limit}. "
                    "Shorten it, or lower --max-new-tokens."
                )

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query, as they finish."""
        if decoding.adaptive_temperature is None or decoding.adaptive_mode == "running":
            yield from self._grow(queries, decoding, draws)
            return
        look = partial(self._grow, tell=self._tell_tokens)
        drawn = self.usage.draws
        for found in in_two_passes(queries, decoding, draws, look=look, grow=self._grow):
            drawn += found.n if isinstance(found, Sample) else 0
            yield found
        self.usage.draws = drawn  # the first look draws none

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """See `Explores.explore`.

        Raises InputError for half-precision weights and for adaptive temperature in two passes:
        their masses are not known to within a margin.
        """
        self._require_exact(decoding, queries)
        explorer = Explorer(
            self._seam,
            decoding,
            effort,
            lambda root, nodes: ranges(queries[root], self._texts(nodes, decoding.stop)),
            margin=self.margin,
            rows=min(_EXPLORE_ROWS, self.rows(decoding.max_new_tokens)),
            ended=self._text.stopped(decoding.stop),
            tell=self.tell,
        )
        started = time.perf_counter()
        for found in explorer.explore(self._roots(queries)):
            query = queries[found.root]
            if found.broken_at is not None:
                yield self._failure(query, found.broken_at)
            else:
                yield self._exploration(query, found, decoding)
        explorer.usage.seconds = time.perf_counter() - started
        self.usage.add(explorer.usage)

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """See `Explores.force`. A text longer than the decoding allows is cut there.

        None, with a note that names the query, where the joint tokens of prompt and text do not
        begin with the prompt that is sampled from: the text is no output of it.
        """
        self._require_exact(decoding, [query for query, _ in texts])
        outputs = [self._output(query, text) for query, text in texts]
        self._tell_refused(
            [query.id for (query, _), ids in zip(texts, outputs, strict=True) if not ids]
        )
        given = [
            (query, ids[: decoding.max_new_tokens])
            for (query, _), ids in zip(texts, outputs, strict=True)
            if ids
        ]
        found = iter(self.force_ids(given, decoding))
        return [next(found) if ids else None for ids in outputs]

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """See `Retraces.force_ids`."""
        asked = list(dict.fromkeys(query for query, _ in outputs))
        self._require_exact(decoding, asked)
        numbers = {query: i for i, query in enumerate(asked)}
        leaves = force(
            self._seam,
            decoding,
            self._roots(asked),
            [(numbers[query], ids) for query, ids in outputs],
            margin=self.margin,
            rows=self.rows(decoding.max_new_tokens),
            ended=self._text.stopped(decoding.stop),
        )
        return [self._forced(leaf, decoding) for leaf in leaves]

    def _output(self, query: Query, text: str) -> tuple[int, ...] | None:
        """See `Prompting.output`."""
        return self.prompting.output(
            self.loaded.tokenizer, query.text, text, query.prefix, query.examples
        )

    def _tell_refused(self, query_ids: Sequence[str]) -> None:
        """Note the queries of texts that are no outputs of what is sampled."""
        if query_ids:
            named = ", ".join(map(repr, dict.fromkeys(query_ids)))
            self.usage.notes.append(
                f"given texts are not forced where their tokens go on from another prompt than the "
                f"one that is sampled from, so nothing is proved by them: {named}"
            )

    def _forced(self, leaf: Leaf | None, decoding: Decoding) -> Completion | None:
        if leaf is None:
            return None
        text = self._text.text(leaf.token_ids, decoding.stop)
        return self._completion(leaf, 0, FORCED, text)

    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        """See `Reads.read`."""
        return self._reader.read(texts)

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        """See `Differentiates.gradient_norms` and, for what exactly it is, `Reader`'s."""
        return self._reader.gradient_norms(texts)

    @cached_property
    def _reader(self) -> Reader:
        # What may branch a cache takes masks and positions, and what does not may not.
        return Reader(self.loaded, self.prompting, shares=isinstance(self._seam, CachedModel))

    def _require_exact(self, decoding: Decoding, queries: Sequence[Query]) -> None:
        if decoding.max_tokens is not None:
            raise InputError(
                f"max_tokens {decoding.max_tokens} bounds prompt and completion together, which "
                "has no exact mode. Use --max-new-tokens."
            )
        if not self._margin.prompts:
            self.measure(queries)
        if not math.isfinite(self.margin):
            raise InputError(
                f"weights in {self.loaded.model.dtype} have no exact mode: their probabilities "
                "move too much with the batch, or are NaN. Load sound ones with --dtype float32."
            )
        if decoding.adaptive_temperature is not None and decoding.adaptive_mode == "two_pass":
            raise InputError(
                "adaptive temperature in two passes has no exact mode. Use adaptive_mode "
                "'running', or sample only."
            )

    def _exploration(self, query: Query, found: ExploredTree, decoding: Decoding) -> Exploration:
        draws = Draws(sizes=(1,))
        completions = self._completions(found.leaves, decoding, draws) if found.leaves else ()
        return Exploration(
            events=tuple(self._events(found.nodes, decoding.stop)),
            remainder=found.remainder,
            sample=Sample(query=query, decoding=decoding, completions=completions),
            explored=found.explored,
            forwards=found.forwards,
        )

    def _events(self, nodes: Sequence[Node], stop: Sequence[str]) -> Iterator[Event]:
        """What is worth keeping: a light open prefix says no more than not knowing."""
        nodes = [n for n in nodes if n.ended or n.low == n.high or n.floor > _LIGHT]
        texts = self._texts([(n.token_ids, n.ended) for n in nodes], stop)
        for node, (text, ended) in zip(nodes, texts, strict=True):
            mass = math.exp(node.floor)
            yield Event(text=text, token_ids=node.token_ids, ended=ended, mass=mass)

    def _texts(
        self, nodes: Sequence[tuple[tuple[int, ...], bool]], stop: Sequence[str]
    ) -> list[tuple[str, bool]]:
        """The completion of an ended node; of an open one, what every completion begins with."""
        text, settled = self._text.text, self._text.settled
        return [(text(ids, stop) if ended else settled(ids, stop), ended) for ids, ended in nodes]

    def _grow(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws, tell: Tell | None = None
    ) -> Iterator[Sample | Failure]:
        """Samples of queries; those with room for as many new tokens advance together."""
        by_room: dict[int, list[Query]] = {}
        for query in queries:
            length = 0 if decoding.max_tokens is None else len(self._encode(query))
            by_room.setdefault(_room(length, decoding), []).append(query)
        for room, group in by_room.items():
            yield from self._grow_alike(group, decoding, draws, room, tell or self.tell)

    def _tell_tokens(self, draws: int, tokens: int) -> None:
        self.tell(0, tokens)

    def _grow_alike(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws, room: int, tell: Tell
    ) -> Iterator[Sample | Failure]:
        started = time.perf_counter()
        forest = Forest(
            self._seam,
            replace(decoding, max_new_tokens=room),
            draws,
            rows=self.rows(room),
            ended=self._text.stopped(decoding.stop),
            margin=self.margin,
            tell=tell,
        )
        for tree in forest.sample(self._roots(queries)):
            query = queries[tree.root]
            if tree.broken_at is not None:
                yield self._failure(query, tree.broken_at)
            else:
                completions = self._completions(tree.leaves, decoding, draws)
                yield Sample(query=query, decoding=decoding, completions=completions)
        forest.usage.seconds = time.perf_counter() - started
        self.usage.add(forest.usage)

    def _failure(self, query: Query, broken_at: tuple[int, ...]) -> Failure:
        text = self.loaded.tokenizer.decode(broken_at)
        reason = f"the model's logits are NaN or infinite after {text!r} ({len(broken_at)} tokens)"
        return Failure(query=query, reason=reason)

    def _roots(self, queries: Sequence[Query]) -> list[Root]:
        return [Root(query.id, tuple(self._encode(query))) for query in queries]

    def _encode(self, query: Query) -> list[int]:
        return self.prompting.encode(
            self.loaded.tokenizer, query.text, query.prefix, query.examples
        )

    def _completions(
        self, leaves: Sequence[Leaf], decoding: Decoding, draws: Draws
    ) -> tuple[Completion, ...]:
        return tuple(
            self._completion(leaf, count, draws.first_chunk + i, text)
            for leaf in leaves
            for text in [self._text.text(leaf.token_ids, decoding.stop)]
            for i, count in enumerate(leaf.counts)
            if count
        )

    def _completion(self, leaf: Leaf, count: int, chunk: int, text: str) -> Completion:
        return Completion(
            text=text,
            token_ids=leaf.token_ids,
            count=count,
            chunk=chunk,
            logprob=leaf.logprob,
            model_logprob=leaf.model_logprob,
            confidence=leaf.confidence,
            finish_reason=leaf.finish_reason,
            logprob_floor=leaf.floor,
        )


def _room(length: int, decoding: Decoding) -> int:
    """How many tokens a completion may have after a prompt of this length."""
    most = decoding.max_tokens
    return decoding.max_new_tokens if most is None else min(decoding.max_new_tokens, most - length)
