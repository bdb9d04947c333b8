"""The rounds of a search for the input that leaks most: by proofs while draws cannot tell.

Each has an arm for every decoding in the search's run. Its draws have a purpose of their own and
are scored to steer, never to bound: `statements.attack` proves that fresh draws of what was found
then need no correction.

Of the eight draws of a candidate in the first round none leaks, whether it leaks once in 10,000
answers or never. What is proved of it tells the two apart. So a question is searched by proofs
until something known of it, its own words included, is to leak at least once in the draws that a
candidate would get; from then on by draws. Both add up, as what was drawn and leaks is proved too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leakbound.evaluation.drawing.prove import RareLeaks, prove_arm, require_prover
from leakbound.evaluation.drawing.said import said_in
from leakbound.evaluation.drawing.sample import plan_unscored, sample_arm
from leakbound.evaluation.drawing.search import CONFIDENCE, FORWARDS, AttackSearch, tried
from leakbound.evaluation.scoring.antichain import joint_antichains, leakage_at_least
from leakbound.evaluation.scoring.ordering import Order, leakage_at_fixed_n
from leakbound.evaluation.scoring.score import score_arm, slug
from leakbound.inputs.halving import Standing, Winner, halve
from leakbound.inputs.variants import Variant
from leakbound.store import Arm, ArmKey, ArmScores, Run
from leakbound.types import Decoding, Progress, Scorer

PURPOSE = "attack"


def winners(run: Run, hunt: AttackSearch) -> dict[str, Winner[Variant]]:
    """What leaks most of each question, by prompt id. Goes on where it was stopped.

    Every decision is made again from the stored scores and proofs, so it is the same one.
    """
    trial, fields = tried(run, hunt)
    most = hunt.budget * len(fields)
    spent, read = Counter[str](), Counter[str]()

    def progress(
        phase: str,
        done: float,
        total: float,
        unit: str = "",
        tokens: int = 0,
        distinct: float | None = None,
        share: float | None = None,
    ) -> None:
        spent[phase], read[phase] = round(done), tokens
        hunt.progress("searching", spent.total(), most, unit, tokens=read.total())

    rounds = _Rounds(run, trial, replace(hunt, progress=progress))
    best = halve(fields, hunt.budget, rounds.look)
    hunt.progress("searching", most, most, "draws")
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
        own = [arm for arm in self.run.arms.values() if arm.key.own_words]
        own = [arm for arm in own if not arm.key.is_control and not arm.decoding.greedy]
        draws = sum(arm.usage.draws for arm in own)
        self.price = FORWARDS * sum(arm.usage.sampled_tokens for arm in own) / draws
        for arm in own:
            score_arm(arm, self.hunt.scorer, at=self.hunt.asked.drawing.at)
            prompt_of = {query.id: query.prompt_id for query in arm.queries}
            for query_id, standing in _by_draws([arm], list(prompt_of), self.hunt.scorer).items():
                self._know(prompt_of[query_id], standing)

    def look(self, number: int, draws: Mapping[Variant, int]) -> dict[Variant, Standing]:
        """Where each stands after this round; what it costs is that of so many draws."""
        known = seen(self.run, self.trial, number) if self.hunt.proves else {}
        found: dict[Variant, Standing] = {}
        for decoding in self.hunt.decodings:
            mine = {v.query.id: (v, n) for v, n in draws.items() if v.decoding == decoding}
            if mine:
                forwards = {q: self._forwards(v, n) for q, (v, n) in mine.items()}
                counts = {q: 0 if forwards[q] else n for q, (_, n) in mine.items()}
                arm = self._drawn(number, decoding, counts)
                if any(forwards.values()):
                    self._prove(arm, forwards, known)
                stand = self._standings(number, decoding, list(mine))
                found |= {v: stand[q] for q, (v, _) in mine.items() if q in stand}
        for variant, standing in found.items():
            self._know(variant.query.prompt_id, standing)
        return found

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
        self, arm: Arm, forwards: Mapping[str, int], known: Mapping[str, Counter[str]]
    ) -> None:
        """Prove what so many forwards show of each query; of those with 0 nothing."""
        engine = require_prover(self.hunt.job.engine, arm.name, arm.decoding)
        most, draws = max(forwards.values()), sum(forwards.values()) / self.price
        search = RareLeaks(self.hunt.scorer, most, known, self.hunt.asked.drawing.at, each=forwards)
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
        told = {*arms[-1].proofs.forwards(name), *_scored(arms[-1:], name, query_ids).query_ids}
        return {
            query_id: replace(
                by_draws.get(query_id, Standing(draws=0, lower=0.0, value=0.0)),
                forwards=forwards[query_id],
                proved=max((leakage_at_least(p.get(query_id, {})) for p in proofs), default=0.0),
            )
            for query_id in query_ids
            if query_id in told
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
    order = Order.of(arms[-1], scorer)
    bound = leakage_at_fixed_n(scores, scorer.binary, order, confidence=CONFIDENCE, side="lower")
    columns = (np.asarray(a).tolist() for a in (bound.n, bound.lower, np.nan_to_num(bound.value)))
    return {
        query_id: Standing(draws=n, lower=lower, value=value)
        for query_id, n, lower, value in zip(scores.query_ids, *columns, strict=True)
    }


def _in_draws(progress: Progress, draws: float) -> Progress:
    """Progress of proofs, told as that of the draws that they cost."""

    def told(
        phase: str,
        done: float,
        total: float,
        unit: str = "",
        tokens: int = 0,
        distinct: float | None = None,
        share: float | None = None,
    ) -> None:
        progress(phase, draws * done / max(total, 1), draws, "draws")

    return told
