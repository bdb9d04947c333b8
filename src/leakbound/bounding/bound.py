"""Compute bounds of every quantity, for every question, arm and scorer of a run.

Every estimate is valid individually at the requested confidence: its lower and its upper bound each
have half of alpha, where alpha is 1 - confidence. An arm is one model (target or control) given one
kind of query under one decoding. Which bounds exist depends on how the arm was drawn: see the
module `evidence`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leakbound.bounding.claims import claim_estimate, claim_rows, simultaneous_rows
from leakbound.bounding.comparisons import attack_rows, excess_rows, gap_rows
from leakbound.bounding.control_questions import control_question_rows, other_run
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence
from leakbound.bounding.grid import grid_rows
from leakbound.bounding.pooled import Pooled
from leakbound.bounding.proof import proof_rows
from leakbound.bounding.readings import reading_rows, scored_parts
from leakbound.bounding.rows import rows_of
from leakbound.bounding.stressed import stress_rows
from leakbound.errors import InputError
from leakbound.scorers import make_scorer, reading_of
from leakbound.scoring.calibration import Calibration, calibration_of
from leakbound.scoring.checks import require_independent_draws, require_scores
from leakbound.scoring.score import slug
from leakbound.stats.betting import bounds_cached
from leakbound.store import ALL, Arm, DamagedError, EstimateRow, Run, holding, read_calibration
from leakbound.store.files import digest_of
from leakbound.types import Headway, Progress, Scorer, silent

_OF_ONE_ARM = ("single", "leak@k", "claim", "simultaneous")
"""The families (sets of simultaneously valid statements) that use the draws of only one arm.

Exceptions are statements with a reference in `beyond`, and statements about the arm that leaks
most."""


@holding("bound")
def bound_run(
    run: Run, scorers: Sequence[Scorer], *, confidence: float = 0.99, progress: Progress = silent
) -> None:
    """Compute the bounds of every arm and store them, unless current bounds are stored already.

    Stored rows of other scorers stay in the table at their stored confidence, if their scores and
    the run's rho are unchanged. Statements about all questions, except proved bounds, are computed
    only if every question has completions. If draws look like copies, InputError is raised before
    anything is computed, because no bound is valid for copied draws.
    """
    arms = run.arms
    wanted = {scorer.name: _made_from(run, arms, scorer, confidence) for scorer in scorers}
    stored: dict[str, Any] = run.estimates_made_from().get("scorers", {})
    current = {k: made for k, made in stored.items() if _is_current(run, arms, k, made, wanted)}
    todo = [scorer for scorer in scorers if scorer.name not in current]
    names = dict.fromkeys([*stored, *wanted])  # stored scorers keep their order
    every = {name: both[name] for name in names if name in (both := {**current, **wanted})}
    if every == stored:
        return
    for arm in arms.values():
        require_independent_draws(arm)
    jobs = len(todo) * len(arms)
    rows: dict[str, list[EstimateRow]] = {name: [] for name in every}
    for row in run.stored_estimates() if current else ():
        if row.scorer in current and row.family != "simultaneous":
            rows[row.scorer].append(row)
    read: dict[str, RunEvidence] = {}
    for done, scorer in enumerate(todo):
        progress(Headway("bounding", done * len(arms), jobs, "arms × scorers"))
        with bounds_cached():
            read[scorer.name] = evidence = RunEvidence(run, scorer, arms)
            made = _rows(evidence, calibration_of(run, scorer), confidence)
            rows[scorer.name] = list(_described(evidence, made, every[scorer.name]))
    named = {scorer.name: scorer for scorer in scorers}
    for name in every.keys() - read.keys():
        read[name] = RunEvidence(run, named.get(name) or make_scorer(name), arms)
    for row in simultaneous_rows([read[name] for name in every], confidence):
        rows[row.scorer] += _described(read[row.scorer], [row], every[row.scorer])
    progress(Headway("bounding", jobs, jobs, "arms × scorers"))
    made_from = {
        "confidence": confidence,
        "rho": run.study.rho,
        "scores": [row for made in every.values() for row in made["scores"]],
        "calibrated": {k: v for made in every.values() for k, v in made["calibrated"].items()},
        "scorers": every,
    }
    run.remember_headline(next(iter(every)))
    run.write_estimates([row for of_one in rows.values() for row in of_one], made_from)


def _made_from(
    run: Run, arms: Mapping[str, Arm], scorer: Scorer, confidence: float
) -> dict[str, Any]:
    """Return all that a scorer's estimates depend on; raise InputError if it has no scores."""
    name, calibrated = slug(scorer), read_calibration(run.path, slug(scorer))
    others = other_run(run)
    control_arms = {} if others is None else others.arms
    controls = {k: arm.digests(scorer.name, name) for k, arm in control_arms.items()}
    return {
        **({"control questions": controls} if controls else {}),
        "confidence": confidence,
        "rho": run.study.rho,
        "scores": [
            [k, read.name, slug(read), require_scores(arms[k], read)]
            for read in (scorer, *scored_parts(arms, scorer))
            for k in arms
        ],
        "calibrated": {} if calibrated is None else {name: calibrated},
    }


