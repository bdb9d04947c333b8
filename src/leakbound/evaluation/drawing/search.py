"""The search for the input that leaks most: what is tried, and how it is drawn from, in rounds.

It is a run of its own, `attack/search` in the folder of the run it serves, with an arm for every
round and decoding. Its draws have a purpose of their own and are scored to steer, never to bound:
`statements.attack` proves that fresh draws of what was found then need no correction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation.drawing.sample import plan_unscored, sample_arm
from leakbound.evaluation.planning.attack_queries import FOLDER
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.names import arm_keys
from leakbound.evaluation.planning.plan import Prepared
from leakbound.evaluation.scoring.ordering import Order, leakage_at_fixed_n
from leakbound.evaluation.scoring.score import score_arm, slug
from leakbound.inputs import NUMBER, gather
from leakbound.inputs.halving import FIRST, Standing, Winner, halve, most_candidates
from leakbound.inputs.lists import RuleInputs
from leakbound.inputs.openers import NEUTRAL, openers
from leakbound.inputs.shots import PREFIXES, SHOTS, shots
from leakbound.inputs.variants import Fits, Space, Variant, variants
from leakbound.store import (
    ATTACK,
    Arm,
    ArmKey,
    ArmScores,
    AttackRecord,
    InputsRecord,
    Run,
    ScorerRecord,
    TriedVariant,
)
from leakbound.types import Decoding, Generate, Progress, Prompt, Query, Scorer, silent

PURPOSE = "attack"
CONFIDENCE = 0.9  # of the lower bounds that steer: a ranking, no statement


@dataclass(frozen=True, slots=True)
class AttackSearch:
    """All that a search depends on beside the run it serves.

    `asked` is the study of that run, `job` its model under evaluation, `decodings` the stated grid.
    """

    budget: int
    asked: Prepared
    job: ModelArm
    decodings: tuple[Decoding, ...]
    progress: Progress = silent

    @property
    def scorer(self) -> Scorer:
        """What steers it."""
        return self.asked.drawing.steering

    @property
    def seed(self) -> int:
        """That of the study."""
        return self.asked.study.seed

    @property
    def template(self) -> str:
        """How plain prompts put a question, and so the pairs too that are shown before one."""
        return self.asked.study.settings.template or self.asked.benchmark.template

    @property
    def arms(self) -> dict[ArmKey, Decoding]:
        """The arms that draw from what is found."""
        return arm_keys(self.decodings, ATTACK)

    def record(self, inputs: InputsRecord | None) -> AttackRecord:
        """As the record of a run that asks these inputs holds it: the same searches alike."""
        return AttackRecord(
            budget=self.budget,
            first_draws=FIRST,
            confidence=CONFIDENCE,
            scorer=ScorerRecord.of(self.scorer),
            rewritings=RuleInputs.name if inputs is None else inputs.source,
            openers=tuple(NEUTRAL),
            pairs=SHOTS,
            prefixes=PREFIXES,
            template=self.template,
            decodings=self.decodings,
            seed=self.seed,
        )


def retained_pairs(benchmark: Benchmark) -> tuple[Prompt, ...]:
    """The benchmark's retained questions; none where it has no such split."""
    there = benchmark.role == "retain" or "retain" in benchmark.others
    return benchmark.split("retain") if there else ()


def winners(run: Run, hunt: AttackSearch) -> dict[str, Winner[Variant]]:
    """What leaks most of each question, by prompt id. Goes on where it was stopped.

    Every decision is made again from the stored scores, so it is the same one.
    """
    trial, fields = _trial(run, hunt)
    most = hunt.budget * len(fields)
    spent, read = Counter[str](), Counter[str]()

    def progress(
        phase: str,
        done: float,
        total: float,
        unit: str = "",
        tokens: int = 0,
        distinct: float | None = None,
    ) -> None:
        spent[phase], read[phase] = round(done), tokens
        hunt.progress("searching", spent.total(), most, unit, tokens=read.total())

    def draw(number: int, draws: Mapping[Variant, int]) -> Mapping[Variant, Standing]:
        found: dict[Variant, Standing] = {}
        for decoding in hunt.decodings:
            mine = {v.query.id: (v, n) for v, n in draws.items() if v.decoding == decoding}
            if mine:
                counts = {query_id: n for query_id, (_, n) in mine.items()}
                arms = _drawn(trial, replace(hunt, progress=progress), number, decoding, counts)
                stand = _standings(arms, hunt.scorer)
                found |= {v: stand[q] for q, (v, _) in mine.items() if q in stand}
        return found

    best = halve(fields, hunt.budget, draw)
    hunt.progress("searching", most, most, "draws")
    return best


