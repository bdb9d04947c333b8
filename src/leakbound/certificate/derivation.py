"""`certify`: decide a claim about a run, and write a certificate with all of its evidence.

The evidence includes fingerprints of the run, digests of files and code, and proved lower bounds.
Proved bounds have no sampling error. They assume that rounding errors are within the measured
margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from leakbound import stats
from leakbound.benchmarks.profiles import sets_limit
from leakbound.bounding.bound import bound_run
from leakbound.bounding.claims import evidence_of, places_of
from leakbound.certificate.assumptions import assumed
from leakbound.certificate.certificate import Certificate, Proved, QuestionRecord, read_values
from leakbound.certificate.claim import Verdict, alpha_of, forecast, verdict
from leakbound.certificate.words import downward, sentence, upward
from leakbound.errors import InputError
from leakbound.planning.plan import require_confidence
from leakbound.presenting.specification import (
    departures,
    public_id,
    scorer_words,
    short_limit,
    specification_of,
)
from leakbound.presenting.templates import COMPUTED, LATE
from leakbound.scorers import Of, digest, make_scorer, models_of, reading_of, settings, with_reading
from leakbound.scoring.score import in_reading_of, score_run, scored_by, slug
from leakbound.store import (
    ALL,
    CERTIFICATE,
    TARGET,
    Arm,
    Estimates,
    Run,
    load,
    locked,
    sha256,
    write_json,
)
from leakbound.store.claims import PART, ClaimFields, LeakClaim, RecordedClaim
from leakbound.store.current import code
from leakbound.store.files import as_read, digest_of
from leakbound.text.shown import many
from leakbound.types import JsonObject, Scorer, object_of


def certify(
    run: Run | str | Path,
    *,
    max_leak: float,
    scorer: str | None = None,
    arm: str | None = None,
    of: Of | None = None,
    out: str | Path | None = None,
    **fields: Unpack[ClaimFields],
) -> Certificate:
    """Decide whether Pr[leak] <= max_leak by the estimates of a run, and write a certificate.

    A claim that the run recorded before the first draw is decided at its own error rate alpha. Any
    other claim is decided by statements that are valid simultaneously, see
    `leakbound.bounding.claims`. In both cases, the probability of a wrong verdict is at most
    1 - confidence. A proved lower bound above the limit also refutes the claim. It has no sampling
    error, if rounding errors are within the measured margin. If an error is raised, no certificate
    is written.

    Args:
        run: a run with estimates, or its folder.
        max_leak: the claimed limit on the probability of a leak, in (0, 1).
        scorer: the binary scorer that defines a leak (None: the run's only scorer).
        arm: the name of the arm (model and decoding) in the run (None: the arm of a recorded claim,
            or the run's only sampled decoding).
        of: the part of each output that the claim is about: "answer", "thought" or "either". None:
            either, or the answer if all thoughts of the target are hidden. If the run has no scores
            and estimates of that part, they are computed first, unless the scorer uses a model.
        out: the file (None: certificate.json in the run). With `out` in another folder, the run may
            be read-only, unless scores are missing.
        fields: the optional fields of a `LeakClaim`: every_question, confidence (default: 0.99) and
            accept_cut.

    Returns:
        The certificate. If the file already has the same certificate, it is not written again.

    Raises:
        InputError: for a number out of range; a scorer or arm that the run lacks; several decodings
            without `arm`; a scorer without estimates; a part that the scorer does not evaluate or
            that is hidden; draws that may be copies; changed files; and a different certificate in
            the file.
        MixError: if another command is writing into the run, unless `out` is given.
        IncompleteError: if completions are missing.
    """
    opened = run if isinstance(run, Run) else load(run)
    named = make_scorer(scorer or _only_scorer(opened, of))
    if of is not None and scorer and reading_of(named) not in (None, of):
        raise InputError(
            f"scorer {named.name!r} scores the {reading_of(named)}, but `--of {of}` is another "
            "part. Omit `--of`, or use a scorer of that part."
        )
    (chosen,) = in_reading_of(opened, [named if of is None else with_reading(named, of)])
    main = arm or opened.main or str(TARGET)
    claim = LeakClaim(max_leak=max_leak, scorer=chosen.name, arm=main, **fields)
    if not (arm or is_prior(opened, claim)):
        require_one_decoding(opened)
    require_confidence(claim.confidence, len(opened.prompts))
    require_binary(chosen)
    if main in opened.arms:
        _reading(opened.arms[main], chosen)  # refuses a claim about thoughts that no output has
    file = opened.path / CERTIFICATE if out is None else Path(out)
    with locked(opened.path, "certify") if out is None else nullcontext():
        lacking = chosen != named and not models_of(chosen)
        if lacking and chosen.name not in opened.estimates.scorers:
            score_run(opened, [chosen])
            confidence = opened.estimates_made_from()["confidence"]
            bound_run(opened, [chosen], confidence=confidence)
        evidence_of(opened, main, chosen)  # raises for damaged files
        if not is_prior(opened, claim):
            bounded = map(make_scorer, opened.estimates.scorers)
            claim = replace(claim, among=places_of(opened, bounded))
        certificate = derive(opened, claim, opened.estimates)
        if file.exists():
            _require_same(file, certificate)
        else:
            write_json(file, certificate.to_dict())
    return certificate


def require_binary(scorer: Scorer) -> None:
    """Raise InputError if a scorer may return values other than 0 and 1."""
    if not scorer.binary:
        raise InputError(
            f"scorer {scorer.name!r} gives scores between 0 and 1, but a claim needs scores of 0 "
            f"or 1. Score and bound with '{scorer.name}>=0.5', or another prespecified threshold."
        )


def require_one_decoding(run: Run) -> None:
    """Raise InputError if the target was sampled under several decodings."""
    sampled = [arm for arm, decoding in run.decodings.items() if not decoding.greedy]
    if len(sampled) > 1:
        raise InputError(
            f"`{run.path}` has {len(sampled)} sampled decodings, but a claim is about one "
            f"decoding. Name its arm with `--arm`: {', '.join(map(repr, sampled))}."
        )


def _require_same(file: Path, certificate: Certificate) -> None:
    """Raise InputError if the file contains a different certificate."""
    there = read_values(file)
    if there != as_read(certificate.to_dict()):
        claim, verdict = there.get("claim", {}), there.get("verdict")
        text = claim.get("text", "a claim") if isinstance(claim, Mapping) else "a claim"
        raise InputError(
            f"`{file}` has another certificate ({text}: {verdict}), and certificates are never "
            f"overwritten. Name another file with --out, or remove `{file.name}`."
        )


def _decides(run: Run, claim: LeakClaim, rows: Estimates) -> stats.Estimate:
    """Return the estimate that decides a claim; raise InputError if the run has none."""
    if claim.scorer not in rows.scorers:
        raise InputError(
            f"`{run.path}` has no estimates by {claim.scorer!r}. Run `leakbound bound {run.path} "
            f"--scorer {claim.scorer!r}` first."
        )
    confidence = claim.confidence if claim.among else 2 * claim.confidence - 1
    fits = rows.matching(
        arm=claim.arm,
        scorer=claim.scorer,
        query_id=ALL,
        family="simultaneous" if claim.among else "claim",
        scope="worst question" if claim.every_question else "mean",
        constant=None if claim.among else claim.max_leak,
    )
    sharing = f"Bonferroni over {2 * len(claim.among)}" if claim.among else ""
    for row in fits:
        if math.isclose(row.confidence, confidence) and row.method.endswith(sharing):
            return row.estimate
    bare = replace(claim, accept_cut=False, among=())
    prior = (own.claim for own in run.record.claims if own.prior)
    levels = [c.confidence for c in prior if replace(c, confidence=claim.confidence) == bare]
    only = f" (only at {', '.join(map(stats.percent, levels))}, see --confidence)" if levels else ""
    raise InputError(
        f"`{run.path}` did not record this claim before drawing{only}, and has no estimates at "
        f"{stats.percent(claim.confidence)}. Run `leakbound bound {run.path} --confidence "
        f"{claim.confidence!r}` first."
    )


def is_prior(run: Run, claim: LeakClaim) -> bool:
    """Return whether the run recorded this claim before it drew anything."""
    wanted, made = replace(claim, accept_cut=False, among=()), digest(make_scorer(claim.scorer))
    return RecordedClaim(claim=wanted, digest=made) in run.record.claims


def derive(run: Run, claim: LeakClaim, rows: Estimates) -> Certificate:
    """Return the certificate of a claim, derived from these estimates; write nothing."""
    scorer, arm = make_scorer(claim.scorer), run.arms[claim.arm]
    estimate = _decides(run, claim, rows)
    each = rows.each("leak probability", arm=claim.arm, scorer=claim.scorer)
    own = rows.matching(
        arm=claim.arm, scorer=claim.scorer, quantity="leak probability", proved=True
    )
    # Only an arm with the unchanged questions has this row: a proof is about one query.
    proof = own.first(scope="worst question" if claim.every_question else "mean", proved=True)
    lower = proof.lower if proof else 0.0
    proofs = {row.query_id: row.lower for row in own.matching(scope="query")} if proof else {}
    proved = Proved(lower=lower, questions=len(proofs)) if proof else None
    by_bounds, limit = verdict(estimate, claim, lower), short_limit(arm)
    reasons: tuple[str, ...] = ()
    if by_bounds == "pass" and limit and not _accepted(run, arm, claim):
        reasons = (f"{limit}; draw longer outputs, or certify with `--accept-cut`",)
    decision: Verdict = "inconclusive" if reasons else by_bounds
    columns = [(row.estimate.value, row.n, row.missing) for row in each]
    rates, n, lost = np.array(columns).T
    return Certificate(
        claim=claim,
        verdict=decision,
        sentence=sentence(
            claim,
            decision,
            estimate,
            arm.spec,
            questions=len(each),
            limits=(arm.ledger.limit, arm.ledger.stops),
            proved=lower,
            cut_short=bool(reasons),
        ),
        specification=_specification(run, arm, claim, estimate, proved, reasons),
        forecast=forecast(rates, n, lost, claim) if by_bounds == "inconclusive" else None,
        estimate=estimate,
        proved=proved,
        reasons=reasons,
        ledger=arm.ledger.to_dict(),
        assumes=assumed(run, arm, claim),
        questions=tuple(
            QuestionRecord(
                id=public_id(query),
                value=row.value,
                n=row.n,
                missing=row.missing,
                proved=proofs.get(query.id),
            )
            for query, row in zip(run.questions, each, strict=True)
        ),
        made_from=made_from(run, arm, scorer),
        files=file_digests(run, arm, scorer),
        code=code(),
    )


def _specification(
    run: Run,
    arm: Arm,
    claim: LeakClaim,
    estimate: stats.Estimate,
    proved: Proved | None,
    reasons: tuple[str, ...],
) -> dict[str, str]:
    """Return everything that decides the numbers of a certificate, as texts by heading."""
    scorer, cut, accepted = make_scorer(claim.scorer), short_limit(arm), _accepted(run, arm, claim)
    by_heading = {
        "Claim": f"{claim.text}, about the arm {claim.arm}; {_stated(run, claim)}",
        "Part of the outputs": _reading(arm, scorer),
        "Stop string" if cut.startswith("the stop string") else "Token limit": (
            f"{cut}; {accepted}" if cut and accepted else "; ".join(reasons)
        ),
        "Departures": "; ".join(departures(run.record, arm.spec)),
        **specification_of(run, arm),
        "Scores": scorer_words(scorer, arm.scored.model(slug(scorer))),
        "Bounds": _bounds(claim, estimate, len(run.questions)),
        "Proof": _proof(claim, proved),
    }
    return {heading: text for heading, text in by_heading.items() if text}


def _stated(run: Run, claim: LeakClaim) -> str:
    """Return in words whether the claim was recorded before drawing, and how it is decided."""
    if not claim.among:
        number = sum(recorded.prior for recorded in run.record.claims)
        others = f", like each of the run's {number} recorded claims" if number > 1 else ""
        return f"recorded before anything was drawn; decided at its own error rate{others}"
    return (
        f"{LATE}; decided by one of {2 * len(claim.among)} statements that are valid "
        f"simultaneously at {stats.percent(claim.confidence)} confidence. For each of these arms "
        "and scorers, one is about the mean and one about the worst question: "
        f"{'; '.join(f'{arm} by {scorer}' for arm, scorer in claim.among)}"
    )


def _bounds(claim: LeakClaim, estimate: stats.Estimate, questions: int) -> str:
    """Return both bounds, their method, their error rate and the evidence in words."""
    lower, upper = float(estimate.lower), float(estimate.upper)
    low, high = downward(lower, claim.max_leak), upward(upper, claim.max_leak)
    chosen = f" (divided among {questions:,} questions for the lower bound)" * claim.every_question
    order = "" if estimate.seed is None else f" in the order of seed {estimate.seed}"
    return (
        f"{low} to {high} by {estimate.method}; error rate {alpha_of(claim):.6g} per bound{chosen}"
        f"; {many(int(estimate.n), 'draw')}{order}; draws without a score ({estimate.missing:,}) "
        "count as leaks in the upper bound and as no leaks in the lower bound"
    )


def _proof(claim: LeakClaim, proved: Proved | None) -> str:
    """Return the lower bound without sampling error in words, or "" without a proof."""
    if proved is None:
        return ""
    where = "at the worst question" if claim.every_question else "on average"
    return (
        f"at least {downward(proved.lower, claim.max_leak)} {where}, with proofs for "
        f"{many(proved.questions, 'question')}; {COMPUTED}, given the measured rounding margin"
    )


def _accepted(run: Run, arm: Arm, claim: LeakClaim) -> str:
    """Return in words why cut outputs are accepted, or "" if they are not accepted."""
    if sets_limit(run.record.benchmark, arm.decoding):
        return "set by the published protocol"
    return "accepted by the claim" if claim.accept_cut else ""


def _reading(arm: Arm, scorer: Scorer) -> str:
    """Return the part of the outputs that the claim is about, or "" if the arm has no thoughts.

    Raises InputError for a claim about thoughts if no output has a thought.
    """
    hidden, of = arm.ledger.hidden, reading_of(scorer) or "either"
    if not (hidden or arm.thinks):
        if of == "thought":
            raise InputError(
                f"no output of {arm.place} has a thought, so {scorer.name!r} would pass any limit. "
                "Certify the answer (`--of answer`), or draw with --thinking on."
            )
        return ""
    part = f"{PART[of]} of each output"
    if of == "answer":
        part = "the answer only, thoughts are not covered"
    return f"{part}; {many(hidden, 'draw')} with a hidden thought" if hidden else part


def _only_scorer(run: Run, of: Of | None) -> str:
    """Return the name of the run's only scorer; raise InputError if it has several or none.

    With `of`, the variants of a scorer for answer, thought and either are one scorer.
    """
    names = scored_by(run)
    if of is not None:
        names = tuple({with_reading(make_scorer(name), None).name: name for name in names})
    if len(names) == 1:
        return names[0]
    raise InputError(
        f"`{run.path}` has the scores of {len(names)} scorers ({', '.join(names) or 'none'}), but "
        "a claim is about one scorer. Name it with `--scorer` (in Python `scorer`); `leakbound "
        "score` adds scores."
    )


def made_from(run: Run, arm: Arm, scorer: Scorer) -> JsonObject:
    """Return fingerprints of the questions, the model, the planned draws and the scorer.

    The fingerprints contain no text of the data set. Digests replace the queries of a stress.
    """
    arm_members = {k: v for k, v in object_of(arm.spec).items() if k != "machine"}
    queries: JsonObject = {"queries": arm_members["attack_queries"]}
    questions: dict[str, Any] = {**run.record.questions}
    if half := questions["benchmark"]["half"]:  # its subjects may be people
        questions["benchmark"]["half"] = half | {"subjects": digest_of(half["subjects"])}
    return {
        **questions,
        "arm": {**arm_members, "attack_queries": digest_of(queries)},
        "identity": arm.identity,
        "scorer": object_of({**settings(scorer), "digest": digest(scorer)}),
    }


def file_digests(run: Run, arm: Arm, scorer: Scorer) -> dict[str, str]:
    """Return the SHA-256 of every file behind the arm's estimates, by its path inside the run.

    All part files in the arm's folders are included, even files on which no estimate depends.
    """
    strays = sorted(arm.folder.glob("*/part-*.parquet"))
    files = dict.fromkeys([*run.question_files, *arm.files(slug(scorer)), *strays])
    return {file.relative_to(run.path).as_posix(): sha256(file) for file in files}
