"""Engines without a model: the real sampling code uses probabilities that a test specifies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.sampling import TableModel
from leakbound.sampling.budget import Budget
from leakbound.sampling.outputs import Sampler
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Exploration,
    Failure,
    Parts,
    Query,
    Ranges,
    Sample,
    Usage,
)

END = 0
_ROUNDING = 1e-9


class WordEngine:
    """An engine that computes outputs from next-word probabilities; each token is a word.

    Args:
        words: all words; the first word is the end of an output, and has no text.
        number: returns the number of a query's distribution. Queries with the same number share
            prefixes.
        following: returns the probability of each word at T = 1, given `number` and the preceding
            words.
        margin: the declared margin for rounding in exploring and forcing.
    """

    def __init__(
        self,
        words: Sequence[str],
        number: Callable[[Query], int],
        following: Callable[[tuple[int, ...]], Sequence[float]],
        margin: float = 0.0,
    ) -> None:
        self.usage, self.margin = Usage(), margin
        self._words, self._ids = words, {word: i for i, word in enumerate(words)}
        self._number_of = number
        self._model = TableModel(following, vocab_size=len(words), eos_token_ids=[END])

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query; see `Generate.generate`.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.
            draws: the numbers and the keys of the draws.

        Returns:
            An iterator; a Failure for a query whose probabilities are NaN.
        """
        yield from self._sampler(0.0).generate(queries, decoding, draws)

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Yield one Exploration or Failure for each query; see `Explores.explore`.

        Args:
            queries: the queries.
            decoding: the distribution to explore.
            effort: the number of prefixes per query that are forwarded, and the mode.
            ranges: returns the lowest and highest score of all texts with a given beginning.

        Returns:
            An iterator, in any order.
        """
        yield from self._sampler(self.margin).explore(queries, decoding, effort, ranges)

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """Teacher-force each text and the end token after it; see `Explores.force`.

        Args:
            texts: each query with a text. A text that is too long for the decoding is truncated.
            decoding: the distribution under which texts have their probabilities.

        Returns:
            A completion of count 0 for each text; None if the decoding cannot produce it.
        """
        outputs = [
            (query, (*self._encode(text), END)[: decoding.max_new_tokens])
            if set(text.split()) <= set(self._words)
            else (query, None)
            for query, text in texts
        ]
        return self._sampler(self.margin).force(outputs, decoding)

    def parts(
        self, ids: tuple[int, ...], stop: Sequence[str], prompt: tuple[int, ...] = ()
    ) -> Parts:
        """Return the text of some tokens; see `Spells.parts`."""
        text = self._spelt(ids)
        return Parts(
            None, text[: min((at for s in stop if (at := text.find(s)) >= 0), default=None)]
        )

    settled = parts  # a word is never partial

    def budget(self, decoding: Decoding, prompts: Sequence[tuple[int, ...]]) -> Budget:
        """Raise InputError, because outputs without thoughts need no budget for thoughts."""
        raise InputError(f"`max_thinking_tokens` {decoding.max_thinking_tokens} needs thoughts.")

    def stopped(self, stop: Sequence[str]) -> Callable[[tuple[int, ...]], bool]:
        """Return a test for a stop string; see `Spells.stopped`."""
        return lambda ids: any(string in self._spelt(ids) for string in stop)

    def _sampler(self, margin: float) -> Sampler:
        return Sampler(self._model, self, self._prompt, self.usage, margin=margin)

    def _prompt(self, query: Query) -> tuple[int]:
        """Return the one token of a query's prompt: the number of its distribution."""
        return (self._number_of(query),)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._ids[word] for word in text.split())

    def _spelt(self, ids: tuple[int, ...]) -> str:
        return " ".join(self._words[i] for i in ids if i != END)


class FakeEngine(WordEngine):
    """An engine whose completions have probabilities that a test specifies. Each token is a word.

    The next-word probabilities of the untruncated model at T = 1 follow from the probabilities of
    completions. Every seed, every number of draws and every decoding that `check` accepts work as
    with a model.

    Args:
        outputs: for each query id, the completions with their probabilities at T = 1, which sum to
            1. A query without an entry uses the entry of its prompt.
        name: part of the fingerprint.
        broken: the ids of queries that fail, as with a model whose logits are NaN.

    Raises:
        InputError: for probabilities below 0, or that do not sum to 1.
    """

    def __init__(
        self,
        outputs: Mapping[str, Mapping[str, float]],
        *,
        name: str = "fake",
        broken: Collection[str] = (),
    ) -> None:
        for query_id, chances in outputs.items():
            if abs(math.fsum(chances.values()) - 1) > _ROUNDING or min(chances.values()) < 0:
                raise InputError(
                    f"the outputs of {query_id!r} must have probabilities that sum to 1, got "
                    f"{list(chances.values())}."
                )
        words = {word for chances in outputs.values() for text in chances for word in text.split()}
        super().__init__(["", *sorted(words)], self._number, self._following, _ROUNDING)
        self.name, self.broken = name, frozenset(broken)
        self._rows = {query_id: i for i, query_id in enumerate(outputs)}
        all_chances = [
            {(*self._encode(text), END): p for text, p in chances.items() if p}
            for chances in outputs.values()
        ]
        self._masses = [_masses(chances) for chances in all_chances]
        self._digest = sha256_of(json.dumps(outputs, sort_keys=True))

    @property
    def fingerprint(self) -> dict[str, str]:
        """Return the name, and a digest of the outputs."""
        return {"engine": "fake", "weights": f"{self.name} {self._digest[:12]}"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError for a query or a decoding that the fake engine does not support.

        Args:
            queries: the queries.
            decoding: the distribution to draw from.

        Raises:
            InputError: for a query without an entry, a decoding in two passes, or `max_tokens`.
        """
        for query in queries:
            self._row(query)
        if decoding.two_passes or decoding.max_tokens is not None:
            raise InputError(
                "a fake engine supports neither `two_pass` nor `max_tokens`. Omit them."
            )

    def _number(self, query: Query) -> int:
        return len(self._masses) if query.id in self.broken else self._row(query)

    def _following(self, prefix: tuple[int, ...]) -> list[float]:
        """Return the next-word probabilities after a prefix."""
        row, path = prefix[0], prefix[1:]
        if row == len(self._masses):
            return [math.nan] * len(self._words)
        masses = self._masses[row]
        return [masses.get((*path, i), 0.0) / masses[path] for i in range(len(self._words))]

    def _row(self, query: Query) -> int:
        for name in (query.id, query.prompt_id):
            if name in self._rows:
                return self._rows[name]
        raise InputError(
            f"the fake engine has no outputs for query {query.id!r}. Add them to the entries for "
            f"{', '.join(self._rows)}."
        )


def _masses(chances: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    """Return, for each prefix, the probability of all outputs that begin with the prefix."""
    masses: dict[tuple[int, ...], float] = {}
    for ids, p in chances.items():
        for length in range(len(ids) + 1):
            masses[ids[:length]] = masses.get(ids[:length], 0.0) + p
    return masses
