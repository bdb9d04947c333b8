"""Convert results of draws, exploration, teacher forcing and proofs to engine types with texts."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from leakbound.sampling.budget import Budget, Budgeted
from leakbound.sampling.explore import Explorer
from leakbound.sampling.forced import force
from leakbound.sampling.forest import Forest
from leakbound.sampling.model import Ids, OutputTree, PrefixModel
from leakbound.sampling.prove import prove
from leakbound.sampling.retrace import Retracer, StoredOutputs
from leakbound.sampling.search import Settle
from leakbound.sampling.stems import Leaf, Node, Root
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Effort,
    Event,
    Exploration,
    Failure,
    Finish,
    Parts,
    Proving,
    Query,
    Ranges,
    Redrawn,
    Sample,
    Tell,
    Usage,
    untold,
)

FORCED = -1  # the chunk of a completion that was not drawn
_EXPLORE_ROWS = 64  # prefixes forwarded together in an exploration or a search for proofs


class Spells(Protocol):
    """Convert generated ids to texts; an output ends at the first stop string in its text."""

    def parts(self, ids: Ids, stop: Sequence[str], prompt: Ids = ()) -> Parts:
        """Return the thought and the answer of a complete output.

        Args:
            ids: generated ids, including the end token.
            stop: the stop strings; the output ends at the first one in its text.
            prompt: the tokens of the prompt, which may open a thought.

        Returns:
            The thought and the answer.
        """
        ...

    def settled(self, ids: Ids, stop: Sequence[str], prompt: Ids = ()) -> Parts:
        """Return the beginnings of thought and answer that all outputs with this prefix share.

        Args:
            ids: generated ids.
            stop: the stop strings; an output ends at the first one in its text.
            prompt: the tokens of the prompt, which may open a thought.

        Returns:
            The beginnings of thought and answer; the answer is empty until it has certainly begun.
        """
        ...

    def budget(self, decoding: Decoding, prompts: Sequence[Ids]) -> Budget:
        """Return the budgets of thought and answer of a decoding that has `max_thinking_tokens`.

        Args:
            decoding: a decoding with budgets.
            prompts: the prompts of the outputs.

        Returns:
            The budgets.

        Raises:
            InputError: the model has no tokens that mark a thought, the budget is smaller than the
                number of these tokens, or only some of the prompts open a thought.
        """
        ...

    def stopped(self, stop: Sequence[str]) -> Callable[[Ids], bool]:
        """Return a function that tests whether the text of ids contains a stop string.

        Args:
            stop: the strings.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sampler:
    """Draw, explore and teacher-force completions; see `Forest`, `Explorer` and `force`.

    Attributes:
        model: computes the logits of prefixes.
        spells: converts generated ids to texts.
        prompt: returns the tokens of a query's prompt.
        usage: the total cost is added to this object.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).
        rows: the largest number of prefixes in a forward pass.
        live: the largest number of stored prefixes, see `Forest`.
        tell: receives the progress after every step.
        lightest: the lowest log-probability of open prefixes that an exploration returns.
    """

    model: PrefixModel
    spells: Spells
    prompt: Callable[[Query], Sequence[int]]
    usage: Usage
    margin: float = 0.0
    rows: int = 1024
    live: int = 0
    tell: Tell = untold
    lightest: float = -math.inf

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws, longest: int | None = None
    ) -> Iterator[Sample | Failure]:
        """See `Generate.generate`; `longest` limits the tokens of a completion."""
        started, roots = time.perf_counter(), self._roots(queries)
        limited = decoding
        if longest is not None and longest != decoding.longest:
            limited = replace(decoding, max_new_tokens=longest)
        tree = self._tree(roots, limited)
        for drawn in Forest(tree, draws, live=self.live).sample(roots):
            query, prompt = queries[drawn.root], roots[drawn.root].token_ids
            if drawn.broken_at is not None:
                yield self._failure(query, drawn.broken_at)
            else:
                yield self._sample(query, decoding, drawn.leaves, draws.first_chunk, prompt)
        self._count(tree.usage, started)

    def retrace(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        """See `Redraws.redraw`."""
        started, roots = time.perf_counter(), self._roots(queries)
        tree = self._tree(roots, decoding)
        outputs = {query_id: _outputs(own) for query_id, own in stored.items()}
        for traced in Retracer(tree, draws, live=self.live).retrace(roots, outputs):
            after = None if traced.differs_at is None else len(traced.differs_at)
            yield Redrawn(query=queries[traced.root], differs_after=after, excused=traced.excused)
        self._count(tree.usage, started)

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """See `Explores.explore`."""
        started, roots = time.perf_counter(), self._roots(queries)
        tree = self._tree(roots, decoding, _EXPLORE_ROWS)
        settle = self._settle(queries, roots, decoding, ranges)
        for explored in Explorer(tree, settle, effort).explore(roots):
            query, prompt = queries[explored.root], roots[explored.root].token_ids
            if explored.broken_at is not None:
                yield self._failure(query, explored.broken_at)
            else:
                yield Exploration(
                    events=tuple(
                        self._with_mass(node, decoding.stop, prompt)
                        for node in explored.nodes
                        if node.ended or node.low == node.high or node.floor >= self.lightest
                    ),
                    remainder=explored.remainder,
                    sample=self._sample(query, decoding, explored.leaves, 0, prompt),
                    explored=explored.explored,
                    forwards=explored.forwards,
                )
        self._count(tree.usage, started)

    def prove(
        self,
        query_leads: Sequence[tuple[Query, Sequence[Ids]]],
        decoding: Decoding,
        forwards: int,
        ranges: Ranges,
    ) -> Iterator[Proving | Failure]:
        """See `Proves.prove`; a lead is the ids of an output."""
        queries = [query for query, _ in query_leads]
        started, roots = time.perf_counter(), self._roots(queries)
        tree = self._tree(roots, decoding, _EXPLORE_ROWS)
        settle = self._settle(queries, roots, decoding, ranges)
        leads = [ids for _, ids in query_leads]
        for proof in prove(tree, settle, forwards, roots, leads):
            query, prompt = queries[proof.root], roots[proof.root].token_ids
            if proof.broken_at is not None:
                yield self._failure(query, proof.broken_at)
            else:
                nodes = (self._with_mass(node, decoding.stop, prompt) for node in proof.nodes)
                yield Proving(
                    query=query,
                    events=tuple(nodes),
                    lows=tuple(node.low for node in proof.nodes),
                    forwards=proof.forwards,
                )
        self._count(tree.usage, started)

    def _tree(
        self, roots: Sequence[Root], decoding: Decoding, most: int = sys.maxsize
    ) -> OutputTree:
        """Return the output tree of some roots, with at most `most` prefixes per forward pass."""
        stopped = self.spells.stopped(decoding.stop)
        model, rows = self.model, min(most, self.rows)
        budget = None
        if decoding.max_thinking_tokens is not None:
            budget = self.spells.budget(decoding, [root.token_ids for root in roots])
            model = Budgeted(model, budget)

        def ended(ids: Ids) -> Finish | None:
            if stopped(ids):
                return "stop_string"
            return "length" if budget is not None and budget.spent(ids) else None

        return OutputTree(model, decoding, self.margin, rows, ended, self.tell)

    def _settle(
        self, queries: Sequence[Query], roots: Sequence[Root], decoding: Decoding, ranges: Ranges
    ) -> Settle:
        """Return a function that maps ids of a query to the range of scores of the ids' text."""

        def settle(
            root: int, nodes: Sequence[tuple[Ids, Finish | None]]
        ) -> list[tuple[float, float]]:
            prompt = roots[root].token_ids
            events = [self._event(*node, decoding.stop, prompt) for node in nodes]
            return ranges(queries[root], events)

        return settle

    def force(
        self,
        outputs: Sequence[tuple[Query, Ids | None]],
        decoding: Decoding,
        beginnings: bool = False,
    ) -> list[Completion | None]:
        """Return the completion of each query's ids; None for absent ids and for impossible ids.

        `beginnings`: see the function `force`. The text of a beginning is the text that all outputs
        with this beginning share.
        """
        numbers = {query: i for i, query in enumerate(dict.fromkeys(q for q, _ in outputs))}
        roots = self._roots([*numbers])
        tree = replace(self._tree(roots, decoding), tell=untold)
        sequences = [(numbers[query], ids or ()) for query, ids in outputs]
        leaves = force(tree, roots, sequences, beginnings)
        prompts = (roots[numbers[query]].token_ids for query, _ in outputs)
        return [
            None
            if leaf is None
            else _completion(leaf, self._read(leaf, decoding.stop, prompt), 0, FORCED)
            for leaf, prompt in zip(leaves, prompts, strict=True)
        ]

    def _read(self, leaf: Leaf, stop: Sequence[str], prompt: Ids) -> Parts:
        read = self.spells.settled if leaf.finish == "unknown" else self.spells.parts
        return read(leaf.token_ids, stop, prompt)

    def _roots(self, queries: Sequence[Query]) -> list[Root]:
        return [Root(query.id, tuple(self.prompt(query))) for query in queries]

    def _with_mass(self, node: Node, stop: Sequence[str], prompt: Ids) -> Event:
        event = self._event(node.token_ids, node.finish, stop, prompt)
        return replace(event, mass=math.exp(node.floor))

    def _event(self, ids: Ids, finish: Finish | None, stop: Sequence[str], prompt: Ids) -> Event:
        """Return the output with these ids; without a finish, all outputs that begin with them."""
        read = self.spells.settled if finish is None else self.spells.parts
        thought, answer, ended = read(ids, stop, prompt)
        return Event(
            answer=answer,
            thought=thought,
            finish=ended or finish or "unknown",
            tokens=len(ids) if finish else None,
            token_ids=ids,
            ended=finish is not None,
        )

    def _failure(self, query: Query, broken_at: Ids) -> Failure:
        thought, answer, _ = self.spells.parts(broken_at, ())
        where = f"{(thought or '') + answer!r} ({len(broken_at)} tokens)"
        return Failure(query=query, reason=f"the model's logits are NaN or infinite after {where}")

    def _sample(
        self,
        query: Query,
        decoding: Decoding,
        leaves: Sequence[Leaf],
        first_chunk: int,
        prompt: Ids,
    ) -> Sample:
        completions = tuple(
            _completion(leaf, parts, count, first_chunk + i)
            for leaf in leaves
            for parts in [self.spells.parts(leaf.token_ids, decoding.stop, prompt)]
            for i, count in enumerate(leaf.counts)
            if count
        )
        return Sample(query=query, decoding=decoding, completions=completions)

    def _count(self, spent: Usage, started: float) -> None:
        spent.seconds = time.perf_counter() - started
        self.usage.add(spent)


def _outputs(completions: Sequence[Completion]) -> StoredOutputs:
    """Return each distinct output once, with its count in every chunk."""
    outputs: dict[Ids, Counter[int]] = {}
    for drawn in completions:
        outputs.setdefault(drawn.token_ids or (), Counter())[drawn.chunk] += drawn.count
    return list(outputs.items())


def _completion(leaf: Leaf, parts: Parts, count: int, chunk: int) -> Completion:
    return Completion(
        answer=parts.answer,
        thought=parts.thought,
        finish=parts.finish or leaf.finish,
        tokens=len(leaf.token_ids),
        token_ids=leaf.token_ids,
        count=count,
        chunk=chunk,
        logprob=leaf.logprob,
        model_logprob=leaf.model_logprob,
        confidence=leaf.confidence,
        logprob_floor=leaf.floor,
    )
