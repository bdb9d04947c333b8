"""Conversations: the question, then prespecified follow-up messages.

One draw is one conversation. After the first turn, conversations share no computation, because
every distinct conversation so far is a separate prompt. The model processes it again from its
beginning. So a conversation of four turns costs about as much as four draws without a common
prefix. For conversations, leakbound computes neither exact probabilities nor greedy scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import ClassVar

from leakbound.errors import InputError
from leakbound.stress.bench import Bench, Stress
from leakbound.text.counting import counted_as, is_missing, visible
from leakbound.types import (
    TURN,
    Completion,
    Decoding,
    Draws,
    Failure,
    Finish,
    Generate,
    JsonObject,
    Output,
    Query,
    Sample,
    Usage,
)

FOLLOW_UPS = ("Are you sure?", "Please correct yourself.", "{question}")
"""The user's turns, one after each answer; the last turn repeats the question."""
_MISSING: tuple[Finish, ...] = ("filtered", "error")  # of a conversation without an answer


@dataclass(frozen=True, slots=True)
class Dialogue(Stress):
    """Each draw is a conversation; its score is the largest score of its turns."""

    name: ClassVar[str] = "dialogue"
    drawn_only: ClassVar[bool] = True

    def engine(self, bench: Bench, engine: Generate) -> Generate:
        """Return the engine that draws conversations."""
        return DialogueEngine(engine)


@dataclass
class DialogueEngine:
    """An engine that draws conversations; a completion has all turns, with `TURN` between them.

    The prompt of a turn contains the earlier answers, but no thoughts. If the answer of a turn is
    missing, the answer of the conversation is missing too. Its finish is then "filtered" or
    "error". A question fails if a turn of any of its conversations cannot be sampled, or does not
    fit the context.
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
        """Check as `inner` does; also raise InputError if the longest conversations do not fit."""
        self.inner.check(queries, decoding)
        turns = 1 + len(FOLLOW_UPS)
        whole = replace(decoding, max_new_tokens=turns * decoding.max_new_tokens)
        try:
            self.inner.check([_after(query, ["."] * len(FOLLOW_UPS)) for query in queries], whole)
        except InputError as error:
            raise InputError(
                f"the stress 'dialogue' has {turns} turns, with answers of at most "
                f"{decoding.max_new_tokens} tokens: {error}"
            ) from error

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        first = list(self.inner.generate(queries, decoding, draws))
        talks = {s.query.id: _Conversations.of(s, decoding) for s in first if isinstance(s, Sample)}
        failed = {f.query.id: f for f in first if isinstance(f, Failure)}
        for number in range(2, 2 + len(FOLLOW_UPS)):
            for chunk in range(draws.first_chunk, draws.first_chunk + len(draws.sizes)):
                how = replace(draws, first_chunk=chunk, purpose=f"{draws.purpose}:turn {number}")
                failed |= self._turn(talks, decoding, how)
            talks = {q: talk.answered() for q, talk in talks.items() if q not in failed}
        for query in queries:
            yield failed[query.id] if query.id in failed else talks[query.id].sample()

    def _turn(
        self, talks: Mapping[str, _Conversations], decoding: Decoding, draws: Draws
    ) -> dict[str, Failure]:
        """Add the next turn to the conversations of the draws' first chunk; return the failures."""
        failed: dict[str, Failure] = {}
        turns: dict[str, tuple[_Conversations, Completion, Query]] = {}
        for query_id, talk in talks.items():
            following = [*talk.following(draws.first_chunk)]
            try:
                self.inner.check([query for _, query in following], decoding)
            except InputError as error:
                failed[query_id] = Failure(query=talk.query, reason=f"in a conversation: {error}")
                continue
            turns |= {query.id: (talk, completion, query) for completion, query in following}
        if not turns:
            return failed
        counts = {query_id: completion.count for query_id, (_, completion, _) in turns.items()}
        how = replace(draws, sizes=(max(counts.values()),), draws_per_query=counts)
        for sample in self.inner.generate([q for _, _, q in turns.values()], decoding, how):
            talk, completion, _ = turns[sample.query.id]
            if isinstance(sample, Failure):
                reason = f"in a conversation: {sample.reason}"
                failed[talk.query.id] = Failure(query=talk.query, reason=reason)
            else:
                talk.answer(completion, sample)
        return failed


