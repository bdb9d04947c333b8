"""Weighted draws where proofs end: importance sampling of what a model leaks beyond them.

A draw comes with probability `mix` from the model that proposes, else from the model under
evaluation, each a draw of its own and none of those that the proofs were found by. All of them are
teacher-forced through both models, by their tokens. What lies in the antichain that is proved is
counted there and is worth 0 here; it was fixed before the draws, so the two tell of disjoint
sets of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakbound.errors import InputError
from leakbound.evaluation.drawing.explore import PROVING, require_explorable, require_explores
from leakbound.evaluation.drawing.propose import open_proposal
from leakbound.evaluation.drawing.prove import arms_to_prove, require_proves
from leakbound.evaluation.drawing.said import shared_prompts
from leakbound.evaluation.drawing.sample import finished_run
from leakbound.evaluation.scoring.antichain import Events, antichains
from leakbound.evaluation.scoring.score import prompts_by_query, slug
from leakbound.scorers import score_texts
from leakbound.stats import order_key
from leakbound.store import Arm, Run, WeighedQuery, WeighedText
from leakbound.store.sealed import digest_of
from leakbound.study import Prove, Weighing
from leakbound.types import (
    Completion,
    Draws,
    Failure,
    Generate,
    Json,
    JsonObject,
    LogRange,
    Measures,
    Progress,
    Prompt,
    Query,
    Scorer,
    Weighs,
    silent,
)

Path = tuple[int, ...]
_PURPOSES = ("weigh:{}:proposal", "weigh:{}:model")  # words that stay the same, and key the draws


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who is drawn from beside the model under evaluation, and what is asked for a query of it."""

    engine: Generate
    asks: Callable[[Query], Query]
    shown: bool = False


def proposal_for(
    run: Run,
    arms: Sequence[Arm],
    engine: Generate,
    asked: Prove,
    opens: Callable[[str], Generate],
) -> Proposal:
    """Who proposes draws to `engine`: the first of the proposals, or the model shown the answers.

    Of a finished run it is the model that it was drawn from. Raises InputError for a model that is
    not there, has another tokenizer or whose probabilities are not exact, for a run about none of
    the questions, and where nobody proposes.
    """
    if asked.shows_answers:
        return Proposal(engine, shown_after(run, arms, engine), shown=True)
    if not asked.named:
        raise InputError(
            "`draws` are weighed against a model that proposes, and `proposal` 'none' is nobody. "
            "Name a model that leaks more, such as the one before unlearning, or leave `draws` out."
        )
    name = asked.named[0]
    if (source := finished_run(name)) is not None:
        other = Run.open(source)
        shared_prompts(run, other)
        name = arms_to_prove(other)[0].spec.model
        require_explorable(name, PROVING)
    return Proposal(open_proposal(name, opens, engine), lambda query: query)


def weigh_arms(
    run: Run,
    engine: Generate,
    scorer: Scorer,
    asked: tuple[Prove, Weighing],
    opens: Callable[[str], Generate],
    *,
    progress: Progress = silent,
) -> None:
    """Weigh draws beyond what is proved of every arm; failures are notes.

    `opens` opens the model that proposes, by its name. Raises what `proposal_for` does, and
    InputError where probabilities are not exact.
    """
    proving, weighing = asked
    arms = arms_to_prove(run)
    proposal = proposal_for(run, arms, engine, proving, opens)
    for arm in arms:
        require_proves(engine, arm, run)
        found = weigh_arm(arm, engine, proposal, scorer, weighing, progress)
        run.notes += [f"nothing is weighed of {one.query.id!r}: {one.reason}" for one in found]


