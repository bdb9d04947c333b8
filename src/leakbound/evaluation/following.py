"""A run while it is drawn: how far it is, and what can be said of it whenever somebody looks.

Nothing here is a bound for a fixed n: `stats.watched_questions` holds however often somebody looks.
What it needs is an order of the draws that was fixed before them: of every question those of its
parts before the first that is missing, in the order in which they were planned. Workers finish
parts in whatever order they please, a part of short outputs sooner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from leakbound import stats
from leakbound.errors import LeakboundError
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import in_reading_of, score_part, scorers_of, slug
from leakbound.evaluation.statements.drawn import Stopped
from leakbound.evaluation.views.table import Cell, Interval, Table, count_cell, interval
from leakbound.evaluation.views.words import (
    MOST_NAME,
    between,
    clipped,
    described,
    loaded_name,
    quantity,
)
from leakbound.scorers import make_scorer, models_of
from leakbound.store import Arm, ArmScores, FixedDraws, Part, Run, StoppedDraws
from leakbound.text.counting import Ledger
from leakbound.types import Fingerprint, Scorer


@dataclass(frozen=True, slots=True)
class PartTally:
    """The tally of a stored part, as one scorer scores it.

    scored: how often each query drew each score, or none.
    missing: how many draws of a query never came.
    failed: queries that have no completions.
    """

    scored: Mapping[str, Counter[float | None]]
    missing: Mapping[str, int]
    failed: frozenset[str]


@dataclass(slots=True)
class SeenParts:
    """All that was seen before, so that a look costs what was drawn since the last one.

    Scores are kept in memory and nowhere else: they are stored by who draws.
    """

    _known: dict[tuple[str, str], PartTally] = field(default_factory=dict)
    _said: dict[tuple[str, str], tuple[ArmScores, ArmSoFar]] = field(default_factory=dict)

    def said(
        self, arm: Arm, scorer: Scorer, scores: ArmScores, say: Callable[[], ArmSoFar]
    ) -> ArmSoFar:
        """Hear `say` on these scores; where the last look had the same, what it said then."""
        key = arm.identity, slug(scorer)
        before, so_far = self._said.get(key, (None, None))
        if before is None or so_far is None or not _same(before, scores):
            so_far = say()
            self._said[key] = scores, so_far
        return so_far

    def tally(self, arm: Arm, part: Part, scorer: Scorer) -> PartTally:
        """Tally what a stored part holds; DamagedError where it is not whole, or another's."""
        (meta,) = arm.meta([part])
        key = meta.digest, slug(scorer)
        if key not in self._known:
            table = arm.completions(part)
            scored: dict[str, Counter[float | None]] = {q: Counter() for q in part.query_ids}
            columns = (table[name].to_pylist() for name in ("query_id", "count"))
            scores = score_part(arm, scorer, table)
            for query_id, count, score in zip(*columns, scores, strict=True):
                if count:
                    scored[query_id][score] += count
            self._known[key] = PartTally(scored, meta.missing, frozenset(meta.failures))
        return self._known[key]

    def scores(self, arm: Arm, scorer: Scorer) -> ArmScores:
        """The draws of every question from its first to that before its first missing part."""
        tallies: dict[str, Counter[float | None]] = {}
        missing: Counter[str] = Counter()
        ended: set[str] = set()
        for part in arm.parts:
            if not arm.has(part):
                ended.update(part.query_ids)
            if ended.issuperset(part.query_ids):
                continue
            tally = self.tally(arm, part, scorer)
            ended |= tally.failed
            for query_id in (q for q in part.query_ids if q not in ended):
                tallies.setdefault(query_id, Counter()).update(tally.scored[query_id])
                missing[query_id] += tally.missing.get(query_id, 0)
        drawn = {q: tally for q, tally in tallies.items() if tally or missing[q]}
        return ArmScores.tallied(drawn, missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProgress:
    """How far an arm is.

    arm, model, decoding: whose draws under which decoding.
    parts, planned_parts: those stored, and those known so far.
    done, planned: how much they are, in draws or in questions that are explored.
    stops: whether more may be planned once it is seen what these draws decide.
    """

    arm: str
    model: str
    decoding: str
    parts: int
    planned_parts: int
    done: int
    planned: int
    stops: bool

    @classmethod
    def of(cls, arm: Arm) -> ArmProgress:
        """As its files stand."""
        stored = [part for part in arm.parts if arm.has(part)]
        return cls(
            arm=arm.name,
            model=arm.spec.model,
            decoding=described(arm.decoding, Fingerprint.of(arm.spec.fingerprint).confirmed),
            parts=len(stored),
            planned_parts=len(arm.parts),
            done=sum(part.amount for part in stored),
            planned=sum(part.amount for part in arm.parts),
            stops=isinstance(arm.spec.draws, StoppedDraws),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSoFar:
    """All that an arm's first draws say under one scorer, whenever they are looked at.

    arm, scorer: by name.
    binary: whether that is a leak probability, or else a mean score.
    questions: how many are asked.
    query_ids: those drawn so far.
    words: the questions by id; empty where they are withheld.
    each: their intervals, jointly; None where there is nothing to say yet.
    why_not: the reason for that.
    ledger: how the stored draws are counted.
    """

    arm: str
    scorer: str
    binary: bool = True
    questions: int = 0
    query_ids: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    each: stats.Estimate | None = None
    why_not: str = ""
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def sentence(self) -> str:
        """All that is known so far, in words."""
        if self.each is None:
            return f"{self.arm}, {self.scorer}: {self.why_not.rstrip('.')}."
        worst, drawn = stats.worst_watched(self.each), len(self.query_ids)
        of = f"all {drawn:,}" if drawn == self.questions else f"{drawn:,} of {self.questions:,}"
        ends = between(self, float(worst.lower), float(worst.upper))
        return (
            f"{self.arm}, {self.scorer}: {of} questions are begun, the worst of them {ends}"
            f"{self.ledger.within}. Of all stored {self.ledger.sentence}."
        )

    @property
    def grid(self) -> Table:
        """A row for each question drawn so far, what leaks most first."""
        rows = sorted(self._rows(), key=lambda row: -(row[1].value or 0.0))
        title = f"{self.arm}, {self.scorer}: every question drawn so far"
        return Table(title, ("Question", quantity(self).capitalize(), "Draws"), tuple(rows))

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        if self.each is None:
            return
        for i, query_id in enumerate(self.query_ids):
            shown = Interval.of(self.each, i)
            yield (
                Cell(clipped(f"{query_id} {self.words.get(query_id, '')}".strip(), MOST_NAME)),
                Cell(interval(shown), shown.upper),
                count_cell(int(np.atleast_1d(self.each.n)[i])),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSoFar:
    """A run that is not finished, as it stood at one look.

    arms: how far each is.
    so_far: what the arms that sample the questions in their own words say, by scorer.
    confidence: at which all intervals of an arm and scorer hold, jointly and at every look.
    """

    arms: tuple[ArmProgress, ...]
    so_far: tuple[ArmSoFar, ...]
    confidence: float

    @property
    def share(self) -> float:
        """How much of what is planned so far is drawn."""
        planned = sum(arm.planned for arm in self.arms)
        return sum(arm.done for arm in self.arms) / planned if planned else 0.0

    @property
    def lead(self) -> str:
        """One sentence on what every figure of such a look is."""
        return (
            "These hold however often you look, and whenever you stop: for each arm and scorer, "
            f"with {stats.percent(self.confidence)} confidence, none of its intervals ever fails. "
            "They are wider than those of the finished run."
        )

    @property
    def grid(self) -> Table:
        """A row for each arm: how far it is."""
        rows = [
            (
                Cell(arm.arm),
                Cell(f"{arm.parts:,} of {arm.planned_parts:,}", float(arm.parts)),
                Cell(
                    f"{arm.done:,} of {arm.planned:,}{' or more' if arm.stops else ''}",
                    float(arm.done),
                ),
                Cell(loaded_name(arm.model), prose=True),
                Cell(arm.decoding, prose=True),
            )
            for arm in self.arms
        ]
        return Table("Drawn so far", ("Arm", "Parts", "Draws", "Model", "Decoding"), tuple(rows))


def follow(run: Run, seen: SeenParts | None = None, *, redact: bool | None = None) -> RunSoFar:
    """How far a run is, and what its draws say so far, whatever made somebody look now.

    Nothing is written. What no model is needed for is scored here, in memory; `seen` keeps that
    from one look to the next. `redact` leaves the words of questions out (None: as the run was
    told).
    """
    kept = SeenParts() if seen is None else seen
    arms = tuple(run.arms.values())
    withheld = run.redacted if redact is None else redact
    words = {} if withheld else {query.id: query.text for query in run.questions}
    return RunSoFar(
        arms=tuple(map(ArmProgress.of, arms)),
        so_far=tuple(replace(arm, words=words) for arm in _each_so_far(run, kept)),
        confidence=run.study.confidence,
    )


def _each_so_far(run: Run, seen: SeenParts) -> Iterator[ArmSoFar]:
    sampled = [a for a in run.arms.values() if a.key.own_words and not a.key.greedy]
    try:
        scorers = tuple(map(make_scorer, scorers_of(run)))
    except LeakboundError:  # none is named, or one is not installed
        scorers = ()
    with suppress(LeakboundError):  # of a damaged part, which its own arm reports
        scorers = in_reading_of(run, scorers)
    for arm in sampled:
        for scorer in scorers:
            try:
                yield _so_far(arm, scorer, run.study.confidence, seen)
            except LeakboundError as error:
                yield ArmSoFar(arm=arm.name, scorer=scorer.name, why_not=str(error))


def _so_far(arm: Arm, scorer: Scorer, confidence: float, seen: SeenParts) -> ArmSoFar:
    """Say what an arm's draws show so far, or why that is not known yet."""
    lacking = ArmSoFar(arm=arm.name, scorer=scorer.name)
    if not isinstance(arm.spec.draws, FixedDraws | StoppedDraws):
        return replace(lacking, why_not="bounds follow when the run is finished")
    if not models_of(scorer):
        scores = seen.scores(arm, scorer)
    elif arm.looks and arm.scored.model(slug(scorer)) is not None:
        scores = arm.scores(slug(scorer), rounds=len(arm.looks))
    else:
        return replace(lacking, why_not="this scorer asks a model; bounds follow once it has")
    if not scores.query_ids:
        return replace(lacking, why_not="nothing is drawn yet")

    def say() -> ArmSoFar:
        evidence = Stopped(scores, scorer.binary, arm.plan.n, order=Order.of(arm, scorer))
        return ArmSoFar(
            arm=arm.name,
            scorer=scorer.name,
            binary=scorer.binary,
            questions=len(arm.queries),
            query_ids=scores.query_ids,
            each=stats.watched_questions(
                evidence.leakage, len(arm.queries), confidence=confidence, side="both"
            ),
            ledger=arm.ledger,
        )

    return seen.said(arm, scorer, scores, say)


def _same(scores: ArmScores, other: ArmScores) -> bool:
    return scores.query_ids == other.query_ids and all(
        np.array_equal(getattr(scores, name), getattr(other, name))
        for name in ("scores", "counts", "missing")
    )