def _trial(run: Run, hunt: AttackSearch) -> tuple[Run, dict[str, list[Variant]]]:
    """The run of the search, begun or as it was left, and what it tries of each question."""
    path = run.path / FOLDER / "search"
    trial = Run.found(path, run.record)
    if trial is None:
        number = most_candidates(hunt.budget)
        fits = _fits(hunt.job.engine)
        made = [v for space in _spaces(run, hunt) for v in variants(space, number, hunt.seed, fits)]
        tried = tuple(TriedVariant(v.query.id, v.decoding.name, v.shots) for v in made)
        queries = list(dict.fromkeys(variant.query for variant in made))
        trial = Run.create(path, run.prompts, queries, replace(run.record, tried=tried))
    asked = {query.id: query for query in trial.queries}
    decodings = {decoding.name: decoding for decoding in hunt.decodings}
    fields: dict[str, list[Variant]] = {}
    for one in trial.record.tried:
        query = asked[one.query]
        variant = Variant(query=query, decoding=decodings[one.decoding], shots=one.shots)
        fields.setdefault(query.prompt_id, []).append(variant)
    return trial, fields


def _spaces(run: Run, hunt: AttackSearch) -> Iterator[Space]:
    """What may be changed about asking each question."""
    texts, retained = _rewritings(run, hunt.seed), retained_pairs(hunt.asked.benchmark)
    for prompt in run.prompts:
        yield Space(
            texts=(Query.original(prompt), *texts[prompt.id]),
            shots=((), *shots(prompt, retained, hunt.seed)),
            openers=openers(prompt, hunt.asked.benchmark.openers.get(prompt.id, ())),
            decodings=hunt.decodings,
            template=hunt.template,
        )


def _rewritings(run: Run, seed: int) -> dict[str, list[Query]]:
    """The rewritings that the run asks anyway, else those made by rules; repeats left out."""
    if run.record.inputs is not None:
        texts: dict[str, dict[str, Query]] = {prompt.id: {} for prompt in run.prompts}
        for query in run.queries:
            if query.source != "original":
                texts[query.prompt_id].setdefault(query.text, query)
        return {prompt_id: list(own.values())[:NUMBER] for prompt_id, own in texts.items()}
    accepted = gather(RuleInputs(), run.prompts, number=NUMBER, seed=seed)
    return {
        prompt.id: [
            replace(Query.original(prompt), text=text, source=RuleInputs.name)
            for text in one.queries
        ]
        for prompt, one in zip(run.prompts, accepted, strict=True)
    }


def _fits(engine: Generate) -> Fits:
    """Whether the engine takes a query: shown pairs may be too much for its context."""

    def fits(query: Query, decoding: Decoding) -> bool:
        try:
            engine.check([query], decoding)
        except InputError:
            return False
        return True

    return fits


def _drawn(
    trial: Run, hunt: AttackSearch, number: int, decoding: Decoding, draws: Mapping[str, int]
) -> list[Arm]:
    """The arms of this decoding up to this round, all drawn and scored.

    A query that failed is not tried again once its round is over, or another command's decisions
    would not be this one's.
    """
    job = replace(hunt.job, key=_round(number, decoding), decoding=decoding)
    arm = plan_unscored(trial, job, draws, hunt.seed)
    if any(not arm.has(part) for part in arm.parts_to_draw()):
        sample_arm(arm, job.engine, hunt.progress, purpose=f"{PURPOSE}:{arm.name}")
    score_arm(arm, hunt.scorer, at=hunt.asked.drawing.at)
    rounds = (trial.arm(_round(earlier, decoding)) for earlier in range(1, number + 1))
    return [drawn for drawn in rounds if drawn is not None]


def _round(number: int, decoding: Decoding) -> ArmKey:
    return ArmKey(asks="search", decoding=decoding.name, round=number)


def _standings(arms: Sequence[Arm], scorer: Scorer) -> dict[str, Standing]:
    """Where the queries of the last of these arms stand, by all their draws in all of them."""
    pieces = [arm.scores(slug(scorer)) for arm in arms]
    scores = ArmScores.joined(pieces, pieces[-1].query_ids)
    if not scores.query_ids:
        return {}
    order = Order.of(arms[-1], scorer)
    bound = leakage_at_fixed_n(scores, scorer.binary, order, confidence=CONFIDENCE, side="lower")
    columns = (np.asarray(a).tolist() for a in (bound.n, bound.lower, np.nan_to_num(bound.value)))
    return {
        query_id: Standing(draws=n, lower=lower, value=value)
        for query_id, n, lower, value in zip(scores.query_ids, *columns, strict=True)
    }
