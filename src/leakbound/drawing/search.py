"""Search for the input that leaks most, in rounds over variants, and draw from it again.

The search is a separate run in the subfolder `attack/search`, with one arm per
round and decoding. The draws of the search have their own purpose in the random
keys. Their scores only steer the search, and no bound uses them. New draws are
made for the selected inputs. Bounds from the new draws need no correction for
the selection.

In the first round, a candidate gets eight draws. They are unlikely to show a
leak that occurs in one of 10,000 answers, but a search for proofs (`prove`) can
find it. So the candidates of a question are first compared by proved lower
bounds. They are compared by draws as soon as some known input is expected to
leak at least once in the number of draws per candidate. The results of both
methods are combined, because a leaking draw with a known probability is also a
proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import fsum
from typing import cast

import numpy as np

from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.drawing.plans import ArmPlan, Evaluation, arm_plans
from leakbound.drawing.prove import (
    is_proved,
    note_failures,
    prove_arm,
    questions_to_prove,
    why_unproved,
)
from leakbound.drawing.sample import add_arms, add_unscored, draw_arm, draw_plans
from leakbound.errors import InputError
from leakbound.inputs import NUMBER, gather
from leakbound.inputs.halving import FIRST, Standing, halve, most_candidates
from leakbound.inputs.sources import RuleInputs
from leakbound.inputs.variants import (
    NEUTRAL,
    PREFIXES,
    SHOTS,
    Space,
    Variant,
    openers,
    shots,
    variants,
)
from leakbound.planning.plan import arm_keys
from leakbound.scoring.antichain import leaking_masses
from leakbound.scoring.ordering import order_of
from leakbound.scoring.score import answers_of, score_arm, slug
from leakbound.store import (
    ATTACK,
    Arm,
    ArmKey,
    AttackRecord,
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
from leakbound.store.scores import joined_rows
from leakbound.study import Attack
from leakbound.types import Decoding, Failure, Generate, Measures, Prompt, Query, Scorer

CONFIDENCE = 0.9  # of lower bounds that only rank candidates
FORWARDS = 0.5
"""Forward passes per drawn token: a few draws of one prompt share about half of their tokens."""


PURPOSE = "attack"


class AttackSearch:
    """The search for the worst input of a run. The study's first scorer guides it.

    Every decision depends only on stored scores and proofs. So a resumed search makes the same
    decisions.

    Args:
        evaluation: the study, with an attack, and its models.
        run: the run with its planned arms.
        attack: the settings.

    Raises:
        MixError: the run has the record of a search with different settings.
    """

    def __init__(self, evaluation: Evaluation, run: Run, attack: Attack) -> None:
        ready = evaluation.ready
        self.evaluation, self.run, self.task = evaluation, run, ready.benchmark
        self.engine, self.scorer, self.at = evaluation.engine("target"), ready.steering, ready.at
        self.budget, self.seed = attack.budget, ready.study.seed
        self.template = ready.study.settings.template or self.task.template  # also for shown pairs
        self.decodings = attack.decodings([*evaluation.arms.values()])
        why = why_unproved(self.engine, self.decodings, self.scorer)
        if why:
            run.notes.append(f"the attack searches with draws only and misses rare leaks: {why}")
        self.proves = not why
        self.price = 0.0  # the price of a draw, in forward passes
        self.best: dict[str, float] = {}  # the largest lower bound of each question, by prompt id
        inputs = run.record.inputs
        record = AttackRecord(
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
        run.settle_attack(record)

    def attack(self) -> None:
        """Search, then draw outputs of the worst inputs from the model and the control.

        If proofs are possible, leaks of each worst input are then proved, with `budget` forward
        passes per input.
        """
        run, evaluation = self.run, self.evaluation
        attack_queries = read_attack_queries(run.path)
        if attack_queries is None:
            attack_queries = tuple(self._winners())
            write_attack_queries(run.path, attack_queries)
        plans = list(self._plans(attack_queries))
        arms = add_arms(run, plans)
        for plan in plans:
            _measure(plan)
            draw_plans(run, [plan], evaluation.ready, evaluation.progress)
        known = self._answers() if self.proves else {}
        for arm, plan in zip(arms, plans, strict=True) if self.proves else ():
            engine = _measure(plan)
            if why := why_unproved(engine, [arm.decoding], self.scorer):
                run.notes.append(f"arm {arm.name!r} was not searched for rare leaks: {why}")
                continue
            forwards = dict.fromkeys((query.id for query in arm.queries), self.budget)
            note_failures(run, self._prove(arm, engine, known, forwards))

    def _prove(
        self,
        arm: Arm,
        engine: Generate,
        known: Mapping[str, Counter[str]],
        forwards: Mapping[str, int],
    ) -> list[Failure]:
        """Prove leaks of each query with its number of forward passes; 0 passes skip the query."""
        proved = {query_id for query_id, most in forwards.items() if most}
        questions = questions_to_prove(arm, self.scorer, known, proved)
        progress = self.evaluation.progress
        return prove_arm(arm, engine, self.scorer, questions, forwards, self.at, progress)

    def _plans(self, attack_queries: Sequence[AttackQuery]) -> Iterator[ArmPlan]:
        """Yield the arm plan of each selected decoding for every model.

        Raises InputError if a model does not accept a query.
        """
        evaluation = self.evaluation
        for arm in dict.fromkeys(attack.arm for attack in attack_queries):
            mine = [attack for attack in attack_queries if attack.arm == arm]
            decoding, queries = mine[0].decoding, tuple(attack.query for attack in mine)
            for role in evaluation.models:
                evaluation.engine(role).check(queries, decoding)
                arms = {replace(arm, model=role): decoding}
                yield from arm_plans(evaluation, arms, queries=queries)

    def _winners(self) -> Iterator[AttackQuery]:
        """Yield the variant of each question that leaks most; its query has the question's id."""
        keys = {decoding: key for key, decoding in arm_keys(self.decodings, ATTACK).items()}
        fields = self._tried()
        if self.proves:
            self._learn()
        for prompt_id, winner in halve(fields, self.budget, self._look).items():
            variant = winner.candidate
            yield AttackQuery(
                query=replace(variant.query, id=prompt_id),
                decoding=variant.decoding,
                shots=variant.shots,
                rounds=winner.standings,
                arm=keys[variant.decoding],
            )

    @cached_property
    def trial(self) -> Run:
        """The separate run of the search, new or resumed."""
        path = self.run.path / ATTACK_FOLDER / "search"
        if trial := Run.resumed(path, self.run.record):
            return trial
        texts, retained = _rewritings(self.run, self.seed), retained_pairs(self.task)
        made: list[Variant] = []
        for prompt in self.run.prompts:
            space = Space(
                texts=(Query.original(prompt), *texts[prompt.id]),
                shots=((), *shots(prompt, retained, self.seed)),
                openers=openers(prompt, self.task.openers.get(prompt.id, ())),
                decodings=self.decodings,
                template=self.template,
            )
            made += variants(space, most_candidates(self.budget), self.seed, self._fits)
        named = tuple(TriedVariant(v.query.id, v.decoding.name, v.shots) for v in made)
        queries = list(dict.fromkeys(variant.query for variant in made))
        return Run.create(path, self.run.prompts, queries, replace(self.run.record, tried=named))

    def _fits(self, query: Query, decoding: Decoding) -> bool:
        """Return whether the engine accepts a query. Shown pairs may make it too long."""
        try:
            self.engine.check([query], decoding)
        except InputError:
            return False
        return True

    def _tried(self) -> dict[str, list[Variant]]:
        """Return the variants of each question that the search tries."""
        query_of = {query.id: query for query in self.trial.queries}
        decodings = {decoding.name: decoding for decoding in self.decodings}
        fields: dict[str, list[Variant]] = {}
        for record in self.trial.record.tried:
            query = query_of[record.query]
            variant = Variant(query=query, decoding=decodings[record.decoding], shots=record.shots)
            fields.setdefault(query.prompt_id, []).append(variant)
        return fields

    def _answers(self, before: int | None = None) -> dict[str, Counter[str]]:
        """Return the counts of the answers in the run and its search, by prompt id.

        With `before`, the answers of round `before` and later rounds are left out, and so are the
        answers to the worst inputs.
        """
        arms = [arm for arm in self.run.arms.values() if before is None or arm.key.kind != "attack"]
        tried = self.trial.arms.values()
        return answers_of([*arms, *(a for a in tried if before is None or a.key.round < before)])

    def _learn(self) -> None:
        """Set the price of a draw in forward passes; bound each question's leakage by its draws."""
        own = [arm for arm in self.run.arms.values() if is_proved(arm.key, arm.decoding)]
        draws = sum(arm.usage.draws for arm in own)
        self.price = FORWARDS * sum(arm.usage.sampled_tokens for arm in own) / draws
        for arm in own:
            score_arm(arm, self.scorer, at=self.at)
            prompt_of = {query.id: query.prompt_id for query in arm.queries}
            for query_id, standing in _by_draws([arm], list(prompt_of), self.scorer).items():
                self._know(prompt_of[query_id], standing)

    def _know(self, prompt_id: str, standing: Standing) -> None:
        self.best[prompt_id] = max(self.best.get(prompt_id, 0.0), standing.floor)

    def _look(self, number: int, draws: Mapping[Variant, int]) -> dict[Variant, Standing]:
        """Run a round with these numbers of draws, and return the standing (result) per variant."""
        texts = self._answers(number) if self.proves else {}
        standings: dict[Variant, Standing] = {}
        for decoding in self.decodings:
            mine = {v.query.id: (v, n) for v, n in draws.items() if v.decoding == decoding}
            if mine:
                forwards = {q: self._forwards(v, n) for q, (v, n) in mine.items()}
                counts = {q: 0 if forwards[q] else n for q, (_, n) in mine.items()}
                arm = self._drawn(number, decoding, counts)
                if any(forwards.values()):
                    self._prove(arm, self.engine, texts, forwards)
                stand = self._standings(number, decoding, list(mine))
                standings |= {v: stand[q] for q, (v, _) in mine.items() if q in stand}
        for variant, standing in standings.items():
            self._know(variant.query.prompt_id, standing)
        return standings

    def _forwards(self, variant: Variant, draws: int) -> int:
        """Return the forward passes that cost as much as these draws; 0 if a leak is probable."""
        if not self.proves or self.best.get(variant.query.prompt_id, 0.0) * draws >= 1:
            return 0
        return max(round(draws * self.price), 1)

    def _drawn(self, number: int, decoding: Decoding, draws: Mapping[str, int]) -> Arm:
        """Draw and score the arm of this round, and return it.

        A failed query is not repeated after its round: a resumed search would then differ.
        """
        (plan,) = arm_plans(self.evaluation, {_round(number, decoding): decoding})
        arm = add_unscored(self.trial, plan, draws)
        if not arm.parts:
            return arm
        if any(not arm.has(part) for part in arm.parts_to_draw()):
            progress, purpose = self.evaluation.progress, f"{PURPOSE}:{arm.name}"
            draw_arm(arm, self.engine, progress=progress, purpose=purpose)
        score_arm(arm, self.scorer, at=self.at)
        return arm

    def _standings(
        self, number: int, decoding: Decoding, query_ids: Sequence[str]
    ) -> dict[str, Standing]:
        """Return the standings of the queries that this round drew or proved, over all rounds."""
        every = (self.trial.arm(_round(earlier, decoding)) for earlier in range(1, number + 1))
        arms, name = [arm for arm in every if arm is not None], slug(self.scorer)
        by_draws = _by_draws(arms, query_ids, self.scorer)
        # if scores are in (0, 1), a short event of one arm may replace longer events of another arm
        parts = [arms, *([arm] for arm in arms)] if self.proves else []
        proofs = [leaking_masses(part, self.scorer) for part in parts]
        forwards = Counter[str]()
        for arm in arms:
            forwards.update(arm.proofs.forwards(name))
        scored = _scored(arms[-1:], self.scorer, query_ids)
        ids = {*arms[-1].proofs.forwards(name), *scored.ids}
        return {
            query_id: replace(
                by_draws.get(query_id, Standing(draws=0, lower=0.0, value=0.0)),
                forwards=forwards[query_id],
                proved=max(
                    (fsum(p[query_id].p * p[query_id].low) for p in proofs if query_id in p),
                    default=0.0,
                ),
            )
            for query_id in query_ids
            if query_id in ids
        }


