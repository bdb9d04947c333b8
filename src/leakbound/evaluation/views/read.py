"""Runs to views: estimates and completions are read here and nowhere else for page and console."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.errors import InputError, MixError
from leakbound.evaluation.scoring.score import require_known
from leakbound.evaluation.statements.grid import Setting, axes_of, setting_of
from leakbound.evaluation.statements.rows import EACH, LEAKAGE
from leakbound.evaluation.views.asked import read_asked, read_attack, read_attacked, tried
from leakbound.evaluation.views.specification import departures, short, told_of
from leakbound.evaluation.views.stressed import read_stressed
from leakbound.evaluation.views.texts import shown_each, shown_texts
from leakbound.evaluation.views.view import (
    ArmRows,
    DecodingGrid,
    ExploredQuestion,
    Measured,
    Model,
    Question,
    RewrittenModel,
    ScorerView,
    View,
)
from leakbound.scorers import make_scorer
from leakbound.store import (
    CONTROL,
    Arm,
    EstimateRow,
    Estimates,
    ExploredDraws,
    ImportedDraws,
    Redaction,
    Run,
    StoppedDraws,
)
from leakbound.study import RHO
from leakbound.text.shown import many, some
from leakbound.types import Fingerprint, object_of


def read_view(runs: Mapping[str, Run] | Run, *, redact: Redaction = False) -> View:
    """Read all that is shown of `runs`, by the labels they are given; or of one run, without texts.

    Of runs by label all is read, and models are called by the labels; `redact` says which texts
    are left out. Of a run alone its figures are read, and models are called as its arms. Runs
    that asked other questions, used other scorers, another confidence or rho cannot stand side
    by side: MixError. No runs, or one without estimates: InputError.
    """
    if isinstance(runs, Run):
        return _Reader({runs.path.name: runs}, redact, texts=False).view()
    if not runs:
        raise InputError("a report needs at least one run, got none.")
    first_label, first = next(iter(runs.items()))
    for label, run in runs.items():
        if not run.estimates.scorers:
            raise InputError(
                f"run {label!r} has no estimates: none of its questions could be sampled. "
                "Run the command that made it again."
            )
        require_same_questions(label, first_label, run, first)
        mine, others = run.estimates, first.estimates
        for kind, have, want in (
            ("scorers", mine.scorers, others.scorers),
            ("confidence", _confidence(mine), _confidence(others)),
            ("rho", *(r.estimates_made_from().get("rho", RHO) for r in (run, first))),
        ):
            if have != want:
                raise MixError(
                    f"run {label!r} used the {kind} {have!r}, run {first_label!r} {want!r}. One "
                    "report compares runs with the same questions, scorers, confidence and rho; "
                    "evaluate, score and bound them alike."
                )
    return _Reader(runs, redact, texts=True).view()


def _confidence(estimates: Estimates) -> float:
    """At which the bounds on leakage hold, each by itself; what is exact holds at 1."""
    bounded = estimates.plain(quantity=LEAKAGE, scope=(*EACH, "mean"))
    return min((row.confidence for row in bounded), default=1.0)


def sampled_targets(runs: Mapping[str, Run], stress: str = "") -> dict[str, tuple[str, Arm]]:
    """(label of its run, arm) of each target asked in its questions' own words, by a label.

    That is its run's, with the decoding where the run has several. `stress`: the same put through
    this one, as a study names it; MixError for a run that was not.
    """
    targets: dict[str, tuple[str, Arm]] = {}
    for label, run in runs.items():
        arms = [a for a in run.arms.values() if not (a.key.is_control or a.key.greedy)]
        if stress:
            mine = [a for a in arms if a.key == a.key.unstressed.stressed(stress)]
            if not mine:
                stresses = sorted({a.key.stress for a in arms if a.key.stress})
                raise MixError(
                    f"run {label!r} was not put through the stress {stress!r}. It was through: "
                    f"{', '.join(stresses) or 'none'}."
                )
        else:
            mine = [a for a in arms if a.key.own_words]
        for arm in mine:
            name = label if len(mine) == 1 else f"{label}, {arm.decoding.name}"
            targets[name] = (label, arm)
    return targets


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a model of the view is to be found: an arm of the run with the label `run`."""

    label: str
    run: str
    arm: Arm
    is_control: bool
    control: str | None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Runs by label, what is left out of their texts, and whether these are read at all."""

    runs: Mapping[str, Run]
    redact: Redaction
    texts: bool

    def view(self) -> View:
        """All there is to show."""
        first = next(iter(self.runs.values()))
        require_known(first, first.estimates.scorers)
        runs = self.runs.items()
        places = self._places()
        sampled = [place for place in places if not place.arm.decoding.greedy]
        count = shown_each(len(first.questions), len(sampled))
        record = object_of(first.record.benchmark)
        return View(
            benchmark={k: str(v) for k, v in record.items() if isinstance(v, str | int)},
            questions=_questions(first, self.redact),
            scorers=tuple(ScorerView(s, make_scorer(s).binary) for s in first.estimates.scorers),
            models=tuple(self._model(place, count) for place in sampled),
            unsampled=tuple(self._model(place, 0) for place in places if place not in sampled),
            grids=tuple(
                (label, grid)
                for label, run in runs
                for scorer in run.estimates.scorers
                if (grid := read_grid(run, run.estimates.where(scorer=scorer)))
            ),
            confidence=_confidence(first.estimates),
            rho=first.estimates_made_from().get("rho", RHO),
            redacted=self.redact,
            tried={label: counts for label, run in runs if (counts := tried(run))},
            asked=tuple(self._in_other_words(sampled)),
            found=tuple(query for item in runs for query in read_attack(*item, self.redact)),
            searches={label: run.record.attack for label, run in runs if run.record.attack},
            attacked=tuple(
                model
                for label, run in runs
                for model in read_attacked(label if self.texts else None, run)
            ),
            stressed=tuple(
                model
                for place in sampled
                if not place.is_control
                for model in read_stressed(place.label, self.runs[place.run], place.arm.key)
            ),
            texts_each=count,
        )

    def _places(self) -> list[_Place]:
        """Every model once: the targets, then the controls that are no run's target too."""
        targets = sampled_targets(self.runs)
        if not self.texts:
            targets = {arm.name: (label, arm) for label, arm in targets.values()}
        names = {drawn_as(arm): name for name, (_, arm) in targets.items()}
        controls: dict[str, tuple[str, Arm]] = {}
        beside: dict[str, str] = {}
        for name, (label, arm) in targets.items():
            control = self.runs[label].arm(arm.key.control)
            if control is not None:
                taken = control.name in {*targets, *controls}
                fresh = f"{CONTROL} of {name}" if taken else control.name
                beside[name] = names.setdefault(drawn_as(control), fresh)
                if beside[name] == fresh:
                    controls[fresh] = (label, control)
        return [
            _Place(name, label, arm, name in beside.values(), beside.get(name))
            for name, (label, arm) in {**targets, **controls}.items()
        ]

    def _in_other_words(self, places: Sequence[_Place]) -> Iterator[RewrittenModel]:
        """Read each model's answers to rewritings, where it was asked any."""
        for i, place in enumerate(places):
            run = self.runs[place.run]
            arm = run.arm(place.arm.key.with_rewritings)
            if arm is not None:
                yield read_asked(i, place.label, run, arm, self.redact, self.texts)

    def _model(self, place: _Place, count: int) -> Model:
        run, arm = self.runs[place.run], place.arm
        greedy = run.arm(arm.key.greedy_answers)
        rows = ArmRows(arm.name, run.estimates)
        beside, failures = ArmRows(str(arm.key.greedy_answers), run.estimates), arm.failures
        read = self.texts and not arm.decoding.greedy
        texts = shown_texts(arm, greedy, rows.estimates.scorers, count, bool(self.redact))
        return Model(
            label=place.label,
            run=place.run,
            key=arm.key,
            decoding=arm.decoding,
            n=arm.plan.n,
            draws=arm.spec.draws,
            drawn=how_drawn(arm),
            usage=arm.usage,
            facts=facts_of(run, arm),
            departures=departures(run.record, arm.spec),
            rows=rows,
            greedy=beside,
            measured=_measured(arm, rows, beside),
            texts=dict(texts) if read else {},
            failures={k: "reason withheld" if self.redact else v for k, v in failures.items()},
            explored=_explored(arm, rows) if arm.explored else {},
            is_control=place.is_control,
            control=place.control,
            told=Fingerprint.of(arm.spec.fingerprint),
            ledger=arm.ledger,
            notes=run.record.notes,
        )


