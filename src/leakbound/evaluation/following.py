"""Report on a run in progress: its progress, and bounds that are valid at every look.

No bound here assumes a fixed n: `stats.every_question` of `stats.Stopped` draws is valid at all
looks simultaneously. These bounds need an order of the draws that was fixed before drawing. So they
use the draws of each question in the planned order, up to the first missing part (a part is the
unit of storage). They do not use all finished parts. Workers finish parts with short outputs
earlier, so the finished parts are not a random sample of the draws.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.errors import LeakboundError
from leakbound.presenting.sentences import between
from leakbound.presenting.table import Table
from leakbound.scorers import make_scorer, models_of
from leakbound.scoring.ordering import order_of
from leakbound.scoring.score import in_reading_of, score_part, scorers_of, slug
from leakbound.store import Arm, FixedDraws, Holder, Run, StoppedDraws, holder_of
from leakbound.store.scores import tallied_rows
from leakbound.store.tables import cells_of
from leakbound.text.counting import Ledger
from leakbound.text.shown import share
from leakbound.types import JsonObject, Scorer, object_of


def first_scores(arm: Arm, scorer: Scorer) -> stats.Rows:
    """Score the draws of every question up to its first missing part, in memory.

    Raises DamagedError for a damaged part.
    """
    tallies: dict[str, Counter[float | None]] = {}
    missing: Counter[str] = Counter()
    ended: set[str] = set()
    for part in arm.parts:
        if not arm.has(part):
            ended.update(part.query_ids)
        if ended.issuperset(part.query_ids):
            continue
        (meta,) = arm.meta([part])
        ended.update(meta.failures)
        for query_id in set(part.query_ids) - ended:
            tallies.setdefault(query_id, Counter())
            missing[query_id] += meta.missing.get(query_id, 0)
        table = arm.completions(part)
        rows, scores = cells_of(table, "query_id", "count"), score_part(arm, scorer, table)
        for (query_id, count), score in zip(rows, scores, strict=True):
            if count and query_id not in ended:
                tallies[query_id][score] += count
    order = [query.id for query in arm.queries if query.id in tallies]
    drawn = {q: tallies[q] for q in order if tallies[q] or missing[q]}
    return tallied_rows(drawn, missing, binary=scorer.binary)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProgress:
    """The progress of an arm.

    Attributes:
        arm: the name of the arm.
        parts: the number of stored parts.
        planned_parts: the number of parts planned so far.
        done: the amount of work in the stored parts, in draws or in explored questions.
        planned: the amount of work in the planned parts.
        stops: whether more parts may be planned later, depending on the draws.
    """

    arm: str
    parts: int
    planned_parts: int
    done: int
    planned: int
    stops: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSoFar:
    """Bounds from the first draws of an arm under one scorer, valid at every look.

    Attributes:
        arm: the name of the arm.
        scorer: the scorer.
        questions: the number of questions of the arm.
        query_ids: the questions that have draws so far.
        bounds: an interval for each question in `query_ids`, all valid simultaneously; None if
            there are no bounds yet.
        why_not: the reason if there are no bounds.
        ledger: the number of stored draws in each class.
    """

    arm: str
    scorer: Scorer
    questions: int = 0
    query_ids: tuple[str, ...] = ()
    bounds: stats.Estimate | None = None
    why_not: str = ""
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def sentence(self) -> str:
        """The bounds so far, in one sentence about the worst question."""
        if self.bounds is None:
            return f"{self.arm}, {self.scorer.name}: {self.why_not.rstrip('.')}."
        worst, drawn = stats.worst_watched(self.bounds), len(self.query_ids)
        of = f"all {drawn:,}" if drawn == self.questions else f"{drawn:,} of {self.questions:,}"
        bounds = between(self.scorer, float(worst.lower), float(worst.upper))
        return (
            f"{self.arm}, {self.scorer.name}: {of} questions have draws. The worst question "
            f"{bounds}{self.ledger.within}. Stored in total: {self.ledger.sentence}."
        )

    def to_dict(self) -> JsonObject:
        """Return the sentence, the questions and their estimates, for JSON."""
        estimate = self.bounds and self.bounds.to_dict()
        names = {"arm": self.arm, "scorer": self.scorer.name, "sentence": self.sentence}
        return object_of({**names, "questions": self.query_ids, "estimate": estimate})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSoFar:
    """The state of a run in progress at one look.

    Attributes:
        arms: the progress of each arm.
        holder: the command that is writing into the run; None if none is known.
        slice: the slice of a study that the run draws, i/N; None: the complete study.
        confidence: the simultaneous confidence of all intervals of an arm and a scorer, at all
            looks.
        so_far: the bounds for each pair of a scorer and an arm that samples the original
            questions.
    """

    arms: tuple[ArmProgress, ...]
    holder: Holder | None
    slice: str | None
    confidence: float
    so_far: tuple[ArmSoFar, ...] = ()

    @classmethod
    def of(cls, run: Run) -> RunSoFar:
        """Return the state of a run from its files, without bounds."""
        arms = []
        for arm in run.arms.values():
            own = [part for part in arm.parts if part.number in arm.own]
            stored = [part for part in own if arm.has(part)]
            progress = ArmProgress(
                arm=arm.name,
                parts=len(stored),
                planned_parts=len(own),
                done=sum(part.amount for part in stored),
                planned=sum(part.amount for part in own),
                stops=isinstance(arm.spec.draws, StoppedDraws),
            )
            arms.append(progress)
        return cls(
            arms=tuple(arms),
            holder=holder_of(run.path),
            slice=run.record.slice,
            confidence=run.study.confidence,
        )

    @property
    def share(self) -> float:
        """The fraction of the work planned so far that is done."""
        planned = sum(arm.planned for arm in self.arms)
        return sum(arm.done for arm in self.arms) / planned if planned else 0.0

    @property
    def done(self) -> str:
        """The number of stored parts, and the fraction of the draws in them."""
        parts = sum(arm.parts for arm in self.arms)
        planned = sum(arm.planned_parts for arm in self.arms)
        return f"{parts:,} of {planned:,} parts, {share(self.share)}"

    @property
    def state(self) -> str:
        """The progress and the running command, in one line."""
        running = f"running: {self.holder}" if self.holder else "no running command is known"
        part = f"slice {self.slice} of a study " if self.slice else ""
        return f"{part}in progress: {self.done}; {running}"

    @property
    def lead(self) -> str:
        """The guarantee of the bounds; it is printed above the bounds."""
        return (
            "These bounds stay valid if you look repeatedly and stop at any time. For each arm and "
            "scorer, all intervals at all looks are valid simultaneously, with "
            f"{stats.percent(self.confidence)} confidence."
        )

    @property
    def table(self) -> Table:
        """The progress of each arm, one row per arm."""
        rows = []
        for arm in self.arms:
            more = " or more" if arm.stops else ""
            draws = f"{arm.done:,} of {arm.planned:,}{more}"
            rows.append((arm.arm, f"{arm.parts:,} of {arm.planned_parts:,}", draws))
        return Table.plain("Drawn so far", ("Arm", "Parts", "Draws"), rows)

    def to_dict(self) -> JsonObject:
        """Return everything, for JSON."""
        bounds = [arm.to_dict() for arm in self.so_far]
        shown = {"state": self.state, "holder": self.holder, "arms": self.arms, "bounds": bounds}
        return object_of(shown)


def follow(run: Run) -> RunSoFar:
    """Return the progress of a run, and bounds that are valid at every look.

    Nothing is written. Completions without scores are scored in memory, by scorers that need no
    model.

    Args:
        run: an open run; see `leakbound.load`.

    Returns:
        The progress of each arm, the running command, and bounds per arm and scorer.
    """
    sampled = [a for a in run.arms.values() if a.key.own_words and not a.key.greedy]
    try:
        scorers = tuple(map(make_scorer, scorers_of(run)))
    except LeakboundError:  # no scorer is named, or one is not installed
        scorers = ()
    with suppress(LeakboundError):  # a damaged part is reported with its arm
        scorers = in_reading_of(run, scorers)
    so_far = []
    for arm, scorer in product(sampled, scorers):
        try:
            so_far.append(_so_far(arm, scorer, run.study.confidence))
        except LeakboundError as error:
            so_far.append(ArmSoFar(arm=arm.name, scorer=scorer, why_not=str(error)))
    return replace(RunSoFar.of(run), so_far=tuple(so_far))


def _so_far(arm: Arm, scorer: Scorer, confidence: float) -> ArmSoFar:
    """Return bounds from the first draws of an arm, or the reason why there are none."""
    lacking = ArmSoFar(arm=arm.name, scorer=scorer)
    if not isinstance(arm.spec.draws, FixedDraws | StoppedDraws):
        return replace(lacking, why_not="bounds are computed when the run is finished")
    if not models_of(scorer):
        rows = first_scores(arm, scorer)
    elif arm.looks and arm.scored.model(slug(scorer)) is not None:
        rows = arm.scores(slug(scorer), binary=scorer.binary, rounds=len(arm.looks))
    else:
        return replace(lacking, why_not="bounds are computed after the scorer's model has run")
    if not rows.ids:
        return replace(lacking, why_not="nothing is drawn yet")
    evidence = Drawn(stats.Stopped(rows, arm.plan.n), order=order_of(arm, scorer))
    return ArmSoFar(
        arm=arm.name,
        scorer=scorer,
        questions=len(arm.queries),
        query_ids=rows.ids,
        bounds=stats.every_question(
            evidence.leakage, len(arm.queries), confidence=confidence, independent=False
        ),
        ledger=arm.ledger,
    )
