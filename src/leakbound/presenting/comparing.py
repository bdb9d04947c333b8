"""Compare runs with the first run: `compare` for models, `compare_methods` over training seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from leakbound.bounding.comparisons import difference_rows, mean_of, median_of, share_nothing
from leakbound.bounding.rows import LEAKAGE, rows_of
from leakbound.errors import InputError, MixError
from leakbound.presenting.compared import UTILITY, Comparison, differing
from leakbound.presenting.methods import MethodComparison
from leakbound.presenting.summary import metrics_of
from leakbound.presenting.view import (
    ArmView,
    named_runs,
    require_same_questions,
    sampled_targets,
    shared_confidence,
)
from leakbound.scorers import make_scorer
from leakbound.stats.about import Scope
from leakbound.store import ALL, Arm, EstimateRow, Estimates, Run
from leakbound.store.identity import which_model
from leakbound.stress import named_stress
from leakbound.study import CONFIDENCE
from leakbound.types import Scorer

_NUMBERED = re.compile(r"[-_. ]*(?:seed[-_. ]*)?\d+$")  # the training seed in a label
_ITS_OWN = {"model", "identity of the draws", "weights", "run", "outputs"}  # facts of a single run


def compare(
    runs: Sequence[Run | str | Path] | Mapping[str, Run],
    *,
    confidence: float | None = None,
    utility: str | None = None,
    under: str = "",
) -> Comparison:
    """Compare finished runs with the first run, question by question, with simultaneous bounds.

    The comparison includes every model that was sampled with the original questions, under each of
    its decodings. The model of the first run under its first decoding is the baseline. The result
    lists the settings in which the models differ. It contains the texts of questions unless a run
    is redacted.

    Args:
        runs: open runs, see `leakbound.load`, or their folders. The labels are the names of the
            folders, or the keys of a mapping.
        confidence: the confidence at which all differences of one scorer are valid simultaneously.
            It must equal the confidence of the runs' estimates (None: the confidence of the
            estimates).
        utility: the metric that represents utility in the leaderboard. None: the first of these
            metrics that all runs have: model utility, ROUGE-L recall on the retain set, choice
            accuracy.
        under: the stress under which the models are compared, by its name in the runs, see
            `leakbound.stress` (empty, the default: without a stress).

    Returns:
        The comparison, with the difference of every model from the baseline under each scorer for
            which all runs have bounds.

    Raises:
        InputError: for fewer than two models, a run that is listed twice, two folders with the same
            name, or a stress that does not exist.
        MixError: for runs that differ in questions or confidence, have no common scorer, lack the
            metric or the stress, or have the same draws.
    """
    named = dict(runs) if isinstance(runs, Mapping) else named_runs(runs)
    targets = sampled_targets(named, named_stress(under) if under else "")
    if len(targets) < 2:
        raise InputError(
            f"a comparison needs two models that were sampled, got {_listed([*targets])}. Name "
            "another run, or a run with several decodings."
        )
    scorers = _common(named)
    chosen = _utility(named, utility)
    _require_apart(targets)
    baseline, *others = targets
    first, first_run = targets[baseline].arm, next(iter(named.values()))
    withheld = any(run.redacted for run in named.values())
    made = {label: model.facts for label, model in targets.items()}
    rows = [
        replace(row, arm=label)
        for scorer in scorers
        for label, model in targets.items()
        for row in _standing(model, scorer)
    ]
    sure = shared_confidence((row.confidence for row in rows), confidence, exact=CONFIDENCE)
    for scorer in scorers:
        rows += difference_rows(
            {label: targets[label].arm for label in others},
            first,
            scorer,
            questions=len(first_run.questions),
            confidence=sure,
        )
    return Comparison(
        baseline=baseline,
        labels=tuple(targets),
        confidence=sure,
        made=differing(made, leave_out=_ITS_OWN),
        scorers=scorers,
        statements=Estimates(tuple(rows)),
        dependent=tuple(la for la in others if not share_nothing([targets[la].arm], [first])),
        draws={label: model.arm.usage.draws for label, model in targets.items()},
        utility=chosen,
        useful={label: metrics_of(model.run, "target") for label, model in targets.items()},
        ledgers={label: model.ledger for label, model in targets.items()},
        questions={} if withheld else {query.id: query.text for query in first_run.questions},
    )


def _standing(model: ArmView, scorer: Scorer) -> Iterator[EstimateRow]:
    """Yield a model's statements about all questions: its leakage, and its excess."""
    scopes: tuple[Scope, ...] = ("mean", "worst question")
    for beyond in (None, "control"):
        yield from model.where(scorer, quantity=LEAKAGE, scope=scopes, beyond=beyond)