def weigh_arm(
    arm: Arm,
    engine: Generate,
    proposal: Proposal,
    scorer: Scorer,
    asked: Weighing,
    progress: Progress = silent,
) -> list[Failure]:
    """Draw, weigh and store outputs of every question of an arm; who failed, and why.

    Goes on where it was stopped. What is stored of just these draws is left as it is. InputError
    where probabilities are not known or not exact.
    """
    name, events = slug(scorer), antichains(arm, scorer)
    made_from = _made_from(events, proposal, asked)
    if arm.weighed.has(name, made_from):
        return []
    queries = [query for query in arm.queries if query.id not in arm.failures]
    mixture = _Mixture(arm, engine, proposal, asked)
    measure_both(arm, engine, proposal, queries)
    begun, prompts = arm.weighed.begun(name, made_from), prompts_by_query(arm)
    found, failures = list[WeighedQuery](), list[Failure]()
    for done, query in enumerate(queries):
        progress(f"weighing {arm.name}", done, len(queries), "questions")
        one = begun.get(query.id)
        if one is None:
            proved = events.get(query.id, {})
            made = _weigh(query, mixture, proved, (scorer, prompts[query.id]))
            if isinstance(made, Failure):
                failures.append(made)
                continue
            begun.put(query.id, one := made)
        found.append(one)
    arm.weighed.write(name, found, (asked.draws, asked.mix), made_from)
    begun.remove()
    progress(f"weighing {arm.name}", len(queries), len(queries), "questions")
    return failures


@dataclass(frozen=True, slots=True)
class _Mixture:
    """What an arm's weighted draws come from: its model, and a proposal with a share of them."""

    arm: Arm
    engine: Generate
    proposal: Proposal
    asked: Weighing


def measure_both(arm: Arm, engine: Generate, proposal: Proposal, queries: Sequence[Query]) -> None:
    """Measure both margins after all that is asked of each engine; they stay the same then.

    InputError where the probabilities of one are not exact.
    """
    theirs = [proposal.asks(query) for query in queries]
    same = engine is proposal.engine
    for who, asks in (
        (engine, [*queries, *theirs] if same else queries),
        (proposal.engine, [*queries, *theirs] if same else theirs),
    ):
        if isinstance(who, Measures):
            who.measure(asks)
        require_explores(who, arm.name, arm.decoding, PROVING)


def _weigh(
    query: Query, mixture: _Mixture, proved: Events, asked: tuple[Scorer, Prompt]
) -> WeighedQuery | Failure:
    """The draws of a question, with what both models and the scorer make of them."""
    arm, engine, proposal = mixture.arm, mixture.engine, mixture.proposal
    drawn = _draws(query, mixture)
    if isinstance(drawn, Failure):
        return drawn
    ours = _weighs(engine).log_ranges([(query, ids) for ids in drawn], arm.decoding)
    asks = [(proposal.asks(query), ids) for ids in drawn]
    theirs = _weighs(proposal.engine).log_ranges(asks, arm.decoding)
    scores = score_texts(asked[0], [text.text for text in drawn.values()], asked[1])
    rows = [
        _weighed(text, both, _begun(proved, text.token_ids), score)
        for text, *both, score in zip(drawn.values(), ours, theirs, scores, strict=True)
    ]
    within = _weighs(engine).log_ranges([(query, ids) for ids in proved], arm.decoding, False)
    return _beside(query, proved, rows, within)


Drawn = dict[Path, WeighedText]
"""The distinct outputs that were drawn of a query, and how often; nothing else is known of them."""


def _draws(query: Query, mixture: _Mixture) -> Drawn | Failure:
    """The draws of the mixture: how many the proposal makes of them, chance decides too."""
    arm, drawn = mixture.arm, Drawn()
    proposed = _coins(arm, query, mixture.asked)
    for who, ask, draws, purpose in (
        (mixture.proposal.engine, mixture.proposal.asks(query), proposed, _PURPOSES[0]),
        (mixture.engine, query, mixture.asked.draws - proposed, _PURPOSES[1]),
    ):
        if not draws:
            continue
        purposed = purpose.format(arm.key)
        how = Draws(sizes=(draws,), seed=arm.spec.seed or 0, purpose=purposed)
        for one in who.generate([ask], arm.decoding, how):
            if isinstance(one, Failure):
                return Failure(query=query, reason=one.reason)
            for completion in one.completions:
                _count(drawn, query.id, completion)
    return drawn