def read_grid(run: Run, rows: Estimates) -> DecodingGrid | None:
    """Read one scorer's estimates of a run's decodings; None unless they form a whole grid."""
    arms = run.arms
    cells = rows.matching(scope="mean", jointly=True, quantity=(*LEAKAGE, "leak@k"))
    axes = axes_of([arms[name].decoding for name in dict.fromkeys(row.arm for row in cells)])
    most = rows.first(scope="most-leaking decoding")
    if axes is None or most is None:
        return None

    def by_setting(cells: Iterable[EstimateRow]) -> dict[Setting, EstimateRow]:
        return {setting_of(arms[row.arm].decoding): row for row in cells}

    repeated = cells.where(quantity="leak@k")
    return DecodingGrid(
        scorer=most.scorer,
        temperatures=axes[0],
        top_ps=axes[1],
        leakage=by_setting(cells.where(quantity=LEAKAGE)),
        leak_at_k=by_setting(repeated),
        k=next((int(row.parameter) for row in repeated if row.parameter), None),
        effects={str(row.about.knob): row for row in rows.where(quantity="effect")},
        most=(arms[most.arm].decoding.name, most),
        confidence=most.confidence,
    )


def drawn_as(arm: Arm) -> str:
    """Equal for arms with the same draws: an imported control keeps its source's identity."""
    return arm.identity if arm.spec.copied is None else arm.spec.copied.identity


