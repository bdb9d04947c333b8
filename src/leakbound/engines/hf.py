"""The transformers engine: it draws completions from a causal language model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import torch

from leakbound.engines.adaptive import in_two_passes
from leakbound.engines.branching import prefix_model
from leakbound.engines.loading import LoadedModel, end_notes, load_model
from leakbound.engines.margin import probed_prompts, shape_margin
from leakbound.engines.prefix_cache import CachedModel, arithmetic, memory_for_keys
from leakbound.engines.prompting import Prompting, require_room
from leakbound.engines.reading import Reader
from leakbound.engines.tokens import Detokenizer, words_of
from leakbound.errors import InputError
from leakbound.sampling.outputs import Sampler
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Exploration,
    Failure,
    JsonObject,
    Leads,
    ProbedPrompt,
    Proving,
    Query,
    Ranges,
    Reading,
    Redrawn,
    Sample,
    Tell,
    Usage,
    untold,
)

_LIGHT = math.log(1e-6)


@dataclass(frozen=True, slots=True)
class RowBudget:
    """The default limits on the number of prefixes in a forward pass.

    Attributes:
        most: the largest number of rows (prefixes in one forward pass).
        cache: the largest number of bytes for the keys and values of the generated tokens of stored
            prefixes. A forward pass may always have 16 rows.
        rule: the description of these limits in fingerprints. It has no numbers of a particular
            GPU, so that a run may resume on another GPU.
    """

    most: int
    cache: int
    rule: str

    @classmethod
    def of(cls, device: torch.device) -> RowBudget:
        """Return the limits for a device."""
        cache = memory_for_keys(device)
        if device.type == "cuda":
            stored = "at most 16384 are kept, in an eighth of the GPU's memory"
            return cls(4096, cache, f"at most 4096 sequences per forward pass; {stored}")
        stored = f"at most 4096 are kept, within {cache} bytes"
        return cls(1024, cache, f"at most 1024 sequences per forward pass; {stored}")

    def rows(self, model: Any, max_new_tokens: int, rows: int | None = None) -> tuple[int, int]:
        """Return the numbers of rows of a forward pass (`rows` if given) and of stored prefixes."""
        config = model.config.get_text_config()
        attention = getattr(config, "num_attention_heads", 1)  # a state-space model has no heads
        heads = getattr(config, "num_key_value_heads", None) or attention
        width = getattr(config, "head_dim", None) or config.hidden_size // attention
        size = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize * max_new_tokens
        fit = int(self.cache // size)
        rows = max(16, min(self.most, fit)) if rows is None else rows
        return rows, max(rows, min(4 * rows, fit))


class TransformersEngine:
    """Draw completions with transformers; see `Generate` and `Explores` for the contracts.

    `rows` is part of the fingerprint, because results are rounded differently in batches of other
    shapes. Up to four times as many prefixes are stored if they fit into memory.

    Args:
        loaded: the model, from `load_model`.
        prompting: how questions become prompts (None: `Prompting()`).
        rows: the number of prefixes in a forward pass. None: at most 1,024, with at most 2 GiB of
            keys and values. On a GPU, None means at most 4,096, with at most an eighth of the GPU's
            memory for keys and values.
    """

    def __init__(
        self, loaded: LoadedModel, prompting: Prompting | None = None, *, rows: int | None = None
    ) -> None:
        self.usage = Usage()
        self.tell: Tell = untold
        self.loaded = loaded
        self.prompting = prompting or Prompting()
        self._rows, self._budget = rows, RowBudget.of(loaded.model.device)
        self._ends = self.prompting.ends(loaded.tokenizer, loaded.eos_token_ids)
        self._text = Detokenizer(loaded.tokenizer, self._ends)
        self._seam, note = prefix_model(loaded.model, self._ends)
        self.usage.notes += [note] if note else []
        self.usage.notes += end_notes(loaded.tokenizer, loaded.eos_token_ids, self._ends)
        self.usage.notes += self.prompting.notes(loaded.tokenizer)
        self._probed: tuple[tuple[int, ...], ...] = ()  # prompts for measuring the margin
        self._margin: float | None = None  # not measured yet

    @classmethod
    def open(
        cls,
        location: str,
        prompting: Prompting | None = None,
        *,
        queries: Sequence[Query] = (),
        **loading: Any,
    ) -> TransformersEngine:
        """Load the model at `location` and return its engine.

        Args:
            location: a folder, a `.gguf` file (dequantised), or a hub name.
            prompting: how questions become prompts (None: `Prompting()`).
            queries: queries whose prompts are made before the weights are loaded.
            loading: `dtype`, `device` and `trust_remote_code`, see `load_model`.

        Returns:
            The engine.

        Raises:
            InputError: an unknown dtype or device, or a query whose prompt cannot be made.
            ModelError: a model that cannot be used.
        """
        rule = prompting or Prompting()

        def make_prompts(tokenizer: Any) -> None:
            for query in queries:
                rule.encode(tokenizer, query)

        return cls(load_model(location, before=make_prompts, **loading), rule)

    @property
    def fingerprint(self) -> JsonObject:
        """The model's fingerprint, the prompting, and how logits are computed."""
        return {
            **self.loaded.fingerprint,
            "end_tokens": sorted(self._ends),
            "engine": "transformers",
            "prompting": self.prompting.describe(self.loaded.tokenizer),
            "arithmetic": arithmetic(self.loaded.model.device),
            "row_budget": self._budget.rule if self._rows is None else self._rows,
        }

    @cached_property
    def probe(self) -> tuple[ProbedPrompt, ...]:
        """See `Probes.probe`."""
        return probe(self.loaded, self.prompting)

    @property
    def machine(self) -> JsonObject:
        """The settings that affect the exact draws, but not their distribution."""
        cascade = getattr(self._seam, "cascade", None)
        return {
            "device": str(self.loaded.model.device.type),
            "threads": torch.get_num_threads(),
            "vectors": torch.backends.cpu.get_cpu_capability(),
            "prompts_read_once": asdict(cascade) if cascade else None,
        }

    @property
    def margin(self) -> float:
        """See `Probabilistic.margin`; infinite for weights in half precision."""
        if self._margin is None:
            self._margin = shape_margin(self._seam, self._probed)
        return self._margin

    def measure(self, queries: Sequence[Query]) -> None:
        """Measure the margin after these queries' prompts (see `Measures.measure`, `shape_margin`).

        Without this call, `explore` and `force` measure the margin with their first queries.

        Args:
            queries: the queries that will be drawn or explored; the prompts of some queries are
                used.
        """
        probed = probed_prompts(map(self.prompt_ids, queries), self.loaded.context_length)
        if probed != self._probed:
            self._probed, self._margin = probed, None

    def rows(self, max_new_tokens: int) -> tuple[int, int]:
        """Return the numbers of prefixes in a forward pass, and in memory.

        Args:
            max_new_tokens: the largest number of tokens of a completion.

        Returns:
            The number of rows of a forward pass, and the number of stored prefixes.
        """
        return self._budget.rows(self.loaded.model, max_new_tokens, self._rows)

    def prompt_ids(self, query: Query) -> tuple[int, ...]:
        """Return the tokens of the query's prompt.

        Args:
            query: the query.

        Returns:
            Token ids, see `Prompting.encode`.
        """
        return tuple(self.prompting.encode(self.loaded.tokenizer, query))

    def words(self, texts: Sequence[str]) -> list[list[str | None]]:
        """See `Tokenizes.words`."""
        return words_of(self.loaded.tokenizer, texts)

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse a query that does not fit the context together with its completion.

        Args:
            queries: the queries to draw for.
            decoding: limits the length of completions.

        Raises:
            InputError: a query that does not fit, or that the chat template refuses.
            ModelError: a chat template that leaves the question out.
        """
        limit, prompts = self.loaded.context_length, [*map(self.prompt_ids, queries)]
        for query, prompt in zip(queries, prompts, strict=True):
            require_room(query, len(prompt), decoding, limit)
        if decoding.max_thinking_tokens is not None:
            self._text.budget(decoding, prompts)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query, as they finish.

        Args:
            queries: the queries to draw for.
            decoding: the distribution to draw from.
            draws: the draws of each query, and their key.

        Returns:
            An iterator, with a Failure for each query after which the model's logits are unusable.

        Raises:
            InputError: a prompt that the chat template refuses.
            ModelError: a chat template that leaves the question out.
        """
        if not decoding.two_passes:
            yield from self._grow(queries, decoding, draws)
            return

        def tell(draws: int, tokens: int, note: str = "") -> None:
            self.tell(0, tokens)  # greedy answers do not count as draws

        look = partial(self._grow, tell=tell)
        drawn = self.usage.draws
        for sample in in_two_passes(queries, decoding, draws, look=look, grow=self._grow):
            drawn += sample.n if isinstance(sample, Sample) else 0
            yield sample
        self.usage.draws = drawn

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Yield one Exploration or Failure for each query; see `Explores.explore`.

        Args:
            queries: the queries to explore.
            decoding: the distribution to explore.
            effort: the number of forward passes per query, one per prefix, and the mode.
            ranges: the lowest and highest possible final score of each beginning of a text.

        Returns:
            An iterator, in any order.

        Raises:
            InputError: half-precision weights, adaptive temperature in two passes, or `max_tokens`.
                The errors of the output probabilities then have no known limit.
        """
        yield from self._exact(decoding, queries).explore(queries, decoding, effort, ranges)

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """Teacher-force each text and the end token after it; see `Explores.force`.

        Args:
            texts: each query with a text. A text longer than the decoding allows is cut.
            decoding: the distribution under which outputs have their probabilities.

        Returns:
            A completion of count 0 for each text; None if the decoding cannot produce the text. The
                result is also None if the tokens of prompt and text together do not begin with the
                tokens of the prompt. Such a text is not an output of this prompt, and a note lists
                its query.

        Raises:
            InputError: a decoding or weights that `explore` refuses.
        """
        sampler = self._exact(decoding, [query for query, _ in texts])
        outputs = [(query, self._output(query, text, decoding)) for query, text in texts]
        self._note_refused([query.id for query, ids in outputs if not ids])
        return sampler.force(outputs, decoding)

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """Teacher-force generated token ids; see `Retraces.force_ids`.

        Args:
            outputs: each query with the token ids of a complete output, or of a prefix that several
                outputs share.
            decoding: the distribution under which outputs have their probabilities.

        Returns:
            A completion of count 0 for each output; None if the decoding cannot produce it.

        Raises:
            InputError: a decoding or weights that `explore` refuses.
        """
        return self._exact(decoding, [query for query, _ in outputs]).force(
            outputs, decoding, beginnings=True
        )

    def redraw(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        """Check whether these draws result in the stored completions; see `Redraws.redraw`.

        Args:
            queries: the queries that were drawn for.
            decoding: the distribution that was drawn from.
            draws: the draws of each query, and their key.
            stored: the completions of each query, by its id.

        Returns:
            An iterator, one Redrawn per query.

        Raises:
            InputError: a decoding or weights that `explore` refuses.
        """
        yield from self._exact(decoding, queries).retrace(queries, decoding, draws, stored)

    def prove(
        self, queries: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        """Yield one Proving or Failure for each query, in order; see `Proves.prove`.

        Args:
            queries: each query with texts that leak; texts that are not outputs are ignored.
            decoding: the distribution to search.
            forwards: the largest number of forward passes per query, one per prefix.
            ranges: the lowest and highest possible final score of each beginning of a text.

        Returns:
            An iterator.

        Raises:
            InputError: a decoding or weights that `explore` refuses.
        """
        sampler = self._exact(decoding, [query for query, _ in queries])
        leads = [
            (query, [ids for text in texts if (ids := self._output(query, text, decoding))])
            for query, texts in queries
        ]
        both = zip(queries, leads, strict=True)
        self._note_refused([query.id for (query, texts), (_, ids) in both if texts and not ids])
        yield from sampler.prove(leads, decoding, forwards, ranges)

    def _output(self, query: Query, text: str, decoding: Decoding) -> tuple[int, ...] | None:
        """See `Prompting.output`; the output is cut at the budgets of the decoding."""
        ids = self.prompting.output(self.loaded.tokenizer, query, text)
        if ids is None or decoding.max_thinking_tokens is None:
            return ids and ids[: decoding.max_new_tokens]
        return self._text.budget(decoding, [self.prompt_ids(query)]).cut(ids)

    def _note_refused(self, query_ids: Sequence[str]) -> None:
        """Note the queries whose texts are not outputs of their prompts."""
        if query_ids:
            named = ", ".join(map(repr, dict.fromkeys(query_ids)))
            self.usage.notes.append(
                "texts of these queries cannot be used in proofs, because their tokens do not "
                f"continue the sampled prompt: {named}"
            )

    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        """Return the probabilities of answers, teacher-forced after queries; see `Reads.read`.

        Args:
            texts: each query with an answer.

        Returns:
            One Reading per pair, in order.

        Raises:
            InputError: a pair with more tokens than the model's context allows.
            ModelError: logits that are NaN or infinite.
        """
        return self._reader.read(texts)

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        """Return the gradient norm of each answer; see `Reader.gradient_norms`.

        Args:
            texts: each query with an answer.

        Returns:
            One norm per pair, in order.

        Raises:
            InputError: an answer that is empty, or that is too long together with its prompt.
            ModelError: a gradient that is NaN or infinite.
        """
        return self._reader.gradient_norms(texts)

    @cached_property
    def _reader(self) -> Reader:
        # Models that branch a cache accept masks and positions; others may not.
        return Reader(self.loaded, self.prompting, shares=isinstance(self._seam, CachedModel))

    def _exact(self, decoding: Decoding, queries: Sequence[Query]) -> Sampler:
        """Return a sampler that computes exact probabilities after these prompts.

        Raises InputError if exact probabilities cannot be computed.
        """
        if why := decoding.inexact:
            raise InputError(f"{why}, or sample only.")
        if not self._probed:
            self.measure(queries)
        if not math.isfinite(self.margin):
            raise InputError(
                f"probabilities with weights in {self.loaded.model.dtype} are not exact, because "
                "they change too much with the batch, or are NaN. Use --dtype float32."
            )
        return self._sampler(decoding.longest)

    def _grow(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws, tell: Tell | None = None
    ) -> Iterator[Sample | Failure]:
        """Yield a sample or failure per query; queries with equal token limits share batches."""
        by_room: dict[int, list[Query]] = {}
        for query in queries:
            by_room.setdefault(decoding.room(len(self.prompt_ids(query))), []).append(query)
        for room, group in by_room.items():
            yield from self._sampler(room, tell).generate(group, decoding, draws, room)

    def _sampler(self, longest: int, tell: Tell | None = None) -> Sampler:
        """Return a sampler of completions with at most this number of tokens."""
        rows, live = self.rows(longest)
        return Sampler(
            model=self._seam,
            spells=self._text,
            prompt=self.prompt_ids,
            usage=self.usage,
            margin=self.margin,
            rows=rows,
            live=live,
            tell=tell or self.tell,
            lightest=_LIGHT,
        )


QUESTIONS = (
    "What is the capital of France?",
    "Who wrote the first book that you remember, and when?",
    "Write one sentence about the sea.",
)
_TOP = 5


@torch.inference_mode()
def probe(loaded: LoadedModel, prompting: Prompting) -> tuple[ProbedPrompt, ...]:
    """Return the likeliest tokens after the prompt of each fixed question, one prompt at a time.

    Args:
        loaded: the model.
        prompting: how questions become prompts.

    Returns:
        One ProbedPrompt per question. If a prompt is longer than the model's context, only its end
            is used. A prompt without a token is left out.
    """
    encoded = (prompting.encode(loaded.tokenizer, question) for question in QUESTIONS)
    prompts = [ids[-(loaded.context_length or len(ids)) :] for ids in encoded if ids]
    probed = []
    for ids in prompts:
        inputs = torch.tensor([ids], device=loaded.model.device)
        logits = loaded.model(input_ids=inputs, use_cache=False).logits[0, -1].double()
        logprobs, tokens = torch.log_softmax(logits, 0).topk(min(_TOP, len(logits)))
        values = [value if math.isfinite(value) else None for value in logprobs.tolist()]
        probed.append(ProbedPrompt(tuple(ids), tuple(zip(tokens.tolist(), values, strict=True))))
    return tuple(probed)
