"""Runs to views: estimates and completions are read here and nowhere else in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakbound import stats
from leakbound.errors import InputError, MixError
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.quantities import EACH, LEAKAGE
from leakbound.evaluation.views.asked import read_asked
from leakbound.evaluation.views.attacked import read_attack, read_attacked
from leakbound.evaluation.views.grid import read_grid
from leakbound.evaluation.views.measured import measured, overall
from leakbound.evaluation.views.rewritings import tried
from leakbound.evaluation.views.texts import chosen_texts, distinct_texts, histograms
from leakbound.evaluation.views.view import (
    DecodingGrid,
    ExploredQuestion,
    Measured,
    Model,
    Question,
    RewrittenModel,
    ScorerView,
    Texts,
    View,
)
from leakbound.evaluation.views.words import described
from leakbound.scorers import make_scorer
from leakbound.store import (
    ALL,
    CONTROL,
    Arm,
    Estimates,
    ExploredDraws,
    FixedDraws,
    ImportedDraws,
    Run,
    StoppedDraws,
)
from leakbound.store.identity import some
from leakbound.types import JsonObject, object_of


def read_view(runs: Mapping[str, Run], *, redact: bool = False) -> View:
    """What a report on `runs` shows; `redact` leaves out all but questions and figures.

    Runs that asked other questions, used other scorers or another confidence cannot stand side
    by side: MixError. No runs, or one without estimates: InputError.
    """
    if not runs:
        raise InputError("a report needs at least one run, got none.")
    tables = {label: run.estimates for label, run in runs.items()}
    first_label, first = next(iter(runs.items()))
    for label, run in runs.items():
        if not tables[label].scorers:
            raise InputError(
                f"run {label!r} has no estimates: none of its questions could be sampled. "
                "Run the command that made it again."
            )
        _require_same_questions(label, first_label, run, first)
        mine, others = tables[label], tables[first_label]
        for what, values in (
            ("scorers", (mine.scorers, others.scorers)),
            ("confidence", (_confidence(mine), _confidence(others))),
        ):
            _require_equal(label, first_label, f"used the {what}", *values)
    table, places = tables[first_label], _places(runs)
    return View(
        benchmark={
            k: str(v) for k, v in object_of(first.record.benchmark).items() if v is not None
        },
        questions=_questions(first, redact),
        scorers=tuple(ScorerView(name, make_scorer(name).binary) for name in table.scorers),
        models=tuple(_model(place, runs[place.run], tables[place.run], redact) for place in places),
        grids=tuple(_grids(runs, tables)),
        confidence=_confidence(table),
        redacted=redact,
        tried={label: found for label, run in runs.items() if (found := tried(run))},
        asked=tuple(_asked_in_other_words(runs, places, tables, redact)),
        found=tuple(
            found
            for label, run in runs.items()
            for found in read_attack(label, run, tables[label], redact)
        ),
        attacked=tuple(
            found
            for label, run in runs.items()
            for found in read_attacked(label, run, tables[label])
        ),
    )


def _confidence(estimates: Estimates) -> float:
    """At which the bounds on leakage hold, each by itself; what is exact holds at 1."""
    bounded = estimates.plain(quantity=LEAKAGE, scope=(*EACH, "mean"))
    return min((row.confidence for row in bounded), default=1.0)


def _asked_in_other_words(
    runs: Mapping[str, Run], places: Sequence[_Place], tables: Mapping[str, Estimates], redact: bool
) -> Iterable[RewrittenModel]:
    """What each model of the page answers to rewritings, where it was asked any."""
    for i, place in enumerate(places):
        run = runs[place.run]
        arm = run.arm(place.arm.key.with_rewritings)
        if arm is not None:
            yield read_asked(i, place.label, run, arm, tables[place.run], redact)


def _grids(
    runs: Mapping[str, Run], tables: Mapping[str, Estimates]
) -> Iterable[tuple[str, DecodingGrid]]:
    for label, run in runs.items():
        for scorer in tables[label].scorers:
            grid = read_grid(run, tables[label].where(scorer=scorer))
            if grid is not None:
                yield label, grid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a model of the report is to be found: an arm of the run with the label `run`."""

    label: str
    run: str
    arm: Arm
    is_control: bool
    control: str | None


