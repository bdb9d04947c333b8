"""Estimate the cost of a study from draws of its first part, which are discarded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakbound.drawing.explore import require_explores
from leakbound.drawing.parts import Job, draw_part
from leakbound.inputs.halving import most_candidates
from leakbound.planning.plan import Prepared, opener_at
from leakbound.store import TARGET, ExploredDraws, Part, Plan
from leakbound.text.shown import many
from leakbound.types import Decoding, Draws, Effort, Generate, Query, Requests

_PILOT = "pilot"  # the purpose of discarded draws
_SERVED_QUESTIONS, _SERVED_DRAWS = 2, 16  # maximum from a server: each request may cost money


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The expected cost of drawing a study from one model.

    Attributes:
        questions: the number of questions.
        decodings: the number of decodings.
        parts: the number of parts, as if all parts had the size of the first.
        draws: the draws of all queries, including greedy answers.
        forwards: the number of prefixes that exploring forwards; 0 without exploring.
        tokens: the number of new tokens if outputs are as long as in the first part.
        seconds: the expected time, in proportion to the time of the first part.
        requests: the requests to the server of the model; 0 without a server.
        prompt_tokens: the prompt tokens of all requests; 0 if the server does not count them.
        most_tokens: the largest possible number of new tokens from a server.
    """

    questions: int
    decodings: int
    parts: int
    draws: int = 0
    forwards: int = 0
    tokens: int
    seconds: float
    requests: int = 0
    prompt_tokens: int = 0
    most_tokens: int = 0

    def text(self) -> str:
        """Return the cost as a sentence."""
        amount = f"{self.forwards:,} forwards" if self.forwards else f"{self.draws:,} draws"
        seconds = max(self.seconds, 1.0)
        time = f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} s"
        work = f"{amount} in {many(self.parts, 'part')}; about {self.tokens:,} tokens, {time}"
        if self.requests:
            prompts = f"about {self.prompt_tokens:,}" if self.prompt_tokens else "uncounted"
            work = (
                f"{amount} in {self.requests:,} requests; {prompts} prompt tokens, at most "
                f"{self.most_tokens:,} new tokens (about {self.tokens:,} as in the trial), {time}"
            )
        of = f"{many(self.questions, 'question')}, {many(self.decodings, 'decoding')}"
        return (
            f"{of}, {work}. This is the cost of the first part times the number of parts, for one "
            "model. A control costs about the same. Loading, scoring and bounding are not counted."
        )


def probe(ready: Prepared, engine: Generate) -> Cost:
    """Draw or explore the first part of a study, and multiply its cost by the number of parts.

    From a server only a few draws are requested, because requests cost money. The cost includes
    draws for every rewriting, although no rewriting is made here.
    """
    questions, decodings = len(ready.benchmark.prompts), ready.study.decodings
    queries = [Query.original(prompt) for prompt in ready.benchmark.prompts]
    for decoding in decodings:
        engine.check(queries, decoding)
    sampled = [decoding for decoding in decodings if not decoding.greedy]
    job, part = _first_part(ready, engine, queries, [*sampled, *decodings][0])
    served = engine if isinstance(engine, Requests) else None
    sent = served.requests(part.sizes) * len(part.query_ids) if served else 1  # tries the server
    spent = draw_part(engine, job).record.usage
    work = _work(ready, len(sampled))
    draws = round(questions * sum(number * n for number, n in work))
    requests = 0
    if served is not None:
        plans = [(number, Plan.of(math.ceil(n))) for number, n in work]
        requests = sum(number * served.requests(plan.chunks()) for number, plan in plans)
        requests *= questions
    exploring = ready.draws if isinstance(ready.draws, ExploredDraws) else None
    explored = questions * len(sampled) if exploring else 0
    times = (explored or draws) / part.amount
    return Cost(
        questions=questions,
        decodings=len(decodings),
        parts=math.ceil(times),
        draws=draws,
        forwards=explored * exploring.forwards if exploring else 0,
        tokens=round(times * spent.sampled_tokens),
        seconds=times * spent.seconds,
        requests=requests,
        prompt_tokens=round(spent.prompt_tokens * requests / sent),
        most_tokens=draws * max(how.longest for how in decodings) if served else 0,
    )


def _first_part(
    ready: Prepared, engine: Generate, queries: Sequence[Query], decoding: Decoding
) -> tuple[Job, Part]:
    """Return the job of the first part of an arm, and the part."""
    plan, draws = ready.arm_draws(TARGET, decoding)
    part = plan.parts([query.id for query in queries])[0]
    if isinstance(engine, Requests):
        sizes = (min(*part.sizes, _SERVED_DRAWS),)
        part = replace(part, query_ids=part.query_ids[:_SERVED_QUESTIONS], sizes=sizes)
    own = tuple(query for query in queries if query.id in part.query_ids)
    how: Draws | Effort = Draws(sizes=part.sizes, purpose=_PILOT)
    scorer = None
    if isinstance(draws, ExploredDraws):
        require_explores(engine, str(TARGET), decoding)
        how = Effort(mode=draws.mode, forwards=draws.forwards, purpose=_PILOT)
        scorer = opener_at(None, ready.steering)
    prompts = {prompt.id: prompt for prompt in ready.benchmark.prompts} if scorer else {}
    job = Job(number=0, queries=own, decoding=decoding, work=how, prompts=prompts, scorer=scorer)
    return job, part


def _work(ready: Prepared, sampled: int) -> list[tuple[int, float]]:
    """Return (queries per question, draws per query) for everything that is drawn, not explored."""
    study, n = ready.study, ready.n
    greedy = len(study.decodings) - sampled + 1  # one is the greedy arm of every study
    work: list[tuple[int, float]] = [(greedy, 1)]
    if not ready.explores:
        work.append((sampled, n))
    if study.rewritings is not None:
        queries = n if study.rewritings.design == "fresh" else study.rewritings.queries + 1
        work.append((sampled * queries, n / queries))
        work += [(queries, study.rewritings.ids_draws)] * study.rewritings.ids
    if study.attack is not None:
        tried = most_candidates(study.attack.budget)
        work += [(tried, study.attack.budget / tried), (1, n)]
    return work
