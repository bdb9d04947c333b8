"""The search for the input that leaks most: what it tries, its rounds, and the draws that bound it.

It is a run of its own, `attack/search` in the folder of the run it serves, with an arm a round for
every decoding. Its draws have a purpose of their own and are scored to steer, never to bound:
`statements.comparisons` proves that fresh draws of what was found then need no correction.

Of the eight draws of a candidate in the first round none leaks, whether it leaks once in 10,000
answers or never. What is proved of it tells the two apart. So a question is searched by proofs
until something known of it, its own words included, is to leak at least once in the draws that a
candidate would get; from then on by draws. Both add up, as what was drawn and leaks is proved too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.drawing.prove import (
    RareLeaks,
    is_proved,
    prove_arm,
    require_prover,
    said_in,
    why_unproved,
)
from leakbound.drawing.sample import draw_arm, plan_arm, plan_unscored, sample_arm
from leakbound.errors import InputError
from leakbound.inputs import NUMBER, gather
from leakbound.inputs.halving import FIRST, Standing, Winner, halve, most_candidates
from leakbound.inputs.sources import RuleInputs
from leakbound.inputs.variants import (
    NEUTRAL,
    PREFIXES,
    SHOTS,
    Fits,
    Space,
    Variant,
    openers,
    shots,
    variants,
)
from leakbound.planning.models import ModelArm
from leakbound.planning.plan import Prepared, SteeredPlan, arm_keys
from leakbound.scoring.antichain import joint_antichains, leakage_at_least
from leakbound.scoring.ordering import Order
from leakbound.scoring.score import score_arm, slug
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
from leakbound.store.inputs import (
    ATTACK_FOLDER,
    AttackQuery,
    read_attack_queries,
    write_attack_queries,
)
from leakbound.types import (
    Decoding,
    Generate,
    Headway,
    Measures,
    Progress,
    Prompt,
    Query,
    Scorer,
    silent,
)

CONFIDENCE = 0.9  # of the lower bounds that steer: a ranking, no statement
FORWARDS = 0.5
"""The forwards that a token of a draw costs: a few draws of one prompt share about half of them."""


@dataclass(frozen=True, slots=True)
class AttackSearch:
    """All that a search depends on beside the run it serves.

    `asked` is the study of that run, `job` its model under evaluation, `decodings` the stated grid.
    `proves`: whether it may prove instead of drawing.
    """

    budget: int
    asked: Prepared
    job: ModelArm
    decodings: tuple[Decoding, ...]
    proves: bool = False
    progress: Progress = silent

    @property
    def scorer(self) -> Scorer:
        """The scorer that steers it."""
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
            forwards_per_token=FORWARDS if self.proves else None,
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


def tried(run: Run, hunt: AttackSearch) -> tuple[Run, dict[str, list[Variant]]]:
    """The run of the search, begun or as it was left, and the variants of each question."""
    path = run.path / ATTACK_FOLDER / "search"
    trial = Run.resumed(path, run.record)
    if trial is None:
        number = most_candidates(hunt.budget)
        fits = _fits(hunt.job.engine)
        made = [v for space in _spaces(run, hunt) for v in variants(space, number, hunt.seed, fits)]
        named = tuple(TriedVariant(v.query.id, v.decoding.name, v.shots) for v in made)
        queries = list(dict.fromkeys(variant.query for variant in made))
        trial = Run.create(path, run.prompts, queries, replace(run.record, tried=named))
    query_of = {query.id: query for query in trial.queries}
    decodings = {decoding.name: decoding for decoding in hunt.decodings}
    fields: dict[str, list[Variant]] = {}
    for record in trial.record.tried:
        query = query_of[record.query]
        variant = Variant(query=query, decoding=decodings[record.decoding], shots=record.shots)
        fields.setdefault(query.prompt_id, []).append(variant)
    return trial, fields


def _spaces(run: Run, hunt: AttackSearch) -> Iterator[Space]:
    """The space of each question: all that may be changed about asking it."""
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
            for text in rewritings.queries
        ]
        for prompt, rewritings in zip(run.prompts, accepted, strict=True)
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


PURPOSE = "attack"


def winners(run: Run, hunt: AttackSearch) -> dict[str, Winner[Variant]]:
    """The variant of each question that leaks most, by prompt id. Goes on where it was stopped.

    Every decision is made again from the stored scores and proofs, so it is the same one.
    """
    trial, fields = tried(run, hunt)
    most = hunt.budget * len(fields)
    spent, read = Counter[str](), Counter[str]()

    def progress(now: Headway) -> None:
        spent[now.phase], read[now.phase] = round(now.done), now.tokens
        so_far = Headway("searching", spent.total(), most, now.unit, tokens=read.total())
        hunt.progress(so_far)

    rounds = _Rounds(run, trial, replace(hunt, progress=progress))
    best = halve(fields, hunt.budget, rounds.look)
    hunt.progress(Headway("searching", most, most, "draws"))
    return best


def seen(run: Run, trial: Run, before: int | None = None) -> dict[str, Counter[str]]:
    """By prompt id what the run and its search say, and how often.

    `before`: not what was found, and of the search the rounds before this one.
    """
    arms = [arm for arm in run.arms.values() if before is None or arm.key.asks != "attack"]
    arms += [arm for arm in trial.arms.values() if before is None or arm.key.round < before]
    return said_in(arms)


@dataclass(slots=True)
class _Rounds:
    """The rounds so far: `best` is the most that is known of each question, by prompt id.

    price: what a draw costs in forwards.
    """

    run: Run
    trial: Run
    hunt: AttackSearch
    best: dict[str, float] = field(default_factory=dict)
    price: float = 0.0

    def __post_init__(self) -> None:
        if not self.hunt.proves:
            return
        own = [arm for arm in self.run.arms.values() if is_proved(arm.key, arm.decoding)]
        draws = sum(arm.usage.draws for arm in own)
        self.price = FORWARDS * sum(arm.usage.sampled_tokens for arm in own) / draws
        for arm in own:
            score_arm(arm, self.hunt.scorer, at=self.hunt.asked.drawing.at)
            prompt_of = {query.id: query.prompt_id for query in arm.queries}
            for query_id, standing in _by_draws([arm], list(prompt_of), self.hunt.scorer).items():
                self._know(prompt_of[query_id], standing)

    def look(self, number: int, draws: Mapping[Variant, int]) -> dict[Variant, Standing]:
        """Where each stands after this round; what it costs is that of so many draws."""
        texts = seen(self.run, self.trial, number) if self.hunt.proves else {}
        standings: dict[Variant, Standing] = {}
        for decoding in self.hunt.decodings:
            mine = {v.query.id: (v, n) for v, n in draws.items() if v.decoding == decoding}
            if mine:
                forwards = {q: self._forwards(v, n) for q, (v, n) in mine.items()}
                counts = {q: 0 if forwards[q] else n for q, (_, n) in mine.items()}
                arm = self._drawn(number, decoding, counts)
                if any(forwards.values()):
                    self._prove(arm, forwards, texts)
                stand = self._standings(number, decoding, list(mine))
                standings |= {v: stand[q] for q, (v, _) in mine.items() if q in stand}
        for variant, standing in standings.items():
            self._know(variant.query.prompt_id, standing)
        return standings

    def _know(self, prompt_id: str, standing: Standing) -> None:
        self.best[prompt_id] = max(self.best.get(prompt_id, 0.0), standing.floor)

    def _forwards(self, variant: Variant, draws: int) -> int:
        """As many as these draws cost; 0 where something is to leak in them."""
        if not self.hunt.proves or self.best.get(variant.query.prompt_id, 0.0) * draws >= 1:
            return 0
        return max(round(draws * self.price), 1)

    def _drawn(self, number: int, decoding: Decoding, draws: Mapping[str, int]) -> Arm:
        """The arm of this round, drawn and scored.

        A query that failed is not tried again once its round is over, or another command's
        decisions would not be this one's.
        """
        job = replace(self.hunt.job, key=_round(number, decoding), decoding=decoding)
        arm = plan_unscored(self.trial, job, draws, self.hunt.seed)
        if not arm.parts:
            return arm
        if any(not arm.has(part) for part in arm.parts_to_draw()):
            sample_arm(arm, job.engine, self.hunt.progress, purpose=f"{PURPOSE}:{arm.name}")
        score_arm(arm, self.hunt.scorer, at=self.hunt.asked.drawing.at)
        return arm

    def _prove(
        self, arm: Arm, forwards: Mapping[str, int], texts: Mapping[str, Counter[str]]
    ) -> None:
        """Prove what so many forwards show of each query; of those with 0 nothing."""
        engine = require_prover(self.hunt.job.engine, arm.name, arm.decoding)
        most, draws = max(forwards.values()), sum(forwards.values()) / self.price
        search = RareLeaks(self.hunt.scorer, most, texts, self.hunt.asked.drawing.at, each=forwards)
        prove_arm(arm, engine, search, _in_draws(self.hunt.progress, draws))

    def _standings(
        self, number: int, decoding: Decoding, query_ids: Sequence[str]
    ) -> dict[str, Standing]:
        """Where those of these queries stand that this round tells of, by all rounds so far."""
        every = (self.trial.arm(_round(earlier, decoding)) for earlier in range(1, number + 1))
        arms, name = [arm for arm in every if arm is not None], slug(self.hunt.scorer)
        by_draws = _by_draws(arms, query_ids, self.hunt.scorer)
        # of scores between 0 and 1 a prefix of one arm may hide more that another has beyond it
        parts = [arms, *([arm] for arm in arms)] if self.hunt.proves else []
        proofs = [joint_antichains(part, self.hunt.scorer) for part in parts]
        forwards = Counter[str]()
        for arm in arms:
            forwards.update(arm.proofs.forwards(name))
        ids = {*arms[-1].proofs.forwards(name), *_scored(arms[-1:], name, query_ids).query_ids}
        return {
            query_id: replace(
                by_draws.get(query_id, Standing(draws=0, lower=0.0, value=0.0)),
                forwards=forwards[query_id],
                proved=max((leakage_at_least(p.get(query_id, {})) for p in proofs), default=0.0),
            )
            for query_id in query_ids
            if query_id in ids
        }


def _round(number: int, decoding: Decoding) -> ArmKey:
    return ArmKey(asks="search", decoding=decoding.name, round=number)


def _scored(arms: Sequence[Arm], name: str, query_ids: Sequence[str]) -> ArmScores:
    """The scores of all draws of these queries."""
    return ArmScores.joined([arm.scores(name) for arm in arms if arm.parts], query_ids)


def _by_draws(arms: Sequence[Arm], query_ids: Sequence[str], scorer: Scorer) -> dict[str, Standing]:
    """Where these queries stand by all their draws; those without any are left out."""
    scores = _scored(arms, slug(scorer), query_ids)
    if not scores.query_ids:
        return {}
    keys, rows = (
        Order.of(arms[-1], scorer).keys(scores.query_ids),
        scores.rows(binary=scorer.binary),
    )
    bound = stats.bound(rows, confidence=CONFIDENCE, side="lower", seed=keys)
    columns = (np.asarray(a).tolist() for a in (bound.n, bound.lower, np.nan_to_num(bound.value)))
    return {
        query_id: Standing(draws=n, lower=lower, value=value)
        for query_id, n, lower, value in zip(scores.query_ids, *columns, strict=True)
    }


def _in_draws(progress: Progress, draws: float) -> Progress:
    """Progress of proofs, told as that of the draws that they cost."""
    return lambda now: progress(
        Headway(now.phase, draws * now.done / max(now.total, 1), draws, "draws")
    )


def attack_questions(
    run: Run, hunt: AttackSearch, control: ModelArm | None, drawing: SteeredPlan
) -> None:
    """Search, then draw from what was found, and from the control asked the same.

    Where the search may prove, with as many forwards as it had draws it is then proved what each
    leaks at least. Goes on where it was stopped; `run` has the search's settings on record.
    """
    attack_queries = read_attack_queries(run.path)
    if attack_queries is None:
        keys = {decoding: key for key, decoding in hunt.arms.items()}
        attack_queries = tuple(_of_winner(*item, keys) for item in winners(run, hunt).items())
        write_attack_queries(run.path, attack_queries)
    jobs = list(_jobs(attack_queries, hunt.job, control))
    for job in jobs:
        job.engine.check(job.attack_queries, job.decoding)
    planned = [plan_arm(run, job, drawing, hunt.seed) for job in jobs]
    for arm, job in zip(planned, jobs, strict=True):
        _measure(job)
        draw_arm(arm, job, drawing, hunt.progress)
    if hunt.proves:
        _prove(run, hunt, planned, jobs)


def _prove(run: Run, hunt: AttackSearch, arms: Sequence[Arm], jobs: Sequence[ModelArm]) -> None:
    """Prove what each question leaks as it was found, going out from all that was said to it."""
    trial, _ = tried(run, hunt)
    search = RareLeaks(hunt.scorer, hunt.budget, seen(run, trial), hunt.asked.drawing.at)
    for arm, job in zip(arms, jobs, strict=True):
        _measure(job)
        if why := why_unproved(job.engine, [job.decoding], hunt.scorer):
            run.notes.append(f"nothing is proved in the arm {arm.name!r}: {why}")
            continue
        engine = require_prover(job.engine, arm.name, job.decoding)
        failures = prove_arm(arm, engine, search, hunt.progress)
        run.notes += [f"nothing is proved of {fail.query.id!r}: {fail.reason}" for fail in failures]


def _measure(job: ModelArm) -> None:
    """Have the margin measured after what the arm asks: it may be longer than the questions."""
    if isinstance(job.engine, Measures):
        job.engine.measure(job.attack_queries)


def _of_winner(
    prompt_id: str, winner: Winner[Variant], keys: Mapping[Decoding, ArmKey]
) -> AttackQuery:
    variant = winner.candidate
    return AttackQuery(
        query=replace(variant.query, id=prompt_id),
        decoding=variant.decoding,
        shots=variant.shots,
        rounds=winner.standings,
        arm=keys[variant.decoding],
    )


def _jobs(
    attack_queries: Sequence[AttackQuery], target: ModelArm, control: ModelArm | None
) -> Iterator[ModelArm]:
    """An arm for each decoding that was found, and the control's beside it."""
    for arm in dict.fromkeys(attack.arm for attack in attack_queries):
        mine = [attack for attack in attack_queries if attack.arm == arm]
        decoding, queries = mine[0].decoding, tuple(attack.query for attack in mine)
        for job, key in ((target, arm), (control, arm.control)):
            if job is not None:
                yield replace(job, key=key, decoding=decoding, shares=None, attack_queries=queries)