def _places(runs: Mapping[str, Run]) -> list[_Place]:
    """Every sampled model once: the targets, then the controls that are no run's target too."""
    targets: dict[str, tuple[str, Arm]] = {}
    for label, run in runs.items():
        plain = [arm for arm in run.arms.values() if arm.key.own_words]
        sampled = [arm for arm in plain if not arm.decoding.greedy]
        mine = [arm for arm in sampled if not arm.key.is_control]
        for arm in mine:
            name = label if len(mine) == 1 else f"{label}, {arm.decoding.name}"
            targets[name] = (label, arm)
    known = {_drawn_as(arm): name for name, (_, arm) in targets.items()}
    controls: dict[str, tuple[str, Arm]] = {}
    beside: dict[str, str] = {}
    for name, (label, arm) in targets.items():
        control = runs[label].arm(arm.key.control)
        if control is not None:
            fresh = f"{CONTROL}"
            if fresh in {*targets, *controls}:
                fresh = f"{CONTROL} of {name}"
            beside[name] = known.setdefault(_drawn_as(control), fresh)
            if beside[name] == fresh:
                controls[fresh] = (label, control)
    return [
        _Place(
            label=name,
            run=label,
            arm=arm,
            is_control=name in beside.values(),
            control=beside.get(name),
        )
        for name, (label, arm) in {**targets, **controls}.items()
    ]


def _drawn_as(arm: Arm) -> str:
    """Equal for arms with the same draws: an imported control keeps its source's identity."""
    return arm.identity if arm.spec.copied is None else arm.spec.copied.identity


def _model(place: _Place, run: Run, estimates: Estimates, redact: bool) -> Model:
    arm = place.arm
    greedy = run.arm(arm.key.greedy_answers)
    texts, drawn = _texts(arm, greedy, estimates.scorers, redact)
    return Model(
        label=place.label,
        decoding=arm.decoding,
        drawn=_planned(arm).draws,
        usage=arm.usage,
        facts=_facts(arm),
        measured=_measured(arm, greedy, estimates, drawn),
        overall={
            s: overall(estimates.where(arm=arm.name, scorer=s, query_id=ALL))
            for s in estimates.scorers
        },
        texts=texts,
        failures={k: "reason withheld" if redact else v for k, v in arm.failures.items()},
        explored=_explored(arm),
        is_control=place.is_control,
        control=place.control,
    )


Histograms = dict[tuple[str, str], tuple[int, ...]]


def _texts(
    arm: Arm, greedy: Arm | None, scorers: tuple[str, ...], redact: bool
) -> tuple[dict[str, Texts], Histograms]:
    """The texts shown of every question, and the histogram of its scores under every scorer."""
    slugs = [slug(make_scorer(name)) for name in scorers]
    known = distinct_texts(greedy, slugs) if greedy else ()
    answers = {query_id: texts[0] for query_id, texts in known if texts}
    chosen: dict[str, Texts] = {}
    drawn: Histograms = {}
    for query_id, texts in distinct_texts(arm, slugs):
        chosen[query_id] = chosen_texts(texts, answers.get(query_id), redact)
        for scorer, histogram in zip(scorers, histograms(texts, len(scorers)), strict=True):
            drawn[scorer, query_id] = () if arm.explored else histogram
    return chosen, drawn


def _measured(
    arm: Arm, greedy: Arm | None, estimates: Estimates, drawn: Histograms
) -> dict[tuple[str, str], Measured]:
    """What is known of every question that did not fail, by scorer and question."""
    failures, found = arm.failures, {}
    for (scorer, query_id), histogram in drawn.items():
        mine, beside = (
            estimates.where(arm=name, scorer=scorer, query_id=query_id)
            for name in (arm.name, greedy.name if greedy else "")
        )
        cell = measured(mine, beside, histogram)
        if cell is not None and query_id not in failures:
            found[scorer, query_id] = cell
    return found


