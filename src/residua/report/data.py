"""Runs to views: estimates and completions are read here and nowhere else in the report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from residua.errors import InputError, MixError
from residua.evaluation.bound import GREEDY_SCORE, RHO
from residua.evaluation.sample import CONTROL, CONTROL_GREEDY, GREEDY, control_of
from residua.evaluation.score import slug
from residua.report.texts import chosen_texts, distinct_texts, histograms
from residua.report.view import Bound, Measured, Model, Overall, Question, ScorerView, Texts, View
from residua.report.words import described
from residua.scorers import make_scorer
from residua.store import Arm, Run

LEAKAGE = ("leak probability", "mean leakage")
_ED = f"mean + {RHO:g} standard deviations"
_ABSENT = Bound(None, 0.0, 1.0)

Rows = list[dict[str, Any]]


def read_view(runs: Mapping[str, Run], *, redact: bool = False) -> View:
    """What a report on `runs` shows; `redact` leaves answers, keywords and completions out.

    Runs that asked other questions, used other scorers or another confidence cannot stand side
    by side: MixError. No runs, or one without estimates: InputError.
    """
    if not runs:
        raise InputError("a report needs at least one run, got none.")
    tables = {label: _Estimates(run.estimates()) for label, run in runs.items()}
    first_label, first = next(iter(runs.items()))
    for label, run in runs.items():
        if not tables[label].scorers:
            raise InputError(
                f"run {label!r} has no estimates: none of its questions could be sampled. "
                "Run the command that made it again."
            )
        _require_equal(label, first_label, "asked", *(_asked(r) for r in (run, first)))
        for what in ("scorers", "confidence"):
            values = (getattr(tables[x], what) for x in (label, first_label))
            _require_equal(label, first_label, f"used the {what}", *values)
    table = tables[first_label]
    return View(
        benchmark={k: str(v) for k, v in first.record["benchmark"].items()},
        questions=_questions(first, redact),
        scorers=tuple(ScorerView(name, make_scorer(name).binary) for name in table.scorers),
        models=tuple(_model(place, tables[place.run], redact) for place in _places(runs)),
        confidence=table.confidence,
        redacted=redact,
    )


class _Estimates:
    """A run's estimates, looked up by arm, scorer and question."""

    def __init__(self, rows: Rows) -> None:
        self._rows: defaultdict[tuple[str, str, str | None], Rows] = defaultdict(list)
        for row in rows:
            self._rows[row["arm"], row["scorer"], row["query_id"]].append(row)
        self.scorers = tuple(dict.fromkeys(row["scorer"] for row in rows))
        bounded = [row["confidence"] for row in rows if row["estimand"] in LEAKAGE]
        self.confidence: float = bounded[0] if bounded else 1.0

    def of(self, arm: str, scorer: str, query_id: str | None) -> Rows:
        return self._rows.get((arm, scorer, query_id), [])


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
        sampled = [arm for arm in run.arms.values() if not arm.decoding.greedy]
        mine = [arm for arm in sampled if not arm.name.startswith(CONTROL)]
        for arm in mine:
            name = label if len(mine) == 1 else f"{label}, {arm.decoding.name}"
            targets[name] = (label, arm)
    known = {_drawn_as(arm): name for name, (_, arm) in targets.items()}
    controls: dict[str, tuple[str, Arm]] = {}
    beside: dict[str, str] = {}
    for name, (label, arm) in targets.items():
        control = runs[label].arms.get(control_of(arm.name))
        if control is not None:
            fresh = CONTROL if CONTROL not in {*targets, *controls} else f"{CONTROL} of {name}"
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
    return str(arm.spec.get("imported", arm.identity))


def _model(place: _Place, estimates: _Estimates, redact: bool) -> Model:
    arm, run = place.arm, place.arm.run
    greedy = run.arms.get(CONTROL_GREEDY if arm.name.startswith(CONTROL) else GREEDY)
    failures = arm.failures
    texts, drawn = _texts(arm, greedy, estimates.scorers, redact)
    measured = {
        (scorer, query_id): cell
        for (scorer, query_id), histogram in drawn.items()
        if query_id not in failures
        and (cell := _measured(estimates, arm, greedy, scorer, query_id, histogram)) is not None
    }
    return Model(
        label=place.label,
        decoding=arm.decoding,
        n=arm.plan.n,
        usage=arm.usage,
        facts=_facts(arm),
        measured=measured,
        overall={s: _overall(estimates.of(arm.name, s, None)) for s in estimates.scorers},
        texts=texts,
        failures={k: "reason withheld" if redact else v for k, v in failures.items()},
        is_control=place.is_control,
        control=place.control,
    )