def _measure(plan: ArmPlan) -> Generate:
    """Return the engine of an arm, after it has measured its margin at the arm's queries."""
    engine = cast(Generate, plan.by)
    if isinstance(engine, Measures):
        engine.measure(plan.spec.attack_queries)
    return engine


def retained_pairs(benchmark: Benchmark) -> tuple[Prompt, ...]:
    """Return the questions of the benchmark's retain split; () if it has no such split."""
    there = benchmark.role == "retain" or "retain" in benchmark.others
    return benchmark.split("retain") if there else ()


def _rewritings(run: Run, seed: int) -> dict[str, list[Query]]:
    """Return the distinct rewritings of the run; if there are none, rewritings by rules."""
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


def _round(number: int, decoding: Decoding) -> ArmKey:
    return ArmKey(kind="search", decoding=decoding.name, round=number)


def _scored(arms: Sequence[Arm], scorer: Scorer, query_ids: Sequence[str]) -> stats.Rows:
    """Return the scores of all draws of these queries."""
    pieces = [arm.scores(slug(scorer), binary=scorer.binary) for arm in arms if arm.parts]
    return joined_rows(pieces, query_ids)


def _by_draws(arms: Sequence[Arm], query_ids: Sequence[str], scorer: Scorer) -> dict[str, Standing]:
    """Return the standing of each of these queries from its draws; omit queries without draws."""
    rows = _scored(arms, scorer, query_ids)
    if not rows.ids:
        return {}
    keys = order_of(arms[-1], scorer)(rows.ids)
    bound = stats.bound(rows, confidence=CONFIDENCE, side="lower", seed=keys)
    columns = (np.asarray(a).tolist() for a in (bound.n, bound.lower, np.nan_to_num(bound.value)))
    return {
        query_id: Standing(draws=n, lower=lower, value=value)
        for query_id, n, lower, value in zip(rows.ids, *columns, strict=True)
    }
