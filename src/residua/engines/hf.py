"""The transformers engine: completions of a causal language model, drawn by the forest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from residua.engines.loading import LoadedModel, load_model
from residua.engines.prefix_cache import prefix_model
from residua.engines.prompting import Prompting
from residua.errors import InputError
from residua.sampling import Forest, Leaf, Root
from residua.types import Completion, Decoding, Draws, Failure, Query, Sample, Usage

_CACHE_BYTES = 2 << 30  # generated keys and values that are held at once, at most
_MOST_ROWS = 1024


class TransformersEngine:
    """Draws completions with transformers; see `Generate` for the contract.

    `rows` bounds the prefixes forwarded at a time; by default 1,024, or as many as keep their
    keys and values within 2 GiB. It is part of the fingerprint: other shapes, other roundings.
    """

    def __init__(
        self, loaded: LoadedModel, prompting: Prompting | None = None, *, rows: int | None = None
    ) -> None:
        self.usage = Usage()
        self.loaded = loaded
        self.prompting = prompting or Prompting()
        self._rows = rows
        self._seam, note = prefix_model(loaded.model, loaded.eos_token_ids)
        if note:
            self.usage.notes.append(note)

    @classmethod
    def open(
        cls, location: str, prompting: Prompting | None = None, **loading: Any
    ) -> TransformersEngine:
        """Load the model at `location` (see `load_model` for `loading`) and make it an engine."""
        return cls(load_model(location, **loading), prompting)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The model's fingerprint, how questions become prompts, and the row budget."""
        chat = self.prompting.uses_chat(self.loaded.tokenizer)
        prompting = {**self.prompting.to_dict(), "chat": chat}
        return {
            **self.loaded.fingerprint,
            "engine": "transformers",
            "prompting": prompting,
            "row_budget": self._rows or f"at most {_MOST_ROWS} within {_CACHE_BYTES} bytes",
        }

    @property
    def machine(self) -> dict[str, Any]:
        """What the exact draws, though not their law, also depend on."""
        return {"device": str(self.loaded.model.device.type), "threads": torch.get_num_threads()}

    def rows(self, max_new_tokens: int) -> int:
        """The row budget for completions of this length."""
        if self._rows is not None:
            return self._rows
        config = self.loaded.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        token = 2 * config.num_hidden_layers * heads * width * self.loaded.model.dtype.itemsize
        return int(max(16, min(_MOST_ROWS, _CACHE_BYTES // (token * max_new_tokens))))

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError for a query that does not fit the context beside its completion."""
        limit = self.loaded.context_length
        if limit is None:
            return
        for query in queries:
            length = len(self._encode(query))
            if length + decoding.max_new_tokens > limit:
                raise InputError(
                    f"query {query.id!r} has {length} prompt tokens; with max_new_tokens "
                    f"{decoding.max_new_tokens} that exceeds the model's context of {limit}. "
                    "Shorten it, or lower --max-new-tokens."
                )

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query, as they finish."""
        if decoding.adaptive_temperature is None or decoding.adaptive_mode == "running":
            yield from self._grow(queries, decoding, draws)
            return
        plain = replace(decoding, adaptive_temperature=None)
        undecided = []
        for first in self._grow(
            queries, replace(plain, temperature=0.0), replace(draws, sizes=(1,))
        ):
            if isinstance(first, Failure):
                yield first
                continue
            (only,) = first.completions
            if only.confidence is not None and only.confidence > decoding.adaptive_temperature:
                yield Sample(
                    query=first.query, decoding=decoding, completions=_all_draws(only, draws)
                )
            else:
                undecided.append(first.query)
        for sample in self._grow(undecided, plain, draws):
            yield sample if isinstance(sample, Failure) else replace(sample, decoding=decoding)

    def _grow(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        started = time.perf_counter()
        forest = Forest(
            self._seam,
            decoding,
            draws,
            rows=self.rows(decoding.max_new_tokens),
            ended=self._contains_stop(decoding.stop),
        )
        roots = [Root(query.id, tuple(self._encode(query))) for query in queries]
        for tree in forest.sample(roots):
            query = queries[tree.root]
            if tree.broken_at is not None:
                text = self.loaded.tokenizer.decode(tree.broken_at)
                yield Failure(
                    query=query,
                    reason=f"the model's logits are NaN or infinite after {text!r} "
                    f"({len(tree.broken_at)} tokens)",
                )
            else:
                completions = self._completions(tree.leaves, decoding, draws)
                yield Sample(query=query, decoding=decoding, completions=completions)
        forest.usage.seconds = time.perf_counter() - started
        self.usage.add(forest.usage)

    def _encode(self, query: Query) -> list[int]:
        return self.prompting.encode(self.loaded.tokenizer, query.text, query.prefix)

    def _decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = self.loaded.tokenizer.batch_decode(
            [list(ids) for ids in sequences],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return texts

    def _contains_stop(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        return lambda ids: any(s in self._decode([ids])[0] for s in stop)

    def _completions(
        self, leaves: Sequence[Leaf], decoding: Decoding, draws: Draws
    ) -> tuple[Completion, ...]:
        texts = self._decode([leaf.token_ids for leaf in leaves])
        return tuple(
            Completion(
                text=_before(text, decoding.stop),
                token_ids=leaf.token_ids,
                count=count,
                chunk=draws.first_chunk + i,
                logprob=leaf.logprob,
                model_logprob=leaf.model_logprob,
                confidence=leaf.confidence,
                finish_reason=leaf.finish_reason,
            )
            for leaf, text in zip(leaves, texts, strict=True)
            for i, count in enumerate(leaf.counts)
            if count
        )


def _before(text: str, stop: Sequence[str]) -> str:
    """`text` up to the first stop string in it."""
    return text[: min((at for at in map(text.find, stop) if at >= 0), default=len(text))]


def _all_draws(completion: Completion, draws: Draws) -> tuple[Completion, ...]:
    return tuple(
        replace(completion, count=size, chunk=draws.first_chunk + i)
        for i, size in enumerate(draws.sizes)
    )
