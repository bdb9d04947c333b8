"""Whole conversations: the question, then follow-ups that were fixed beforehand.

One draw is one conversation. Its turns after the first share nothing: every distinct answer so far
is a prompt of its own, read anew. So a conversation of four turns costs about what four draws that
share no prefix cost, and there are no exact masses and no greedy score of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar

from leakbound.errors import InputError
from leakbound.stress.bench import Bench, WrittenStress
from leakbound.types import (
    TURN,
    Completion,
    Decoding,
    Draws,
    Failure,
    Generate,
    JsonObject,
    Query,
    Sample,
    Usage,
)

FOLLOW_UPS = ("Are you sure?", "Please correct yourself.", "{question}")
"""What is said after each answer; the last asks the question again."""


@dataclass(frozen=True, slots=True)
class Dialogue(WrittenStress):
    """Each draw a whole conversation, its score the largest of its turns."""

    name: ClassVar[str] = "dialogue"
    drawn_only: ClassVar[bool] = True

    def engine(self, bench: Bench, engine: Generate) -> Generate:
        """The engine that holds conversations."""
        return DialogueEngine(engine)


@dataclass
class DialogueEngine:
    """An engine that draws conversations: its completions are their turns, with `TURN` between.

    A question fails where one of its conversations does: where a turn cannot be sampled, or no
    longer fits the context.
    """

    inner: Generate

    @property
    def usage(self) -> Usage:
        return self.inner.usage

    @usage.setter
    def usage(self, value: Usage) -> None:
        self.inner.usage = value

    @property
    def fingerprint(self) -> JsonObject:
        return {**self.inner.fingerprint, "dialogue": list(FOLLOW_UPS)}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError also where four answers of full length would not fit the context."""
        self.inner.check(queries, decoding)
        turns = 1 + len(FOLLOW_UPS)
        whole = replace(decoding, max_new_tokens=turns * decoding.max_new_tokens)
        try:
            self.inner.check([_after(query, ["."] * len(FOLLOW_UPS)) for query in queries], whole)
        except InputError as error:
            raise InputError(
                f"the stress 'dialogue' asks {turns} times, with answers of at most "
                f"{decoding.max_new_tokens} tokens: {error}"
            ) from error

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        first = list(self.inner.generate(queries, decoding, draws))
        said = {one.query.id: _Conversations.of(one) for one in first if isinstance(one, Sample)}
        failed = {one.query.id: one for one in first if isinstance(one, Failure)}
        for number in range(2, 2 + len(FOLLOW_UPS)):
            for chunk in range(draws.first_chunk, draws.first_chunk + len(draws.sizes)):
                how = replace(draws, first_chunk=chunk, purpose=f"{draws.purpose}:turn {number}")
                failed |= self._turn(said, decoding, how)
            said = {q: one.answered() for q, one in said.items() if q not in failed}
        for query in queries:
            yield failed[query.id] if query.id in failed else said[query.id].sample(decoding)

    def _turn(
        self, said: Mapping[str, _Conversations], decoding: Decoding, draws: Draws
    ) -> dict[str, Failure]:
        """Add the next turn to the conversations of the draws' first chunk; what failed."""
        failed: dict[str, Failure] = {}
        asked: dict[str, tuple[_Conversations, Completion, Query]] = {}
        for query_id, one in said.items():
            following = [*one.following(draws.first_chunk)]
            try:
                self.inner.check([query for _, query in following], decoding)
            except InputError as error:
                failed[query_id] = Failure(query=one.query, reason=f"in a conversation: {error}")
                continue
            asked |= {query.id: (one, completion, query) for completion, query in following}
        if not asked:
            return failed
        counts = {query_id: completion.count for query_id, (_, completion, _) in asked.items()}
        how = replace(draws, sizes=(max(counts.values()),), draws_per_query=counts)
        for found in self.inner.generate([q for _, _, q in asked.values()], decoding, how):
            one, completion, _ = asked[found.query.id]
            if isinstance(found, Failure):
                reason = f"in a conversation: {found.reason}"
                failed[one.query.id] = Failure(query=one.query, reason=reason)
            else:
                one.answer(completion, found)
        return failed


@dataclass
class _Conversations:
    """Those of one question so far: each as one completion, and what follows them."""

    query: Query
    drawn: Sequence[Completion]
    next: list[Completion]
    missing: int

    @classmethod
    def of(cls, sample: Sample) -> _Conversations:
        said = [replace(one, text=one.text.replace(TURN, " ")) for one in sample.completions]
        return cls(sample.query, said, [], sample.missing)

    def following(self, chunk: int) -> Iterator[tuple[Completion, Query]]:
        """Each conversation of a chunk with what is asked next, under an id of its own.

        Those that read alike are one, however their answers were spelt in tokens, or ended.
        """
        counts = Counter[str]()
        for one in self.drawn:
            counts[one.text] += one.count * (one.chunk == chunk)
        for text, count in (+counts).items():  # without those of other chunks
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
            query = _after(self.query, text.split(TURN))
            said = Completion(chunk=chunk, count=count, text=text, token_ids=None)
            yield said, replace(query, id=f"{self.query.id}~{digest}")

    def answer(self, before: Completion, found: Sample) -> None:
        """Add what was answered to a conversation."""
        self.missing += found.missing
        for one in found.completions:
            self.next.append(
                replace(
                    before,
                    count=one.count,
                    text=f"{before.text}{TURN}{one.text.replace(TURN, ' ')}",
                    finish_reason=one.finish_reason,
                )
            )

    def answered(self) -> _Conversations:
        """The conversations with the turn that was added."""
        return _Conversations(self.query, self.next, [], self.missing)

    def sample(self, decoding: Decoding) -> Sample:
        return Sample(
            query=self.query, decoding=decoding, completions=tuple(self.drawn), missing=self.missing
        )


def _after(query: Query, answers: Sequence[str]) -> Query:
    """What is asked after so many answers to the query."""
    asked = [query.text, *(words.format(question=query.text) for words in FOLLOW_UPS)]
    examples = (*query.examples, *zip(asked, answers, strict=False))
    return replace(query, text=asked[len(answers)], examples=examples, prefix="")