def _texts(
    arm: Arm, greedy: Arm | None, scorers: tuple[str, ...], redact: bool
) -> tuple[dict[str, Texts], dict[tuple[str, str], tuple[int, ...]]]:
    """The texts shown of every question, and the histogram of its scores under every scorer."""
    slugs = [slug(make_scorer(name)) for name in scorers]
    answers = {q: texts[0] for q, texts in distinct_texts(greedy, slugs)} if greedy else {}
    chosen: dict[str, Texts] = {}
    drawn: dict[tuple[str, str], tuple[int, ...]] = {}
    for query_id, texts in distinct_texts(arm, slugs):
        chosen[query_id] = chosen_texts(texts, answers.get(query_id), redact)
        for scorer, histogram in zip(scorers, histograms(texts, len(scorers)), strict=True):
            drawn[scorer, query_id] = histogram
    return chosen, drawn


def _measured(
    estimates: _Estimates,
    arm: Arm,
    greedy: Arm | None,
    scorer: str,
    query_id: str,
    histogram: tuple[int, ...],
) -> Measured | None:
    rows = estimates.of(arm.name, scorer, query_id)
    leakage = _first(rows, *LEAKAGE)
    if leakage is None:
        return None
    answer = _first(estimates.of(greedy.name, scorer, query_id), GREEDY_SCORE) if greedy else None
    excess = _first(rows, *(f"excess {name}" for name in LEAKAGE))
    return Measured(
        leakage=_bound(leakage),
        deviation=_bound(_first(rows, "standard deviation")),
        expectation_deviation=_bound(_first(rows, _ED)),
        leak_at_k={int(r["parameter"]): _bound(r) for r in rows if r["estimand"] == "leak@k"},
        tail={r["parameter"]: _bound(r) for r in rows if r["estimand"] == "Pr[X > x]"},
        greedy=answer["value"] if answer else None,
        excess=_bound(excess) if excess else None,
        missing=leakage["missing"],
        histogram=histogram,
    )


def _overall(rows: Rows) -> Overall:
    mean, worst = (
        next((_bound(r) for r in rows if word in r["target"]), None)
        for word in ("the mean over", "the worst of")
    )
    return Overall(mean=mean, worst=worst)


def _first(rows: Rows, *estimands: str) -> dict[str, Any] | None:
    return next((row for row in rows if row["estimand"] in estimands), None)


def _bound(row: dict[str, Any] | None) -> Bound:
    if row is None:
        return _ABSENT
    value = row["value"]
    return Bound(None if value is None or value != value else value, row["lower"], row["upper"])


def _questions(run: Run, redact: bool) -> tuple[Question, ...]:
    prompts = {prompt.id: prompt for prompt in run.prompts}
    return tuple(
        Question(
            id=query.id,
            text=query.text,
            answer=None if redact else prompts[query.prompt_id].answer,
            keywords=() if redact else prompts[query.prompt_id].keywords,
        )
        for query in run.queries
    )


def _facts(arm: Arm) -> dict[str, str]:
    """What was run, as the run's record names it."""
    spec = arm.spec
    facts = {
        "model": spec.get("model", "unnamed"),
        "decoding": described(arm.decoding),
        "draws": f"{arm.plan.n:,} of every question, seed {spec['seed']}",
        "stopping": spec.get("stopping", "fixed n"),
        "drawn as": arm.identity[:12],
    }
    return {name: str(fact) for name, fact in {**facts, **dict(_flat(spec["fingerprint"]))}.items()}


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


def _asked(run: Run) -> tuple[str, tuple[str, ...]]:
    return run.record["benchmark"]["sha256"], tuple(query.id for query in run.queries)


def _require_equal(label: str, other: str, what: str, have: Any, want: Any) -> None:
    if have != want:
        raise MixError(
            f"run {label!r} {what} {have!r}, run {other!r} {want!r}. One report compares runs "
            "with the same questions, scorers and confidence; evaluate, score and bound them alike."
        )
