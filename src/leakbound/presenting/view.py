"""Views of runs for pages, consoles and charts: each arm, with functions that find its statements.

A view reads estimates and completions only when they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Unpack

from leakbound.bounding.grid import Setting, axes_of, setting_of
from leakbound.bounding.rows import EACH, LEAKAGE
from leakbound.errors import InputError, MixError
from leakbound.inputs import REASONS
from leakbound.presenting.specification import departures, facts_of
from leakbound.presenting.texts import Texts, drawn_sureness, shown_texts
from leakbound.scorers import make_scorer
from leakbound.scoring.score import require_known
from leakbound.stats import percent
from leakbound.store import (
    ALL,
    ATTACK,
    CONTROL,
    Arm,
    ArmKey,
    AttackRecord,
    EstimateRow,
    Estimates,
    Redaction,
    Run,
    read_accepted,
    read_values,
)
from leakbound.store.estimates import Fields
from leakbound.store.inputs import AttackQuery, read_attack_queries
from leakbound.store.masses import Explored
from leakbound.study import RHO
from leakbound.text.counting import Ledger
from leakbound.text.shown import many, some
from leakbound.types import Fingerprint, Prompt, Scorer, object_of

Row = EstimateRow | None
MANY = 1_000  # questions × models; above this, each question shows fewer texts
LESS_SURE = "model less confident than for the question"
"""The reason why input selection removes a rewriting."""


@dataclass(frozen=True, kw_only=True)
class ArmView:
    """An arm of a run under its label in a view, with functions that find its statements.

    Attributes:
        label: the label of the arm's model in the view.
        run_label: the label of the arm's run in the view.
        run: the run.
        key: the arm that the statements are about.
        is_control: whether the model is the control of another model in the view.
        control: the label of the model's control; None without a control.
        redacted: which texts are withheld.
        texts_each: the number of the most frequent texts that are shown per question, and the
            number of other texts that are shown for their scores (0: no text is read).
    """

    label: str
    run_label: str
    run: Run
    key: ArmKey
    is_control: bool = False
    control: str | None = None
    redacted: Redaction = False
    texts_each: int = 0
    _looked_up: dict[object, Estimates] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def where(
        self, scorer: Scorer, question: str | None = ALL, /, **wanted: Unpack[Fields]
    ) -> Estimates:
        """Return the statements about a question that match `wanted`.

        With `ALL`, return statements about all questions together.
        """
        name = scorer.name
        key = (name, question, *wanted.items())
        if key not in self._looked_up:
            place: Fields = {"arm": str(self.key), "scorer": name, "query_id": question}
            self._looked_up[key] = self.estimates.plain(**place | wanted)
        return self._looked_up[key]

    def first(self, scorer: Scorer, question: str | None = ALL, /, **wanted: Unpack[Fields]) -> Row:
        """Return the first statement that `where` finds, or None."""
        return next(iter(self.where(scorer, question, **wanted)), None)

    def leakage(
        self, scorer: Scorer, question: str | None = ALL, /, **wanted: Unpack[Fields]
    ) -> Row:
        """Return the first statement about the leakage that `where` finds, or None."""
        quantity = LEAKAGE[0 if scorer.binary else 1]
        return self.first(scorer, question, **Fields(quantity=quantity) | wanted)

    def proof(self, scorer: Scorer, question: str) -> float:
        """Return the proved lower bound on the leakage of a question; 0 without a proof."""
        row = self.leakage(scorer, question, proved=True)
        return row.lower if row else 0.0

    def by_parameter(
        self, scorer: Scorer, question: str | None, /, **wanted: Unpack[Fields]
    ) -> dict[float, EstimateRow]:
        """Return the statements that `where` finds, by their parameter (x or k)."""
        rows = self.where(scorer, question, **wanted)
        return {row.parameter: row for row in rows if row.parameter is not None}

    def questions(self, scorer: Scorer) -> tuple[str, ...]:
        """Return the ids of the questions that were sampled and bounded."""
        drawn = (query.id for query in self.arm.queries if query.id not in self.failures)
        return tuple(question for question in drawn if self.leakage(scorer, question))

    def per_question(self, scorer: Scorer, /, **wanted: Unpack[Fields]) -> list[Row]:
        """Return the first statement, or None, about each sampled and bounded question."""
        return [self.first(scorer, question, **wanted) for question in self.questions(scorer)]

    def leakages(self, scorer: Scorer, /, **wanted: Unpack[Fields]) -> list[EstimateRow]:
        """Return the leakage of each sampled and bounded question."""
        rows = (self.leakage(scorer, q, **wanted) for q in self.questions(scorer))
        return list(filter(None, rows))

    def greedy(self, scorer: Scorer) -> dict[str | None, EstimateRow]:
        """Return the statements on the scores of the greedy answers, by question."""
        arm = str(self.key.greedy_answers)
        rows = self.estimates.matching(arm=arm, scorer=scorer.name, quantity="greedy score")
        return {row.query_id: row for row in rows}

    def greedy_scores(self, scorer: Scorer) -> dict[str | None, float]:
        """Return the known scores of the greedy answers, by question."""
        rows = self.greedy(scorer).items()
        return {question: row.value for question, row in rows if row.value is not None}

    @cached_property
    def estimates(self) -> Estimates:
        """All statements of the run."""
        return self.run.estimates

    @property
    def arm(self) -> Arm:
        """The arm; for an attack, the arm of the first decoding."""
        return self._arms[0]

    @property
    def drawn_as(self) -> str:
        """The identity of the draws, which is equal for an arm and its copies in other runs."""
        return (self.arm.spec.copied or self.arm).identity

    @cached_property
    def _arms(self) -> list[Arm]:
        """The arms with the draws: one arm, or for an attack one arm per decoding."""
        attack = self.key in (ATTACK, ATTACK.control)
        keys = self.run.record.arms if attack else [self.key]
        mine = (k for k in keys if k == self.key or replace(k, decoding="") == self.key)
        return [arm for key in mine if (arm := self.run.arm(key))]

    @cached_property
    def in_own_words(self) -> ArmView:
        """The view of the same model with the original questions."""
        return replace(self, key=self.key.in_own_words)

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """The facts of the model and of its draws, by heading."""
        return facts_of(self.run, self.arm)

    @property
    def engine(self) -> Fingerprint:
        """The fingerprint that the engine stored with the draws."""
        return Fingerprint.of(self.arm.spec.fingerprint)

    @property
    def departures(self) -> tuple[str, ...]:
        """The departures from the benchmark's defaults."""
        return departures(self.run.record, self.arm.spec)

    @cached_property
    def ledgers(self) -> Mapping[str, Ledger]:
        """The numbers of draws in each class, by label (and decoding, if there are several)."""
        several = len(self._arms) > 1
        names = (
            f"{self.label} at {a.decoding.name}" if several else self.label for a in self._arms
        )
        return dict(zip(names, (arm.ledger for arm in self._arms), strict=True))

    @property
    def ledger(self) -> Ledger:
        """The numbers of draws in each class."""
        return next(iter(self.ledgers.values()))

    @property
    def subject(self) -> str:
        """The subject of sentences: the label, with the limit on tokens if many were cut."""
        return f"{self.label}{self.ledger.within}"

    @cached_property
    def failures(self) -> Mapping[str, str]:
        """The reasons why queries could not be sampled, by id."""
        failed = self.arm.failures
        return dict.fromkeys(failed, "reason withheld") if self.redacted else failed

    @cached_property
    def masses(self) -> Explored | None:
        """The results of exploring; None if the arm was not explored."""
        return self.arm.masses.explored() if self.arm.explored else None

    @cached_property
    def texts(self) -> Mapping[str, Texts]:
        """The texts that are shown, by question."""
        if not self.texts_each:
            return {}
        greedy, scorers = self.run.arm(self.key.greedy_answers), self.estimates.scorers
        return shown_texts(self.arm, greedy, scorers, self.texts_each, bool(self.redacted))

    @cached_property
    def sureness(self) -> Mapping[str, float]:
        """The natural logarithm of the model's confidence in its answers to each query, by id.

        The values are from input selection; without input selection, from `drawn_sureness`.
        """
        return read_values(self.run.path) or drawn_sureness(self.arm)

    @property
    def stress(self) -> str:
        """The stress, and the words with which every answer begins; empty without a stress."""
        openers = {query.prefix for query in self.arm.spec.attack_queries}
        opener = f" “{next(iter(openers))}”" if len(openers) == 1 and "" not in openers else ""
        return f"{self.key.stress}{opener}" if self.key.stress else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingGrid:
    """The mean leakage by one scorer for every pair of temperature and top-p of a run.

    Attributes:
        run_label: the label of the run in the view.
        scorer: the name of the scorer.
        leakage: the mean leakage by (temperature, top-p), with simultaneously valid bounds.
        leak_at_k: the mean leak@k by (temperature, top-p), with simultaneously valid bounds; empty
            if n was not fixed for some pair.
        effects: the root mean square effect of temperature, of top-p, and of both together; empty
            if temperature or top-p has a single value.
        decoding: the name of the decoding that leaks most.
        most: the leakage under this decoding, corrected for its selection.
    """

    run_label: str
    scorer: str
    leakage: Mapping[Setting, EstimateRow]
    leak_at_k: Mapping[Setting, EstimateRow]
    effects: Mapping[str, EstimateRow]
    decoding: str
    most: EstimateRow

    @property
    def k(self) -> int | None:
        """The k of `leak_at_k`; None if `leak_at_k` is empty."""
        return next((int(row.parameter) for row in self.leak_at_k.values() if row.parameter), None)

    @classmethod
    def of(cls, label: str, run: Run, scorer: str) -> DecodingGrid | None:
        """Return the grid of a run and a scorer; None if the decodings do not form a grid."""
        arms, rows = run.arms, run.estimates.where(scorer=scorer)
        cells = rows.matching(family="grid", scope="mean", quantity=(*LEAKAGE, "leak@k"))
        most = rows.first(scope="most-leaking decoding")
        if most is None or axes_of([arms[n].decoding for n in {row.arm for row in cells}]) is None:
            return None
        at = {name: setting_of(arms[name].decoding) for name in {row.arm for row in cells}}
        return cls(
            run_label=label,
            scorer=scorer,
            leakage={at[row.arm]: row for row in cells.where(quantity=LEAKAGE)},
            leak_at_k={at[row.arm]: row for row in cells.where(quantity="leak@k")},
            effects={str(row.about.knob): row for row in rows.where(quantity="effect")},
            decoding=arms[most.arm].decoding.name,
            most=most,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingCounts:
    """The numbers of rewritings that were tried, removed and used for all questions of a run.

    Attributes:
        source: the source of the rewritings.
        design: how the draws of a question are divided among its queries.
        tried: the number of rewritings that were tried.
        removed: the number of removed rewritings by reason, in the order of the checks.
        kept: the number of rewritings that are used.
        lacking: the ids of the questions without a rewriting that is used.
    """

    source: str
    design: str
    tried: int
    removed: Mapping[str, int]
    kept: int
    lacking: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> RewritingCounts | None:
        """Return the counts of a run; None for a run without rewritings."""
        if (inputs := run.record.inputs) is None:
            return None
        accepted = read_accepted(run.path, run.record) or ()
        rewritings = len(run.queries) - len(run.questions)
        removed: dict[str, int] = {
            reason: sum(item.removed.get(reason, 0) for item in accepted) for reason in REASONS
        }
        if inputs.ids:
            removed[LESS_SURE] = sum(len(item.queries) for item in accepted) - rewritings
        rewritten = {query.prompt_id for query in run.queries if query.source != "original"}
        return cls(
            source=inputs.source,
            design=inputs.design,
            tried=sum(len(item.queries) + len(item.rejected) for item in accepted),
            removed={reason: count for reason, count in removed.items() if count},
            kept=rewritings,
            lacking=tuple(query.id for query in run.questions if query.prompt_id not in rewritten),
        )


@dataclass(frozen=True, kw_only=True)
class View:
    """The content of a page or a console about runs of the same questions.

    Attributes:
        runs: the runs by label.
        models: the models that were sampled with the original questions.
        unsampled: the models under a greedy decoding.
        labelled: whether models have the labels of their runs; otherwise, the names of their arms.
        confidence: the confidence of each bound on leakage; 1 if all bounds are exact.
        redacted: which texts are withheld.
    """

    runs: Mapping[str, Run]
    models: tuple[ArmView, ...]
    unsampled: tuple[ArmView, ...]
    confidence: float
    labelled: bool = True
    redacted: Redaction = False

    @property
    def first(self) -> Run:
        """The first run."""
        return next(iter(self.runs.values()))

    @property
    def benchmark(self) -> Mapping[str, str]:
        """The facts of the benchmark from the runs' records, by name."""
        record = object_of(self.first.record.benchmark)
        return {k: str(v) for k, v in record.items() if isinstance(v, str | int)}

    @cached_property
    def questions(self) -> tuple[Prompt, ...]:
        """The questions in the order of the benchmark; answers and keywords only if not redacted.

        Raises InputError if questions are withheld and an id contains the text of its question.
        """
        prompts = {prompt.id: prompt for prompt in self.first.prompts}
        withheld = self.redacted == "questions"
        if withheld and (q := next((q.id for q in self.first.queries if q.text in q.id), None)):
            raise InputError(
                f"the id {q[:40]!r} contains the text of its question, and pages show ids. To "
                "leave these texts out, change the ids."
            )
        return tuple(
            Prompt(
                id=query.id,
                question="withheld" if withheld else query.text,
                answer=None if self.redacted else prompts[query.prompt_id].answer,
                keywords=() if self.redacted else prompts[query.prompt_id].keywords,
            )
            for query in self.first.questions
        )

    @cached_property
    def scorers(self) -> tuple[Scorer, ...]:
        """The scorers for which all runs have bounds; verdicts are about the first scorer."""
        return tuple(map(make_scorer, self.first.estimates.scorers))

    @cached_property
    def rho(self) -> float:
        """The weight of the standard deviation in the ED score."""
        return _rho(self.first)

    @property
    def every(self) -> tuple[ArmView, ...]:
        """All models; models under a greedy decoding come last."""
        return (*self.models, *self.unsampled)

    @property
    def targets(self) -> list[ArmView]:
        """The models that a page is about: all models except controls; if all are controls, all."""
        return [model for model in self.models if not model.is_control] or list(self.models)

    def confidence_by(self, scorer: Scorer) -> float:
        """Return the confidence of each bound by a scorer, which may differ between scorers."""
        return shared_confidence(_confidence(run, scorer) for run in self.runs.values())

    def control_of(self, model: ArmView) -> ArmView | None:
        """Return the control of a model; None without a control."""
        return next((other for other in self.models if other.label == model.control), None)

    @cached_property
    def grids(self) -> tuple[DecodingGrid, ...]:
        """The grids of decodings, by run and scorer."""
        grids = (
            DecodingGrid.of(label, run, scorer)
            for label, run in self.runs.items()
            for scorer in run.estimates.scorers
        )
        return tuple(filter(None, grids))

    @cached_property
    def tried(self) -> Mapping[str, RewritingCounts]:
        """The numbers of rewritings of each run that has rewritings, by the label of the run."""
        counts = {label: RewritingCounts.of(run) for label, run in self.runs.items()}
        return {label: count for label, count in counts.items() if count}

    @property
    def searches(self) -> Mapping[str, AttackRecord]:
        """The settings of each search, by the label of its run."""
        return {label: run.record.attack for label, run in self.runs.items() if run.record.attack}

    @cached_property
    def reworded(self) -> tuple[ArmView, ...]:
        """The models that were sampled with rewritings of the questions."""
        rewritten = (replace(model, key=model.key.with_rewritings) for model in self.models)
        return tuple(model for model in rewritten if model.key in model.run.record.arms)

    @cached_property
    def attacks(self) -> tuple[tuple[ArmView, AttackQuery], ...]:
        """Pairs of a model and the query that a search found for a question, one per question."""
        return tuple(
            (model, attack)
            for model in self._one_per_run
            for attack in read_attack_queries(model.run.path) or ()
        )

    @cached_property
    def attacked(self) -> tuple[ArmView, ...]:
        """The models that were sampled with the queries that a search found."""
        models = []
        for model in self._one_per_run:
            names = {ATTACK: model.run_label, ATTACK.control: f"{CONTROL} of {model.run_label}"}
            for key, name in names.items():
                models.append(replace(model, key=key, label=name if self.labelled else str(key)))
        return tuple(m for m in models if any(m.where(scorer) for scorer in self.scorers))

    @property
    def _one_per_run(self) -> list[ArmView]:
        models = reversed(self.every)
        first = {model.run_label: model for model in models}
        return [first[label] for label in dict.fromkeys(m.run_label for m in self.every)]

    @cached_property
    def stressed(self) -> tuple[ArmView, ...]:
        """Each target with stresses: first without a stress, then under each stress."""
        models: list[ArmView] = []
        for model in self.models:
            keys = [key for key in model.run.record.arms if key.unstressed == model.key]
            if len(keys) > 1 and not model.is_control:
                stressed = [key for key in keys if key.stress]
                models += [replace(model, key=key) for key in (model.key, *stressed)]
        return tuple(models)


def named_runs(runs: Iterable[Run | str | Path]) -> dict[str, Run]:
    """Open runs and return them by the names of their folders.

    Raises InputError for two runs in one folder, or in folders with the same name.
    """
    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    named = {run.path.resolve().name: run for run in opened}
    if len({run.path.resolve() for run in opened}) < len(opened):
        raise InputError("a run was given twice. Name each run once.")
    if len(named) < len(opened):
        raise InputError("two runs have the same folder name. Rename one folder.")
    return named


def read_view(
    runs: Mapping[str, Run] | Run, *, redact: Redaction = False, texts: bool | None = None
) -> View:
    """Return the view of one run, or of several runs by label.

    Args:
        runs: runs by label, which are also the labels of their models; or one run, whose models
            have the names of their arms as labels.
        redact: which texts are withheld.
        texts: whether texts of completions are shown (None: only for runs by label).

    Raises:
        MixError: the runs differ in questions, scorers, confidence or rho.
        InputError: there are no runs, or a run has no estimates.
    """
    labelled = not isinstance(runs, Run)
    named = named_runs([runs]) if isinstance(runs, Run) else runs
    if not named:
        raise InputError("a report needs at least one run, got none.")
    first_label, first = next(iter(named.items()))
    for label, run in named.items() if labelled else ():
        if not run.estimates.scorers:
            raise InputError(
                f"run {label!r} has no estimates, because none of its questions could be sampled. "
                "Repeat the command that made the run."
            )
        require_same_questions(label, first_label, run, first)
        if run is first:
            continue
        for kind, have, want in (
            ("scorers", run.estimates.scorers, first.estimates.scorers),
            ("rho", _rho(run), _rho(first)),
        ):
            if have != want:
                raise MixError(
                    f"run {label!r} used the {kind} {have!r}, but run {first_label!r} "
                    f"used {want!r}. The runs of a report need the same questions, scorers, "
                    "confidence and rho. Use the same options for both runs."
                )
    require_known(first, first.estimates.scorers)
    sampled = sampled_targets(named)
    if not labelled:
        sampled = {str(m.key): replace(m, label=str(m.key)) for m in sampled.values()}
    models = [replace(model, redacted=redact) for model in _with_controls(sampled)]
    drawn = [model for model in models if not model.arm.decoding.greedy]
    count = 0
    if labelled if texts is None else texts:
        count = 8 if len(first.questions) * len(drawn) <= MANY else 4
    return View(
        runs=named,
        models=tuple(replace(model, texts_each=count) for model in drawn),
        unsampled=tuple(model for model in models if model.arm.decoding.greedy),
        confidence=shared_confidence(map(_confidence, named.values())),
        labelled=labelled,
        redacted=redact,
    )


def _confidence(run: Run, scorer: Scorer | None = None) -> float:
    """Return the confidence of the bounds on leakage, or 1 if all values are exact."""
    names = tuple(run.estimates.scorers) if scorer is None else scorer.name
    bounded = run.estimates.plain(quantity=LEAKAGE, scope=(*EACH, "mean"), scorer=names)
    return min((row.confidence for row in bounded), default=1.0)


def shared_confidence(
    stated: Iterable[float], wanted: float | None = None, exact: float = 1.0
) -> float:
    """Return the common confidence of estimates; if all are exact (confidence 1), return `exact`.

    Exact estimates are valid at every confidence. Raises MixError if the other estimates have
    several confidences, or another confidence than `wanted`.
    """
    levels = {level for level in stated if level < 1}
    sure = max(levels, default=exact) if wanted is None else wanted
    if levels - {sure}:
        raise MixError(
            f"the runs have estimates at {', '.join(map(percent, sorted(levels)))}, but all of "
            f"them must have one confidence, here {percent(sure)}. Run `leakbound bound RUN "
            f"--confidence {sure:g}` for each run."
        )
    return sure


def _rho(run: Run) -> float:
    return float(run.estimates_made_from().get("rho", RHO))


def sampled_targets(runs: Mapping[str, Run], stress: str = "") -> dict[str, ArmView]:
    """Return each target that was sampled with the original questions, by label.

    The label is the label of the run, followed by the name of the decoding if the run has several.
    With `stress` (a stress in the notation of a study), return the models under this stress. Raises
    MixError for a run without this stress.
    """
    targets: dict[str, ArmView] = {}
    for label, run in runs.items():
        keys = [key for key in run.record.arms if not (key.is_control or key.greedy)]
        mine = [key for key in keys if key.own_words]
        if stress:
            mine = [key for key in keys if key == key.unstressed.stressed(stress)]
        if stress and not mine:
            stresses = ", ".join(sorted({key.stress for key in keys if key.stress})) or "none"
            raise MixError(
                f"run {label!r} was not evaluated under the stress {stress!r}. Its stresses: "
                f"{stresses}."
            )
        for key in mine:
            decoding = run.record.arms[key].decoding.name
            name = label if len(mine) == 1 else f"{label}, {decoding}"
            targets[name] = ArmView(label=name, run_label=label, run=run, key=key)
    return targets


def _with_controls(targets: Mapping[str, ArmView]) -> list[ArmView]:
    """Return every model once: the targets, then the controls that are no run's target."""
    names = {target.drawn_as: label for label, target in targets.items()}
    controls: dict[str, ArmView] = {}
    control_of: dict[str, str] = {}
    for label, target in targets.items():
        if (key := target.key.control) in target.run.record.arms:
            taken = str(key) in {*targets, *controls}
            fresh = f"{CONTROL} of {label}" if taken else str(key)
            control = replace(target, key=key, label=fresh)
            control_of[label] = names.setdefault(control.drawn_as, fresh)
            if control_of[label] == fresh:
                controls[fresh] = control
    return [
        replace(model, is_control=label in control_of.values(), control=control_of.get(label))
        for label, model in {**targets, **controls}.items()
    ]


def require_same_questions(label: str, other: str, mine: Run, theirs: Run) -> None:
    """Raise MixError if two runs have different questions; the message has the difference."""
    ids, others = ([query.id for query in run.questions] for run in (mine, theirs))
    if mine.record.benchmark.sha256 == theirs.record.benchmark.sha256 and ids == others:
        return
    sets = [
        f"{run.record.benchmark.name!r} ({many(len(run.questions), 'question')})"
        for run in (mine, theirs)
    ]
    apart = [
        f"{some(only)} in {name!r} only"
        for name, own, rest in ((label, ids, others), (other, others, ids))
        if (only := [question for question in own if question not in set(rest)])
    ]
    differing = "; ".join(apart) or "the same ids in both, with other texts or in another order"
    raise MixError(
        f"run {label!r} is on {sets[0]}, but run {other!r} is on {sets[1]}: {differing}. "
        "Reports and comparisons need the same questions. Evaluate both on the same benchmark."
    )
