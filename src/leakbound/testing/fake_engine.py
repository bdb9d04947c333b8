"""An engine without a model: probabilities that a test states, drawn by the real sampling code."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from leakbound.errors import InputError
from leakbound.sampling import Explorer, Forest, Leaf, Root, TableModel, force
from leakbound.sampling.ending import Ended
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Event,
    Exploration,
    Failure,
    Query,
    Ranges,
    Sample,
    Usage,
)

END = 0
_ROUNDING = 1e-9


class FakeEngine:
    """Draws, explores and forces completions whose probabilities are known. A token is a word.

    The next-word probabilities of the untruncated T = 1 model follow from those of whole
    completions; every decoding but `two_pass`, every seed and every number of draws is as with a
    model.

    Args:
        outputs: query id -> completion -> its probability at T = 1; they sum to 1. A query
            without a row is asked by the row of its prompt.
        name: part of the fingerprint.
        broken: ids of queries that fail, as a model does whose logits are NaN.
    """

    margin = _ROUNDING

    def __init__(
        self,
        outputs: Mapping[str, Mapping[str, float]],
        *,
        name: str = "fake",
        broken: Collection[str] = (),
    ) -> None:
        for query_id, law in outputs.items():
            if abs(math.fsum(law.values()) - 1) > _ROUNDING or min(law.values()) < 0:
                raise InputError(
                    f"the outputs of {query_id!r} must have probabilities that sum to 1, got "
                    f"{list(law.values())}."
                )
        self.usage = Usage()
        self.name, self.broken = name, frozenset(broken)
        words = {word for law in outputs.values() for text in law for word in text.split()}
        self._words = ["", *sorted(words)]
        self._ids = {word: i for i, word in enumerate(self._words)}
        self._rows = {query_id: i for i, query_id in enumerate(outputs)}
        laws = [
            {(*self._encode(text), END): p for text, p in law.items() if p}
            for law in outputs.values()
        ]
        self._masses = [_masses(law) for law in laws]
        self._model = TableModel(self._following, vocab_size=len(self._words), eos_token_ids=[END])
        self._digest = hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()

    @property
    def fingerprint(self) -> dict[str, str]:
        """The name, and a digest of the outputs."""
        return {"engine": "fake", "weights": f"{self.name} {self._digest[:12]}"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse a query without outputs, and a decoding that a table of words cannot have."""
        for query in queries:
            self._row(query)
        if decoding.adaptive_mode == "two_pass" or decoding.max_tokens is not None:
            raise InputError(
                "a fake engine has neither `two_pass` nor `max_tokens`. Leave them out."
            )

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """See `Generate.generate`."""
        forest = Forest(self._model, decoding, draws, ended=self._ended(decoding))
        for tree in forest.sample(self._roots(queries)):
            query = queries[tree.root]
            if tree.broken_at is not None:
                yield self._failure(query, tree.broken_at)
                continue
            completions = tuple(
                self._completion(leaf, count, draws.first_chunk + i, decoding)
                for leaf in tree.leaves
                for i, count in enumerate(leaf.counts)
                if count
            )
            yield Sample(query=query, decoding=decoding, completions=completions)
        self.usage.add(forest.usage)

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """See `Explores.explore`."""
        explorer = Explorer(
            self._model,
            decoding,
            effort,
            lambda root, nodes: ranges(
                queries[root], [(self._text(ids, decoding), ended) for ids, ended in nodes]
            ),
            margin=self.margin,
            ended=self._ended(decoding),
        )
        for found in explorer.explore(self._roots(queries)):
            query = queries[found.root]
            if found.broken_at is not None:
                yield self._failure(query, found.broken_at)
                continue
            events = tuple(
                Event(
                    text=self._text(node.token_ids, decoding),
                    token_ids=node.token_ids,
                    ended=node.ended,
                    mass=math.exp(node.floor),
                )
                for node in found.nodes
            )
            drawn = tuple(self._completion(x, sum(x.counts), 0, decoding) for x in found.leaves)
            yield Exploration(
                events=events,
                remainder=found.remainder,
                sample=Sample(query=query, decoding=decoding, completions=drawn),
                explored=found.explored,
                forwards=found.forwards,
            )
        self.usage.add(explorer.usage)

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """See `Explores.force`. A text longer than the decoding allows is cut there."""
        queries = [query for query, _ in texts]
        known = [set(text.split()) <= set(self._words) for _, text in texts]
        outputs = [
            (i, (*self._encode(text), END)[: decoding.max_new_tokens])
            for i, (_, text) in enumerate(texts)
            if known[i]
        ]
        leaves = iter(
            force(
                self._model,
                decoding,
                self._roots(queries),
                outputs,
                margin=self.margin,
                ended=self._ended(decoding),
            )
        )
        found = [next(leaves) if each else None for each in known]
        return [None if leaf is None else self._completion(leaf, 0, -1, decoding) for leaf in found]

    def _roots(self, queries: Sequence[Query]) -> list[Root]:
        """The first token of a prefix is the number of the law that it follows."""
        broken = len(self._masses)
        return [Root(q.id, (broken if q.id in self.broken else self._row(q),)) for q in queries]

    def _following(self, prefix: tuple[int, ...]) -> list[float]:
        """The next-word probabilities after a prefix."""
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
            f"the fake engine has no outputs for query {query.id!r}. There are: "
            f"{', '.join(self._rows)}."
        )

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._ids[word] for word in text.split())

    def _text(self, ids: tuple[int, ...], decoding: Decoding) -> str:
        text = " ".join(self._words[i] for i in ids if i != END)
        return text[: min((at for s in decoding.stop if (at := text.find(s)) >= 0), default=None)]

    def _ended(self, decoding: Decoding) -> Ended:
        def stopped(ids: tuple[int, ...]) -> bool:
            text = " ".join(self._words[i] for i in ids if i != END)
            return any(stop in text for stop in decoding.stop)

        return stopped

    def _failure(self, query: Query, broken_at: tuple[int, ...]) -> Failure:
        return Failure(query=query, reason=f"logits are NaN ({len(broken_at)} tokens)")

    def _completion(self, leaf: Leaf, count: int, chunk: int, decoding: Decoding) -> Completion:
        return Completion(
            text=self._text(leaf.token_ids, decoding),
            token_ids=leaf.token_ids,
            count=count,
            chunk=chunk,
            logprob=leaf.logprob,
            model_logprob=leaf.model_logprob,
            confidence=leaf.confidence,
            finish_reason=leaf.finish_reason,
            logprob_floor=leaf.floor,
        )


def _masses(law: Mapping[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    """Prefix -> the probability of all outputs that begin with it."""
    found: dict[tuple[int, ...], float] = {}
    for ids, p in law.items():
        for length in range(len(ids) + 1):
            found[ids[:length]] = found.get(ids[:length], 0.0) + p
    return found
