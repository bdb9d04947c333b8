"""Quantities of the papers' claims: bounds of `leakbound.stats` on stored runs.

A claim in claims/*.yaml names a `kind` of `KINDS` and its arguments. Every quantity of one model is
a bound function, so that a difference of two shares alpha between them (`stats.excess_of`);
`compared` is the difference of means of `leakbound.compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from lab import Stored
from sizes import CONTROL, PLAIN, RECALL, REWORDED

from leakbound import compare, stats
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import drawn_of
from leakbound.bounding.pooled import Pooled
from leakbound.evaluation import stored_metrics
from leakbound.presenting import questions
from leakbound.presenting.view import read_view
from leakbound.scorers import make_scorer
from leakbound.stats.estimate import Estimate, Side
from leakbound.store import Arm, Run
from leakbound.store.trained import read_trained
from leakbound.text.shown import above, below, number

CONFIDENCE = 0.99
Bound = Callable[..., Estimate]


@dataclass(frozen=True)
class Figure:
    """A number with its bounds; confidence 1 if it has no sampling error or no bound."""

    value: float | None
    lower: float
    upper: float
    confidence: float

    @classmethod
    def exact(cls, value: float) -> Figure:
        """A number without sampling error: of greedy answers, training logs, or the draws."""
        return cls(value, value, value, 1.0)

    @classmethod
    def of(cls, estimate: Estimate) -> Figure:
        """Return an estimate of one number."""
        value = float(estimate.value)
        bounds = float(estimate.lower), float(estimate.upper)
        return cls(None if value != value else value, *bounds, estimate.confidence)

    @classmethod
    def extreme(cls, figures: Sequence[Figure], take: Callable[..., float]) -> Figure:
        """Return the least or largest of several numbers with simultaneously valid bounds."""
        values = [each.value for each in figures if each.value is not None]
        lower, upper = ([getattr(each, end) for each in figures] for end in ("lower", "upper"))
        return cls(take(values, default=None), take(lower), take(upper), CONFIDENCE)

    def less(self, other: Figure) -> Figure:
        """Return this number minus another; the bounds of both are valid simultaneously."""
        value = None if None in (self.value, other.value) else self.value - other.value
        return Figure(value, self.lower - other.upper, self.upper - other.lower, self.confidence)

    @property
    def text(self) -> str:
        """Return the number with its bounds, rounded outward."""
        if self.confidence == 1:
            return number(self.value)
        return f"{number(self.value)} [{below(self.lower)}, {above(self.upper)}]"


def arm_of(run: Run, **how: float | None) -> Arm:
    """Return the draws in original wording under one decoding; by default T = 1, no cut."""
    wanted = {"temperature": 1.0, "top_p": 1.0, "adaptive_temperature": None} | how
    (got,) = (
        arm
        for arm in run.arms.values()
        if arm.key.own_words
        and not (arm.key.is_control or arm.key.greedy)
        and all(getattr(arm.decoding, name) == value for name, value in wanted.items())
    )
    return got


def fixed(stored: Stored, model: str, scorer: str, way: str = PLAIN, **how: float | None) -> Drawn:
    """Return the scored draws of a run."""
    got = drawn_of(arm_of(stored.run(model, way), **how), make_scorer(scorer))
    assert got.rows is not None
    return got


def pooled(stored: Stored, model: str, scorer: str, way: str) -> Pooled:
    """Return the scored draws of all queries of every question."""
    got = drawn_of(stored.run(model, way).arms["target inputs"], make_scorer(scorer))
    assert isinstance(got, Pooled)
    return got


def greedy(stored: Stored, model: str, scorer: str) -> dict[str, float]:
    """Return the score of every greedy answer, by question."""
    rows = stored.run(model).estimates.each("greedy score", arm="greedy", scorer=scorer)
    return {str(row.query_id): row.value or 0.0 for row in rows}


def bound_of(stored: Stored, term: Mapping[str, Any]) -> Bound:
    """Bound `what` for `model` queried one `way`, `times` a factor."""
    what, scorer = term["what"], term["scorer"]
    if scorer == "leak":
        scorer = stored.lab.size.leak
    way = term.get("way", PLAIN)
    how = {name: term[name] for name in ("temperature", "adaptive_temperature") if name in term}
    times, ends = term.get("times", 1.0), ("value", "lower", "upper")
    if what == "greedy":
        value = fmean(greedy(stored, term["model"], scorer).values())
        mean: Bound = fixed(stored, term["model"], scorer).mean
        return changed(mean, lambda _: dict.fromkeys(ends, value))  # has no sampling error
    if what == "mean" and way in (REWORDED, "selected"):
        bound: Bound = pooled(stored, term["model"], scorer, way).mean
    else:
        quantities = {"mean": stats.LEAKAGE, "spread": stats.SD, "ED": stats.ed()}
        quantity = quantities.get(what) or stats.leak_at(int(what.removeprefix("leak@")))
        bound = partial(fixed(stored, term["model"], scorer, way, **how).bound, quantity.mean())
    return changed(bound, lambda made: {end: times * float(getattr(made, end)) for end in ends})


def changed(bound: Bound, change: Callable[[Estimate], dict[str, Any]]) -> Bound:
    """Return a bounded quantity with changed fields."""

    def estimated(*, confidence: float, side: Side) -> Estimate:
        made = bound(confidence=confidence, side=side)
        return replace(made, **change(made))

    return estimated


def less(more: Bound, base: Bound, confidence: float = CONFIDENCE) -> Estimate:
    """Return one bounded quantity minus another of the same kind."""
    about = more(confidence=confidence, side="both").about
    renamed = changed(base, lambda _: {"about": about})
    return stats.excess_of(more, renamed, beyond="baseline", confidence=confidence, side="both")


Term = str | Mapping[str, Any]


def difference(
    stored: Stored,
    *,
    what: str,
    more: Term | Sequence[Term],
    base: Term | Sequence[Term],
    scorer: str = RECALL,
    way: str = PLAIN,
    take: str = "least",
) -> Figure:
    """Return a difference; of lists the least or largest, all valid simultaneously."""

    def terms(given: Term | Sequence[Term]) -> list[dict[str, Any]]:
        each = [given] if isinstance(given, str | Mapping) else given
        rows = ({"model": one} if isinstance(one, str) else one for one in each)
        return [{"what": what, "scorer": scorer, "way": way} | row for row in rows]

    mores, bases = terms(more), terms(base)
    count = max(len(mores), len(bases))
    mores, bases = (each * count if len(each) == 1 else each for each in (mores, bases))
    level = 1 - (1 - CONFIDENCE) / count
    figures = [
        Figure.of(less(bound_of(stored, m), bound_of(stored, {"model": m["model"]} | b), level))
        for m, b in zip(mores, bases, strict=True)
    ]
    return figures[0] if count == 1 else Figure.extreme(figures, min if take == "least" else max)


def compared(stored: Stored, *, more: str, base: str, scorer: str, way: str = PLAIN) -> Figure:
    """Return the mean leakage of one model minus that of another, by `leakbound.compare`."""
    runs = {name: stored.run(name, way) for name in (base, more)}
    every = compare(runs, confidence=CONFIDENCE).scorers
    got = next(each for each in every if each.scorer == scorer)
    (mean,) = (each.mean for each in got.differences.values() if each.mean is not None)
    return Figure.of(mean)


def hidden(stored: Stored, *, models: Sequence[str], control: bool = True) -> Figure:
    """Return the largest leak probability (or excess) at questions with a clean greedy answer."""
    level, scorer = 1 - (1 - CONFIDENCE) / len(models), stored.lab.size.leak
    figures = []
    for model in models:
        clean = tuple(q for q, score in greedy(stored, model, scorer).items() if score == 0)
        if not clean:
            figures.append(Figure(None, 0.0, 1.0, level))
            continue
        drawn = [fixed(stored, name, scorer) for name in (model, *([CONTROL] if control else []))]
        bounds = [Drawn(each.draws.among(clean), order=each.order).leakage for each in drawn]
        bound = partial(stats.excess_of, *bounds) if control else bounds[0]
        worst = stats.worst_question(bound, len(clean), confidence=level, side="both")
        figures.append(Figure.of(worst))
    return figures[0] if len(figures) == 1 else Figure.extreme(figures, max)


def share_above(stored: Stored, *, model: str, limit: float) -> Figure:
    """Return the fraction of questions whose leak probability is above a limit."""
    leaks = fixed(stored, model, stored.lab.size.leak)
    count = len(leaks.query_ids)
    got = stats.leaking_questions(
        leaks.leakage, count, limit, confidence=CONFIDENCE, side="both", each_confidence=0.999
    )
    value, lower, upper = (float(end) / count for end in (got.value, got.lower, got.upper))
    return Figure(value, lower, upper, CONFIDENCE)


def slack(stored: Stored, *, model: str, of: str) -> Figure:
    """Return the largest gap between upper bound and observed value, over the questions."""
    if of == "proportion":
        leaks = fixed(stored, model, stored.lab.size.leak)
        bound = leaks.leakage(confidence=CONFIDENCE, side="upper")
    else:
        drawn = fixed(stored, model, RECALL).evidence
        bound = stats.bound(drawn, confidence=CONFIDENCE, side="upper", method="paper")
    return Figure.exact(float(np.max(np.asarray(bound.upper) - np.asarray(bound.value))))


def metric(stored: Stored, *, name: str, more: str, base: str, way: str) -> Figure:
    """Return a metric of one model minus that of another."""

    def value(model: str) -> float:
        got = stored_metrics(stored.run(model, way))["arms"]["target"]["metrics"]
        return float(got[name]["value"])

    return Figure.exact(value(more) - value(base))


def entropy(stored: Stored, *, model: str, split: str) -> Figure:
    """Return the change of the next token's entropy in training: last tenth minus first tenth."""
    curve = [value for _, value in read_trained(stored.model(model)).curve("entropy", split)]
    part = max(1, len(curve) // 10)
    return Figure.exact(fmean(curve[-part:]) - fmean(curve[:part]))


def utility(stored: Stored, *, more: str, base: Sequence[str], way: str = PLAIN) -> Figure:
    """Return a model's utility minus the best of the others'."""
    best = max(stored.utility(name, way) for name in base)
    return Figure.exact(stored.utility(more, way) - best)


def correlation(stored: Stored, *, model: str) -> Figure:
    """Return the median over questions of r between an answer's log-probability and leakage."""
    (view,) = read_view({"run": stored.run(model, REWORDED)}).reworded
    scorer = make_scorer(RECALL)
    values = (questions.correlation(view, scorer, query.id) for query in view.run.questions)
    return Figure.exact(float(np.median([r for r in values if r is not None])))


def gap(stored: Stored, *, model: str, worst: bool = False) -> Figure:
    """Return the leak probability in other words minus original words: the mean, or the worst."""
    rows = stored.run(model, REWORDED).estimates.where(
        scorer=stored.lab.size.leak,
        query_id=None,
        beyond="own words",
        quantity=("leak probability", "mean leakage"),
    )
    inputs: Any = "worst query" if worst else ("these queries", "input distribution")
    scope: Any = "worst question" if worst else "mean"
    (row,) = rows.where(inputs=inputs, scope=scope)
    return Figure.of(row.estimate)


def cells(run: Run, scorer: str, what: str) -> dict[tuple[float, float], Estimate]:
    """Return the mean, or leak@k, under every decoding of a grid; all valid simultaneously."""
    wanted: Any = ("leak probability", "mean leakage") if what == "mean" else ("leak@k",)
    rows = run.estimates.where(scorer=scorer, query_id=None, scope="mean", family="grid")
    got = {}
    for row in rows.where(quantity=wanted):
        decoding = run.arms[row.arm].decoding
        got[decoding.temperature, decoding.top_p] = row.estimate
    return got


def effects(stored: Stored, *, what: str, model: str, way: str) -> Figure:
    """Return the effect of top-p minus that of temperature: root mean squares over the grid."""
    got = cells(stored.run(model, way), stored.lab.size.leak, what)
    heats, tops = (sorted({cell[i] for cell in got}) for i in (0, 1))
    lower, upper, value = (
        [[float(getattr(got[t, p], end)) for p in tops] for t in heats]
        for end in ("lower", "upper", "value")
    )
    confidence = next(iter(got.values())).confidence
    two = stats.two_way(lower, upper, value, "temperature", "top-p", confidence)
    heat, top, _ = map(Figure.of, two.estimates)
    return top.less(heat)


def top_p(stored: Stored, *, what: str, model: str, way: str) -> Figure:
    """Return the mean at T = 1 and top-p 1 minus the mean at top-p .2."""
    got = cells(stored.run(model, way), stored.lab.size.leak, what)
    return Figure.of(got[1.0, 1.0]).less(Figure.of(got[1.0, 0.2]))


def width(stored: Stored, *, k: int, model: str, way: str = PLAIN) -> Figure:
    """Return the width of the interval of the mean leak@k."""
    drawn = fixed(stored, model, stored.lab.size.leak, way)
    got = drawn.bound(stats.leak_at(k).mean(), confidence=CONFIDENCE, side="both")
    return Figure.exact(float(got.upper) - float(got.lower))


def naive_variance(stored: Stored, *, k: int, n: int, model: str) -> Figure:
    """Return the variance of the naive worst of k over that of the unbiased estimate.

    Every question's draws are dealt, in a fixed order, into packs of n. Each pack gives both
    estimates; their variances over the packs are averaged over the questions.
    """
    drawn = fixed(stored, model, stored.lab.size.leak).draws
    luck = np.random.default_rng(0)
    naive, unbiased = [], []
    for scores, counts in zip(drawn.values, drawn.counts, strict=True):
        draws = luck.permutation(np.repeat(scores, counts))
        packs = draws[: len(draws) // n * n].reshape(-1, n)
        naive.append(float(np.var(packs[:, :k].max(axis=1), ddof=1)))
        estimates = np.asarray(stats.leak_at_k(stats.Rows.of(packs), [k])).reshape(len(packs))
        unbiased.append(float(np.var(estimates, ddof=1)))
    if not fmean(unbiased):
        return Figure(None, 0.0, np.inf, 1.0)
    return Figure.exact(fmean(naive) / fmean(unbiased))


KINDS: Mapping[str, Callable[..., Figure]] = {
    "difference": difference,
    "compared": compared,
    "hidden": hidden,
    "share above": share_above,
    "slack": slack,
    "metric": metric,
    "entropy": entropy,
    "utility": utility,
    "correlation": correlation,
    "gap": gap,
    "effects": effects,
    "top-p": top_p,
    "width": width,
    "naive variance": naive_variance,
}
