"""A run's weighted draws against the models that they are of, by teacher forcing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakbound.certificate.checks import Check, Difference, Status, mark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.prove import arms_to_prove
from leakbound.evaluation.drawing.weigh import Proposal, measure_both, shown_after
from leakbound.store import Arm, Run, WeighedText
from leakbound.types import Decoding, Generate, LogRange, Progress, Query, Weighs

NAME = "weights"
_ROUNDING = 1e-9


def check_weighed(
    run: Run, arm: Arm, slug: str, engines: Sequence[Generate], progress: Progress
) -> Iterator[Check]:
    """Whether the weighted draws of a scorer have the probabilities that both models give them.

    `engines`: the model, and the one that proposed, where that is given.
    """
    drawn = arm.weighed.read(slug)
    if drawn is None:
        return
    engine = engines[0]
    other = engine if drawn.shown else engines[-1] if len(engines) > 1 else None
    asks = shown_after(run, arms_to_prove(run), engine) if drawn.shown else _same
    queries = {query.id: query for query in arm.queries}
    texts = {queries[one.query_id]: one.texts for one in drawn.queries}
    says = "each weighted draw has the probability that the model gives it"
    says += (
        ", and the one that proposed"
        if other
        else ("; the model that proposed was not asked: name it with --with-proposal")
    )
    try:
        proposal = Proposal(other or engine, asks, drawn.shown)
        measure_both(arm, engine, proposal, list(texts))
        differing = list[Difference]()
        for done, (query, mine) in enumerate(texts.items()):
            progress("weighing again", done, len(texts), "questions")
            ours = [(x.least, x.logprob, x.most) for x in mine]
            differing += _differing(engine, query, mine, ours, arm.decoding)
            if other:
                theirs = [(x.proposal_least, x.proposal_logprob, x.proposal_most) for x in mine]
                differing += _differing(other, asks(query), mine, theirs, arm.decoding)
        progress("weighing again", len(texts), len(texts), "questions")
    except InputError as error:
        yield Check(NAME, "unchecked", f"nothing was compared: {error}")
        return
    status: Status = mark(differing)
    yield Check(NAME, status, says, tuple(differing))


Ends = tuple[float | None, float | None, float | None]


def _differing(
    engine: Generate,
    query: Query,
    texts: Sequence[WeighedText],
    stored: Sequence[Ends],
    decoding: Decoding,
) -> Iterator[Difference]:
    """The outputs that have another probability now, beyond what margins allow."""
    if not isinstance(engine, Weighs):
        raise InputError(f"the engine {type(engine).__name__} gives no probabilities.")
    found = engine.log_ranges([(query, text.token_ids) for text in texts], decoding)
    for i, (then, now) in enumerate(zip(stored, found, strict=True)):
        if not _agree(then, now):
            value = None if now is None else now.value
            yield Difference(f"question {query.id!r}, its weighted draw {i}", then[1], value)


def _agree(then: Ends, now: LogRange | None) -> bool:
    """True unless a value lies outside the other's ends, or one is known and the other is not."""
    least, value, most = then
    if now is None or least is None or value is None or most is None:
        return now is None and value is None
    return (
        now.least - _ROUNDING <= value <= now.most + _ROUNDING
        and least - _ROUNDING <= now.value <= most + _ROUNDING
    )


def _same(query: Query) -> Query:
    return query
