"""Deciding a claim about a run, and writing down all that the decision rests on.

That are fingerprints of what was run, digests of files and the code, and what is proved of the
claim's probability without chance, given the measured margin.
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
from leakbound.certificate.claim import Verdict, forecast, verdict
from leakbound.certificate.words import CUT, GRANTED, STATED, sentence
from leakbound.errors import InputError
from leakbound.planning.plan import require_confidence
from leakbound.presenting.specification import (
    departures,
    public_id,
    short_limit,
    specification_of,
)
from leakbound.scorers import (
    Of,
    digest,
    make_scorer,
    models_of,
    reading_of,
    settings,
    with_reading,
)
from leakbound.scoring.score import in_reading_of, score_run, scored_by, slug
from leakbound.store import (
    ALL,
    CERTIFICATE,
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
from leakbound.types import RULE, JsonObject, Scorer, object_of


def certify(
    run: Run | str | Path,
    *,
    max_leak: float,
    scorer: str | None = None,
    arm: str = "target",
    of: Of | None = None,
    out: str | Path | None = None,
    **fields: Unpack[ClaimFields],
) -> Certificate:
    """Decide whether Pr[leak] <= max_leak by the estimates of a run, and write a certificate.

    A claim that the run recorded before it drew is decided at its own alpha. Any other is decided
    by statements that are valid simultaneously, see `leakbound.bounding.claims`: a wrong verdict
    has probability at most 1 - confidence either way. What is proved above the limit refutes
    without chance, given the measured margin. Where something is raised nothing is written.

    Args:
        run: a run with estimates, or its folder.
        max_leak: the claimed limit of the probability of a leak, in (0, 1).
        scorer: the binary scorer that says what leaks (None: the run's only one).
        arm: which model and decoding, by its name in the run.
        of: the part of each output that is claimed about, "answer", "thought" or "either" (None:
            either, or the answer where some thought of the run is hidden). Scores and estimates of
            that part are made first if the run lacks them and the scorer asks no model.
        out: the file (None: certificate.json in the run). Nothing else is written, so with `out`
            elsewhere the run may be read-only, unless scores are lacking.
        fields: those of a `LeakClaim` that have a default: every_question, confidence (default:
            0.99), accept_cut.

    Returns:
        The certificate; where the same one lies at the place already, that stays as it is.

    Raises:
        InputError: for a number out of range, a scorer or arm that the run has not, or one that
            has no estimate, for a part that the scorer does not read or that is hidden, for draws
            that can only be copies, for files that are not as they were written, and where another
            certificate lies at the place.
        MixError: where another command is writing into the run, unless `out` is given.
        IncompleteError: where completions are missing.
    """
    opened = run if isinstance(run, Run) else load(run)
    named = make_scorer(scorer or _only_scorer(opened))
    if of is not None and scorer and reading_of(named) not in (None, of):
        raise InputError(
            f"scorer {named.name!r} reads the {reading_of(named)}, and `--of {of}` names another "
            "part. Leave one of them out, or use a scorer that reads that part."
        )
    (chosen,) = in_reading_of(opened, [named if of is None else with_reading(named, of)])
    claim = LeakClaim(max_leak=max_leak, scorer=chosen.name, arm=arm, **fields)
    require_confidence(claim.confidence, len(opened.prompts))
    require_binary(chosen)
    file = opened.path / CERTIFICATE if out is None else Path(out)
    with locked(opened.path, "certify") if out is None else nullcontext():
        lacking = chosen != named and not models_of(chosen)
        if lacking and chosen.name not in opened.estimates.scorers:
            score_run(opened, [chosen])
            confidence = opened.estimates_made_from()["confidence"]
            bound_run(opened, [chosen], confidence=confidence)
        evidence_of(opened, arm, chosen)  # refuses files that are not whole
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
    """Refuse a scorer that does not say leak or not."""
    if not scorer.binary:
        raise InputError(
            f"scorer {scorer.name!r} gives scores between 0 and 1, and a claim is about leaks. "
            f"Score and bound with '{scorer.name}>=0.5', whose threshold is fixed before looking."
        )


def _require_same(file: Path, certificate: Certificate) -> None:
    """Refuse to write over anything but the same certificate."""
    there = read_values(file)
    if there != as_read(certificate.to_dict()):
        claim, verdict = there.get("claim", {}), there.get("verdict")
        text = claim.get("text", "a claim") if isinstance(claim, Mapping) else "a claim"
        raise InputError(
            f"`{file}` is another certificate ({text}: {verdict}), and none is written over. Name "
            "another file with --out, or remove that one."
        )


def _decides(run: Run, claim: LeakClaim, rows: Estimates) -> stats.Estimate:
    """The statement that decides a claim; InputError where there is none."""
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
        f"`{run.path}` records no such claim before its draws{only}, and its estimates do not hold "
        f"at {stats.percent(claim.confidence)}. Run `leakbound bound {run.path} --confidence "
        f"{claim.confidence!r}` first."
    )


def is_prior(run: Run, claim: LeakClaim) -> bool:
    """Whether the run recorded this claim before it drew anything."""
    wanted, made = replace(claim, accept_cut=False, among=()), digest(make_scorer(claim.scorer))
    return RecordedClaim(claim=wanted, digest=made) in run.record.claims


def derive(run: Run, claim: LeakClaim, rows: Estimates) -> Certificate:
    """Return the certificate that these rows of a run make of a claim; nothing is written."""
    scorer, arm = make_scorer(claim.scorer), run.arms[claim.arm]
    estimate = _decides(run, claim, rows)
    each = rows.each("leak probability", arm=claim.arm, scorer=claim.scorer)
    proofs, about = _proofs_of(run, arm, claim, rows), _about(run, arm, claim)
    # A question of which nothing is proved leaks with probability 0 at least.
    lower = math.fsum(proofs.values()) / len(run.questions)
    if claim.every_question:
        lower = max(proofs.values(), default=0.0)
    proved = Proved(lower=lower, questions=len(proofs)) if proofs else None
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
            about,
            arm.spec,
            questions=len(each),
            proved=lower,
            reasons=reasons,
        ),
        specification=about,
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


def _about(run: Run, arm: Arm, claim: LeakClaim) -> dict[str, str]:
    """All that the numbers are about, by heading."""
    scorer, limit, accepted = (
        make_scorer(claim.scorer),
        short_limit(arm),
        _accepted(run, arm, claim),
    )
    only = {
        STATED: "after drawing" if claim.among else "",
        "Claim": _stated(run, claim),
        "Reading": _reading(arm, scorer),
        CUT: arm.ledger.within.strip(),
        GRANTED: "; that ".join(assumed(run, arm, claim, aloud=True)),
        "Departs from the benchmark's defaults": "; ".join(departures(run.record, arm.spec)),
        "Limit": f"{limit}; {accepted}" if limit and accepted else "",
    }
    return {
        **{heading: text for heading, text in only.items() if text},
        **specification_of(run, arm),
        "Scores": f"{scorer.name} ({digest(scorer)}), rule {RULE}",
    }


def _stated(run: Run, claim: LeakClaim) -> str:
    """When the claim was stated, and by what it is decided."""
    if not claim.among:
        number = sum(recorded.prior for recorded in run.record.claims)
        others = f", as is each of {number} claims of the run" if number > 1 else ""
        return f"recorded before anything was drawn; decided at its own error rate{others}"
    return (
        f"stated after drawing; decided by one of {2 * len(claim.among)} statements that are valid "
        f"simultaneously at {stats.percent(claim.confidence)}: on the mean and the worst question "
        f"of {'; '.join(f'{arm} by {scorer}' for arm, scorer in claim.among)}"
    )


def _accepted(run: Run, arm: Arm, claim: LeakClaim) -> str:
    """The party that accepts a limit on tokens that is too short; empty where there is none."""
    if sets_limit(run.record.benchmark, arm.decoding):
        return "set by the published protocol"
    return "accepted by the claim" if claim.accept_cut else ""


def _reading(arm: Arm, scorer: Scorer) -> str:
    """The part of the outputs that the claim is about; empty where the arm has no thoughts."""
    hidden, of = arm.ledger.hidden, reading_of(scorer) or "either"
    if not (hidden or arm.thinks):
        return ""
    unseen = f"{many(hidden, 'draw')} with a hidden thought" if hidden else ""
    if of != "answer":
        return "; ".join(filter(None, [f"{PART[of]} of each output", unseen]))
    return "; ".join(filter(None, ["the answer only, nothing is claimed of the thoughts", unseen]))


def _only_scorer(run: Run) -> str:
    """The name of the one scorer that the run was scored with."""
    names = scored_by(run)
    if len(names) == 1:
        return names[0]
    raise InputError(
        f"`{run.path}` has the scores of {len(names)} scorers ({', '.join(names) or 'none'}), and "
        "a claim is about one. Name it with `--scorer` (in Python `scorer`); `leakbound score` "
        "makes scores that are not there."
    )


def _proofs_of(run: Run, arm: Arm, claim: LeakClaim, rows: Estimates) -> dict[str, float]:
    """Pr[leak] at least, by the id of each of the run's questions of which something is proved.

    None of an arm that asks anything but the questions in their own words: a claim about one is
    about a pool of queries, and a proof about one of them.
    """
    proved = rows.matching(
        arm=claim.arm, scorer=claim.scorer, quantity="leak probability", proved=True
    )
    lower = {row.query_id: row.lower for row in proved} if arm.key.own_words else {}
    return {query.id: lower[query.id] for query in run.questions if query.id in lower}


def made_from(run: Run, arm: Arm, scorer: Scorer) -> JsonObject:
    """Fingerprints of the questions, of the model and its draws as planned, and of the scorer.

    No text of the data set is in it: queries that stand in place of the questions have a digest.
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
    """SHA-256 of every file that the arm's estimates rest on, by its path within the run.

    And of what else lies there as a part of it: nothing rests on that, and nobody should wonder.
    """
    strays = sorted(arm.folder.glob("*/part-*.parquet"))
    files = dict.fromkeys([*run.question_files, *arm.files(slug(scorer)), *strays])
    return {file.relative_to(run.path).as_posix(): sha256(file) for file in files}