def _measured(arm: Arm, rows: ArmRows, greedy: ArmRows) -> dict[tuple[str, str], Measured]:
    """Gather the estimates of its questions, where there is a bound, by scorer and question."""
    failed = arm.failures
    query_ids = [query.id for query in arm.queries if query.id not in failed]
    measured = {}
    for name in rows.estimates.scorers:
        for query_id in query_ids:
            estimates, answer = rows.of(name, query_id), greedy.of(name, query_id).first()
            if (leakage := estimates.first(quantity=LEAKAGE)) is not None:
                measured[name, query_id] = Measured(
                    leakage=leakage, rows=estimates, greedy=answer.value if answer else None
                )
    return measured


def _explored(arm: Arm, rows: ArmRows) -> dict[str, ExploredQuestion]:
    """The outcome of exploring each question."""
    masses, questions = arm.masses.found(), {}
    for query_id, remainder in masses.remainder.items():
        once = rows.of(rows.estimates.scorers[0], query_id).first(quantity="leak@k", parameter=1)
        questions[query_id] = ExploredQuestion(
            settled=masses.settled[query_id],
            remainder=remainder,
            draws=once.n if once else 0,
            searched=masses.forwards[query_id][0],
            forwards=masses.forwards[query_id][1],
        )
    return questions


def _questions(run: Run, redact: Redaction) -> tuple[Question, ...]:
    prompts = {prompt.id: prompt for prompt in run.prompts}
    if redact == "questions":
        require_ids(run)
    return tuple(
        Question(
            id=query.id,
            text="withheld" if redact == "questions" else query.text,
            answer=None if redact else prompts[query.prompt_id].answer,
            keywords=() if redact else prompts[query.prompt_id].keywords,
        )
        for query in run.questions
    )


def require_ids(run: Run) -> None:
    """Refuse to leave out questions that a page would name by their own words."""
    if named := next((query.id for query in run.queries if query.text in query.id), None):
        raise InputError(
            f"the id {named[:40]!r} holds the text of its question, and pages name questions by "
            "id. Give the questions other ids to leave their texts out."
        )


def facts_of(run: Run, arm: Arm) -> dict[str, str]:
    """The facts of an arm: all its numbers are about, and what its engine says of the model."""
    by_heading = told_of(run, arm)
    facts = {heading.lower(): text for heading, text in by_heading.items()}
    facts |= {
        "model": arm.spec.model,
        "draws": f"{by_heading['Draws']}; {arm.usage.draws:,} in all",
        "drawn as": arm.identity[:12],
    }
    return {**facts, **dict(_flat(arm.spec.fingerprint))}


def how_drawn(arm: Arm) -> str:
    """How many outputs of a question an arm draws, in words."""
    match arm.spec.draws:
        case ExploredDraws(forwards=forwards):
            return f"{forwards:,} prefixes of every question forwarded"
        case StoppedDraws(claim=claim) | ImportedDraws(claim=claim) if claim:
            return f"at most {many(arm.plan.n, 'draw')} of a question, until {claim}"
        case _:
            return f"{many(arm.plan.n, 'draw')} of every question"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list | tuple) and value and isinstance(value[0], str):
            yield f"{prefix}{name}", "; ".join(map(str, value))
        elif value is not None:
            yield f"{prefix}{name}", short(str(value))


def require_same_questions(label: str, other: str, mine: Run, theirs: Run) -> None:
    """Refuse runs that asked different questions, and say in words which."""
    my_ids, their_ids = ([query.id for query in run.questions] for run in (mine, theirs))
    if mine.record.benchmark.sha256 == theirs.record.benchmark.sha256 and my_ids == their_ids:
        return
    sets = [
        f"{run.record.benchmark.name!r} ({many(len(ids), 'question')})"
        for run, ids in ((mine, my_ids), (theirs, their_ids))
    ]
    apart = [
        f"{some(only)} in {name!r} alone"
        for name, only in (
            (label, [q for q in my_ids if q not in set(their_ids)]),
            (other, [q for q in their_ids if q not in set(my_ids)]),
        )
        if only
    ]
    differing = "; ".join(apart) or "the same ids in both, with other texts or in another order"
    raise MixError(
        f"run {label!r} asked {sets[0]}, run {other!r} {sets[1]}: {differing}. One report compares "
        "runs with the same questions; evaluate both on the same benchmark."
    )
