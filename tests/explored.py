"""Runs whose arms were explored, made without a model: masses, draws of the remainder, scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from canned import benchmark_of, drawn_part
from leakbound.benchmarks import Benchmark
from leakbound.drawing.queries import begin
from leakbound.evaluation import score_run
from leakbound.scorers import make_scorer
from leakbound.store import TARGET, ArmSpec, ExploredDraws, Plan, Run, ScorerRecord
from leakbound.types import Completion, Decoding, Event, Exploration, Query, Sample, Usage

SCORER = "contains"
LEAKS = {"p0": 0.3, "p1": 0.02, "p2": 0.0}  # mass of the answer; p2 is explored whole
FORWARDS = 500
HALF = Decoding(temperature=0.5, max_new_tokens=8)


def benchmark() -> Benchmark:
    return benchmark_of(LEAKS, name="explored", answer="secret{}", scorers=(SCORER,))


def explored_run(out: Path, decodings: Sequence[Decoding] = (HALF,)) -> Run:
    """Write a run with an explored and scored arm for each decoding, without estimates."""
    run = begin(out, benchmark())
    scorer = make_scorer(SCORER)
    for decoding in decodings:
        key = TARGET if len(decodings) == 1 else TARGET.under(decoding)
        spec = ArmSpec(
            model="canned",
            fingerprint={"weights": "canned"},
            decoding=decoding,
            plan=Plan.exploring(),
            draws=ExploredDraws(mode="hybrid", forwards=FORWARDS, scorer=ScorerRecord.of(scorer)),
        )
        arm = run.add_arm(key, spec)
        for part in arm.parts:
            queries = [query for query in run.queries if query.id in part.query_ids]
            got = [_explored(query, decoding) for query in queries]
            cost = Usage(draws=sum(f.sample.n for f in got))
            arm.write_part(part, drawn_part(part, got, cost))
    score_run(run, [scorer])
    return run


def _explored(query: Query, decoding: Decoding) -> Exploration:
    """Return the answer, a settled prefix of it, another output, and 100 draws of the remainder."""
    answer, leak = f"It is secret{query.id}", LEAKS[query.id]
    events = (
        Event(answer="No", token_ids=(3, 0), finish="stop", tokens=2, ended=True, mass=0.5),
        Event(answer="No", token_ids=(4, 0), finish="stop", tokens=2, ended=True, mass=0.05),
        Event(answer=answer, token_ids=(1, 2, 0), finish="stop", tokens=3, ended=True, mass=leak),
        Event(answer=f"{answer} and", token_ids=(1, 2, 5), ended=False, mass=leak / 10),
    )
    remainder = 0.95 - 0.5 - 0.05 - leak * 1.1 if leak else 0.0
    leaking = int(40 * decoding.temperature)
    drawn = {"No": 5, f"{answer}!": leaking, "Perhaps": 95 - leaking} if leak else {}
    forced = Completion(answer=f"secret{query.id}", token_ids=None, count=0, chunk=-1, logprob=-9.0)
    shown = [Completion(answer=t, finish="stop", token_ids=None, count=n) for t, n in drawn.items()]
    sample = Sample(query=query, decoding=decoding, completions=(forced, *shown))
    return Exploration(
        events=events, remainder=remainder, sample=sample, explored=FORWARDS // 2, forwards=FORWARDS
    )