def _is_current(
    run: Run,
    arms: Mapping[str, Arm],
    name: str,
    made: Mapping[str, Any],
    wanted: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Return whether a scorer's stored estimates are still valid."""
    if name in wanted:
        return made == wanted[name]
    try:
        return made == _made_from(run, arms, make_scorer(name), made["confidence"])
    except DamagedError:
        raise
    except InputError:  # the scorer has no scores, or is not installed
        return False


def _rows(run: RunEvidence, judged: Calibration | None, confidence: float) -> Iterator[EstimateRow]:
    """Yield the estimates of one scorer for each arm, then the comparisons of arms."""
    for draws in run.arms.values():
        yield from _arm_rows(draws, run.scorer, judged, confidence)
    every = (excess_rows, gap_rows, grid_rows, attack_rows, stress_rows, control_question_rows)
    for compared in every:
        yield from compared(run, confidence)
    parts = scored_parts({name: draws.arm for name, draws in run.arms.items()}, run.scorer)
    yield from reading_rows(run, parts, confidence)
    yield from claim_rows(run)


def _described(
    run: RunEvidence, rows: Iterable[EstimateRow], made: Mapping[str, Any]
) -> Iterator[EstimateRow]:
    """Yield the rows, with the model, decoding and stress of the arm and a digest of the evidence.

    `made`: everything on which the scorer's estimates depend, see `_made_from`.
    """
    reading, of_all = reading_of(run.scorer) or "", digest_of({"made from": made["scores"]})
    facts: dict[str, Any] = {}
    own: dict[str, str] = {}
    for name, draws in run.arms.items():
        arm, scores = draws.arm, [entry for entry in made["scores"] if entry[0] == name]
        decoding, stress = arm.decoding.name, arm.key.stress
        facts[name] = {"model": arm.spec.model, "decoding": decoding, "stress": stress}
        own[name] = digest_of({"arm": arm.identity, "made from": scores})
    for row in rows:
        alone = row.family in _OF_ONE_ARM and row.about.beyond is None
        alone = alone and not row.scope.startswith("most-leaking")
        evidence_of = own.get(row.arm, of_all) if alone else of_all
        yield replace(row, reading=reading, evidence=evidence_of, **facts.get(row.arm, {}))


def _arm_rows(
    draws: Drawn, scorer: Scorer, judged: Calibration | None, confidence: float
) -> Iterator[EstimateRow]:
    arm = draws.arm
    if draws.greedy:
        yield from rows_of(arm.name, scorer.name, draws.query_ids, draws.greedy_scores())
    elif draws.query_ids:
        yield from _drawn_rows(draws, scorer, judged, confidence)
        yield from proof_rows(arm, scorer)


def _drawn_rows(
    draws: Drawn, scorer: Scorer, judged: Calibration | None, confidence: float
) -> Iterator[EstimateRow]:
    """Yield rows about each question, each query and all questions together, for one arm."""
    place = draws.arm.name, scorer.name
    estimates = [*draws.each(confidence)]
    if (claim := claim_estimate(draws, scorer)) is not None:
        estimates.append(claim)
    if judged is not None:
        estimates.append(judged.correct(draws.leakage, confidence))
    yield from rows_of(*place, draws.query_ids, *estimates)
    if isinstance(draws, Pooled) and draws.has_queries:
        yield from rows_of(*place, *draws.each_query(confidence))
    if draws.complete:
        yield from rows_of(*place, ALL, *draws.together(confidence))
        if draws.arm.key.own_words:
            yield from rows_of(*place, ALL, *draws.band(confidence), family="leak@k")
        if judged is not None:
            yield from rows_of(*place, ALL, judged.correct(draws.mean, confidence))