def _coins(arm: Arm, query: Query, asked: Weighing) -> int:
    """How many draws of a query the proposal makes: one coin a draw."""
    key = order_key({"draw seed": arm.spec.seed, "purpose": f"mix:{arm.key}", "query": query.id})
    return int(np.random.default_rng(key).binomial(asked.draws, asked.mix))


def _count(texts: dict[Path, WeighedText], query_id: str, one: Completion) -> None:
    """Add a completion's draws to those of its tokens."""
    ids = one.token_ids or ()
    before = texts[ids].count if ids in texts else 0
    texts[ids] = WeighedText(
        query_id=query_id,
        text=one.text,
        token_ids=ids,
        count=before + one.count,
        least=None,
        logprob=None,
        most=None,
        proposal_least=None,
        proposal_logprob=None,
        proposal_most=None,
        inside=False,
        score=None,
    )


def _weighs(engine: Generate) -> Weighs:
    if not isinstance(engine, Weighs):
        raise InputError(
            f"the engine {type(engine).__name__} does not tell how likely given tokens are. Use a "
            "transformers model."
        )
    return engine


def _weighed(
    text: WeighedText, within: Sequence[LogRange | None], inside: bool, score: float | None
) -> WeighedText:
    """The row of an output, with what both models make of it."""
    ours, theirs = ((None,) * 3 if x is None else (x.least, x.value, x.most) for x in within)
    return replace(
        text,
        least=ours[0],
        logprob=ours[1],
        most=ours[2],
        proposal_least=theirs[0],
        proposal_logprob=theirs[1],
        proposal_most=theirs[2],
        inside=inside,
        score=score,
    )


def _beside(
    query: Query,
    proved: Events,
    rows: Sequence[WeighedText],
    within: Sequence[LogRange | None],
) -> WeighedQuery:
    """A query's draws, and the ends of its leakage within the antichain that is proved."""
    low = math.fsum(event.mass * event.low for event in proved.values())
    most = (1.0 if one is None else math.exp(one.most) for one in within)
    high = math.fsum(p * event.high for p, event in zip(most, proved.values(), strict=True))
    ends = {"proved": min(low, 1.0), "proved_most": min(max(low, high), 1.0)}
    return WeighedQuery(query_id=query.id, texts=tuple(rows), **ends)


def _begun(proved: Events, ids: Path) -> bool:
    """Whether an output lies in the antichain."""
    return any(ids[:depth] in proved for depth in range(1, len(ids) + 1))


def shown_after(run: Run, arms: Sequence[Arm], engine: Generate) -> Callable[[Query], Query]:
    """Each question right after itself and its answer, where that is known and has room."""
    prompts = {prompt.id: prompt for prompt in run.prompts}

    def asks(query: Query) -> Query:
        prompt = prompts[query.prompt_id]
        if not (prompt.answer and prompt.answer.strip()):
            return query
        shown = replace(query, examples=(*query.examples, (prompt.question, prompt.answer)))
        try:
            for arm in arms:
                engine.check([shown], arm.decoding)
        except InputError:
            return query
        return shown

    return asks


def _made_from(events: Mapping[str, Events], proposal: Proposal, asked: Weighing) -> JsonObject:
    """All that the weighted draws of an arm depend on, beside the arm."""
    proved: Json = {
        query_id: [[[*ids], *event] for ids, event in known.items()]
        for query_id, known in events.items()
    }
    made_from: JsonObject = {
        "proved": digest_of({"events": proved}),
        "proposal": digest_of(proposal.engine.fingerprint),
        "shown": proposal.shown,
        "draws": asked.draws,
        "mix": asked.mix,
    }
    return {"made_from": made_from}