def _explored(arm: Arm) -> dict[str, ExploredQuestion]:
    """What exploring found of each question; empty for an arm that was only drawn from."""
    if not arm.explored:
        return {}
    draws: dict[str, int] = {}
    for part in arm.parts:
        completions = arm.completions(part)
        columns = (completions["query_id"], completions["count"])
        for query_id, count in zip(*(c.to_pylist() for c in columns), strict=True):
            draws[query_id] = draws.get(query_id, 0) + count
    forwards, settled = arm.masses.forwards(), arm.masses.settled()
    return {
        query_id: ExploredQuestion(
            settled=settled[query_id],
            remainder=remainder,
            draws=draws.get(query_id, 0),
            searched=forwards[query_id][0],
            forwards=forwards[query_id][1],
        )
        for query_id, remainder in arm.masses.remainders().items()
    }


def _questions(run: Run, redact: bool) -> tuple[Question, ...]:
    prompts = {prompt.id: prompt for prompt in run.prompts}
    return tuple(
        Question(
            id=query.id,
            text=query.text,
            answer=None if redact else prompts[query.prompt_id].answer,
            keywords=() if redact else prompts[query.prompt_id].keywords,
        )
        for query in run.questions
    )


def _facts(arm: Arm) -> dict[str, str]:
    """What was run, as the run's record names it."""
    plan = _planned(arm)
    named = {
        "model": arm.spec.model,
        "decoding": described(arm.decoding),
        "draws": f"{plan.draws}; {arm.usage.draws:,} in all, seed {plan.seed}",
        "stopping": plan.stopping,
        "drawn as": arm.identity[:12],
    }
    return {**named, **dict(_flat(plan.facts)), **dict(_flat(arm.spec.fingerprint))}


@dataclass(frozen=True, slots=True)
class _Planned:
    """How an arm's outputs were drawn, in words: how many, when it ended, what else is recorded."""

    draws: str
    stopping: str
    seed: str
    facts: JsonObject = field(default_factory=dict)


def _planned(arm: Arm) -> _Planned:
    fixed, seed = f"{arm.plan.n:,} draws of every question", str(arm.spec.seed)
    match arm.spec.draws:
        case ExploredDraws(forwards=forwards) as how:
            return _Planned(
                f"{forwards:,} prefixes of every question forwarded",
                "draws of each remainder fixed beforehand",
                seed,
                {"explored": object_of(how)},
            )
        case StoppedDraws(claim=claim, scorer=scorer, confidence=confidence):
            return _Planned(
                f"at most {arm.plan.n:,} draws of a question, until {claim}",
                f"{claim} decided by {scorer.name} at {stats.percent(confidence)}, or "
                f"{arm.plan.n:,} draws",
                seed,
            )
        case ImportedDraws(sampled_by=drawn_by, in_doubt=doubt, seed=stated):
            doubts = {"in doubt": doubt} if doubt else {}
            return _Planned(fixed, "fixed n", stated, {"as sampled by": drawn_by, **doubts})
        case FixedDraws():
            return _Planned(fixed, "fixed n", seed)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        elif value is not None:
            yield f"{prefix}{name}", _short(str(value))


def _short(value: str) -> str:
    """A digest cut to twelve digits; anything else as it is."""
    is_digest = len(value) >= 32 and all(c in "0123456789abcdef" for c in value)
    return value[:12] if is_digest else value


def _require_same_questions(label: str, other: str, mine: Run, theirs: Run) -> None:
    """Refuse runs that asked different questions, and say in words which."""
    one, two = ([query.id for query in run.questions] for run in (mine, theirs))
    if mine.record.benchmark.sha256 == theirs.record.benchmark.sha256 and one == two:
        return
    what = [
        f"{run.record.benchmark.name!r} ({len(ids):,} questions)"
        for run, ids in ((mine, one), (theirs, two))
    ]
    apart = [
        f"{some(only)} in {name!r} alone"
        for name, only in (
            (label, [q for q in one if q not in set(two)]),
            (other, [q for q in two if q not in set(one)]),
        )
        if only
    ]
    differing = "; ".join(apart) or "the same ids in both, with other texts or in another order"
    raise MixError(
        f"run {label!r} asked {what[0]}, run {other!r} {what[1]}: {differing}. One report compares "
        "runs with the same questions; evaluate both on the same benchmark."
    )


def _require_equal(label: str, other: str, what: str, have: Any, want: Any) -> None:
    if have != want:
        raise MixError(
            f"run {label!r} {what} {have!r}, run {other!r} {want!r}. One report compares runs "
            "with the same questions, scorers and confidence; evaluate, score and bound them alike."
        )
