"""Estimate the cost of a study from draws of its first part. The draws are discarded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from leakbound.drawing.parts import Job, draw_part
from leakbound.drawing.plans import Evaluation, arm_plans
from leakbound.drawing.sample import work_of
from leakbound.inputs.halving import most_candidates
from leakbound.planning.plan import Prepared, opener_at
from leakbound.store import ExploredDraws, Plan
from leakbound.text.shown import many
from leakbound.types import Generate, Query, Requests

_PILOT = "pilot"  # the purpose of discarded draws
_SERVED_QUESTIONS, _SERVED_DRAWS = 2, 16  # maximum from a server: each request may cost money


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The expected cost of drawing a study from one model.

    Attributes:
        questions: the number of questions.
        decodings: the number of decodings.
        parts: the number of parts, computed as if all parts had the size of the first part.
        draws: the number of draws of all queries, including greedy answers.
        forwards: the number of forward passes of exploring; 0 without exploring.
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
        amount = f"{self.forwards:,} forward passes" if self.forwards else f"{self.draws:,} draws"
        seconds = max(self.seconds, 1.0)
        time = f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} s"
        work = f"{amount} in {many(self.parts, 'part')}; about {self.tokens:,} tokens, {time}"
        if self.requests:
            prompts = f"about {self.prompt_tokens:,}" if self.prompt_tokens else "uncounted"
            work = (
                f"{amount} in {self.requests:,} requests; {prompts} prompt tokens, at most "
                f"{self.most_tokens:,} new tokens (expected: {self.tokens:,}), {time}"
            )
        of = f"{many(self.questions, 'question')}, {many(self.decodings, 'decoding')}"
        return (
            f"{of}, {work}. This is the cost of the first part times the number of parts, for one "
            "model. A control costs about the same. Loading, scoring and bounding are not included."
        )


def probe(ready: Prepared, engine: Generate) -> Cost:
    """Draw or explore the first part of a study, and multiply its cost by the number of parts.

    Only a few draws are requested from a server, because requests cost money. The cost includes the
    draws for rewritings and under stresses, although the probe makes none of these draws.
    """
    questions = [Query.original(prompt) for prompt in ready.benchmark.prompts]
    evaluation = Evaluation(ready, engine, None, Path())  # no run is begun
    specs = [plan.spec for plan in arm_plans(evaluation, evaluation.arms)]
    for spec in specs:
        engine.check(questions, spec.decoding)
    sampled = [spec for spec in specs if not spec.decoding.greedy]
    first = [*sampled, *specs][0]
    part, sent = first.plan.parts([question.id for question in questions])[0], 1
    served = engine if isinstance(engine, Requests) else None
    if served is not None:
        sizes = (min(*part.sizes, _SERVED_DRAWS),)
        part = replace(part, query_ids=part.query_ids[:_SERVED_QUESTIONS], sizes=sizes)
        sent = served.requests(sizes) * len(part.query_ids)  # tries the server
    explores = isinstance(first.draws, ExploredDraws)
    job = Job(
        number=0,
        queries=tuple(questions[: len(part.query_ids)]),
        decoding=first.decoding,
        work=work_of(first, part, _PILOT),
        prompts={prompt.id: prompt for prompt in ready.benchmark.prompts} if explores else {},
        scorer=opener_at(None, ready.steering) if explores else None,
    )
    spent = draw_part(engine, job).record.usage
    specs += sampled * len(ready.study.stress)  # each stress draws the sampled arms again
    work = [(1, spec.plan.n) for spec in specs if spec.plan.n] + _work(ready, len(sampled))
    draws = round(len(questions) * sum(number * n for number, n in work))
    requests = 0
    if served is not None:
        chunks = [(number, Plan.of(math.ceil(n)).chunks()) for number, n in work]
        requests = len(questions) * sum(number * served.requests(own) for number, own in chunks)
    explored = [spec.draws.forwards for spec in specs if isinstance(spec.draws, ExploredDraws)]
    times = (len(questions) * len(explored) or draws) / job.amount
    return Cost(
        questions=len(questions),
        decodings=len(ready.study.decodings),
        parts=math.ceil(times),
        draws=draws,
        forwards=len(questions) * sum(explored),
        tokens=round(times * spent.sampled_tokens),
        seconds=times * spent.seconds,
        requests=requests,
        prompt_tokens=round(spent.prompt_tokens * requests / sent),
        most_tokens=draws * max(spec.decoding.longest for spec in specs) if served else 0,
    )


def _work(ready: Prepared, sampled: int) -> list[tuple[int, float]]:
    """Return (queries per question, draws per query) of rewritings and of an attack."""
    study, n = ready.study, ready.n
    work: list[tuple[int, float]] = []
    if study.rewritings is not None:
        queries = n if study.rewritings.design == "fresh" else study.rewritings.queries + 1
        work.append((sampled * queries, n / queries))
        work += [(queries, study.rewritings.ids_draws)] * study.rewritings.ids
    if study.attack is not None:
        tried = most_candidates(study.attack.budget)
        work += [(tried, study.attack.budget / tried), (1, n)]
    return work