def compare_methods(
    runs: Sequence[Run | str | Path] | Mapping[str, Run],
    *,
    confidence: float = 0.95,
    under: str = "",
) -> MethodComparison:
    """Compare methods by their median leakage over training seeds.

    The labels of the runs of one method differ only in a number at the end, for example `npo-0` to
    `npo-4`. With too few seeds for a two-sided interval, the median has only a lower bound.

    Args:
        runs: open runs, see `leakbound.load`, or their folders. The labels are the names of the
            folders, or the keys of a mapping.
        confidence: the confidence of each statement, in (0, 1).
        under: the stress under which the models are compared, by its name in the runs, see
            `leakbound.stress` (empty, the default: without a stress).

    Returns:
        The median of every method under each scorer for which all runs have bounds.

    Raises:
        InputError: for too few seeds even for a lower bound.
        MixError: if runs differ in questions, have no common scorer, evaluate the same model, share
            draws or have several decodings, or if only some runs have a control.
    """
    named = dict(runs) if isinstance(runs, Mapping) else named_runs(runs)
    stress = named_stress(under) if under else ""
    targets = sampled_targets(named, stress)
    if len(targets) > len(named):
        raise MixError("a run has several decodings. Evaluate every run under only one decoding.")
    scorers = _common(named)
    _require_apart(targets)
    methods: dict[str, list[str]] = {}
    for label in named:
        methods.setdefault(_NUMBERED.sub("", label) or label, []).append(label)
    for method, labels in methods.items():
        _require_trained_apart(method, {label: targets[label].arm for label in labels})
    controls = {label: m.run.arm(m.key.control) for label, m in targets.items()}
    lacking = [label for label, control in controls.items() if control is None]
    if lacking and len(lacking) < len(controls):
        raise MixError(f"no control for {_listed(lacking)}. Give every run a control, or none.")

    medians: list[EstimateRow] = []
    means: list[EstimateRow] = []
    for scorer, (method, labels) in product(scorers, methods.items()):
        bounds = [mean_of(targets[label].arm, controls[label], scorer) for label in labels]
        arms = [arm for x in labels for arm in (targets[x].arm, controls[x]) if arm is not None]
        median = median_of(bounds, arms, confidence)
        medians += rows_of(method, scorer.name, ALL, median)
        for label, bound in zip(labels, bounds, strict=True):
            mean = bound(confidence=confidence, side="both")
            means += rows_of(label, scorer.name, ALL, mean)
    return MethodComparison(
        medians=Estimates(tuple(medians)),
        means=Estimates(tuple(means)),
        labels=methods,
        excess=not lacking,
        under=stress,
        confidence=confidence,
        ledgers={label: model.ledger for label, model in targets.items()},
    )


def _require_trained_apart(method: str, arms: Mapping[str, Arm]) -> None:
    """Raise MixError if two runs evaluate the same model, because each seed counts only once."""
    label_of: dict[str, str] = {}
    for label, arm in arms.items():
        if (model := which_model(arm.spec)) is not None:
            other = label_of.setdefault(model, label)
            if other != label:
                raise MixError(
                    f"{other!r} and {label!r} of the method {method!r} evaluate the same model. "
                    "Name one run for each training seed."
                )


def _common(runs: Mapping[str, Run]) -> tuple[Scorer, ...]:
    """Return the scorers that all runs have; raise MixError if none, or if questions differ."""
    first_label, first = next(iter(runs.items()))
    for label, run in runs.items():
        require_same_questions(label, first_label, run, first)
    scorers = {label: run.estimates.scorers for label, run in runs.items()}
    common = tuple(
        name for name in scorers[first_label] if all(name in other for other in scorers.values())
    )
    if not common:
        lists = "; ".join(f"{label!r}: {_listed(names)}" for label, names in scorers.items())
        raise MixError(
            f"no scorer has estimates in all of these runs ({lists}). Run `leakbound score RUN "
            "--scorer NAME` for each run with the same scorer, then `leakbound bound RUN`."
        )
    return tuple(map(make_scorer, common))


def _require_apart(targets: Mapping[str, ArmView]) -> None:
    """Raise MixError if two runs have the same draws, because their difference is always 0."""
    label_of: dict[str, str] = {}
    for label, model in targets.items():
        other = label_of.setdefault(model.drawn_as, label)
        if other != label:
            raise MixError(f"{other!r} and {label!r} have the same draws. Name each run once.")


def _utility(runs: Mapping[str, Run], wanted: str | None) -> str | None:
    """Return the metric that represents utility; None if all runs have no common metric."""
    measured = {label: metrics_of(run, "target") for label, run in runs.items()}
    if wanted is None:
        return next((m for m in UTILITY if all(m in own for own in measured.values())), None)
    for label, own in measured.items():
        if wanted not in own:
            raise MixError(
                f"run {label!r} has no metric {wanted!r}; it has {_listed([*own])}. Name another "
                "metric, or evaluate the run with --metrics."
            )
    return wanted


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