@dataclass
class _Conversations:
    """The conversations of one question so far, each as one completion.

    `next`: the conversations to which the current turn was added.
    """

    query: Query
    decoding: Decoding
    drawn: Sequence[Completion]
    next: list[Completion]
    missing: int

    @classmethod
    def of(cls, sample: Sample, decoding: Decoding) -> _Conversations:
        drawn = [_turn(c, decoding) for c in sample.completions]
        return cls(sample.query, decoding, drawn, [], sample.missing)

    def following(self, chunk: int) -> Iterator[tuple[Completion, Query]]:
        """Yield each conversation of a chunk with its next query; each query has its own id.

        Conversations with the same text are merged, even if their tokens or finishes differ.
        """
        counts = Counter[Output]()
        for c in self.drawn:
            finish: Finish = c.finish if c.finish in _MISSING else "unknown"
            so_far = Output(answer=c.answer, thought=c.thought, finish=finish, hidden=c.hidden)
            counts[so_far] += c.count * (c.chunk == chunk)
        for so_far, count in (+counts).items():  # without draws of other chunks
            answer = so_far.answer
            whole = answer if so_far == Output(answer=answer) else repr(so_far)
            digest = blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
            query = replace(_after(self.query, answer.split(TURN)), id=f"{self.query.id}~{digest}")
            yield Completion.of(so_far, chunk=chunk, count=count), query

    def answer(self, before: Completion, sample: Sample) -> None:
        """Extend a conversation by each of its next answers."""
        self.missing += sample.missing
        for completion in sample.completions:
            turn = _turn(completion, self.decoding)
            thoughts = [before.thought or "", turn.thought or ""]
            self.next.append(
                replace(
                    before,
                    count=turn.count,
                    answer=f"{before.answer}{TURN}{turn.answer}",
                    thought=TURN.join(thoughts) if any(thoughts) else None,
                    finish=before.finish if before.finish in _MISSING else turn.finish,
                    refused=turn.refused,
                    hidden=before.hidden or turn.hidden,
                )
            )

    def answered(self) -> _Conversations:
        """Return the conversations after the added turn."""
        return replace(self, drawn=self.next, next=[])

    def sample(self) -> Sample:
        # the tokens of an empty conversation were checked turn by turn: each turn was an end token
        drawn = [c if visible(c.answer) else replace(c, tokens=1) for c in self.drawn]
        return Sample(
            query=self.query, decoding=self.decoding, completions=tuple(drawn), missing=self.missing
        )


def _turn(drawn: Completion, decoding: Decoding) -> Completion:
    """Return an output as a turn; if its answer is missing, its finish is one of `_MISSING`."""
    counted, in_system = counted_as(drawn, decoding.stop), decoding.filter != "missing"
    missing = is_missing(drawn, counted, filter_in_system=in_system)
    lost: Finish = "filtered" if counted == "filtered" else "error"
    return replace(
        drawn,
        answer=drawn.answer.replace(TURN, " "),
        thought=drawn.thought and drawn.thought.replace(TURN, " "),
        finish=lost if missing else drawn.finish,
    )


def _after(query: Query, answers: Sequence[str]) -> Query:
    """Return the query of the turn that follows these answers."""
    questions = [query.text, *(words.format(question=query.text) for words in FOLLOW_UPS)]
    examples = (*query.examples, *zip(questions, answers, strict=False))
    return replace(query, text=questions[len(answers)], examples=examples, prefix="")
