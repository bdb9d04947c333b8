"""Deciding a claim about a run, and writing down all that the decision rests on.

That are fingerprints of what was run, digests of files and the code, and what is proved of the
claim's probability without chance, given the measured margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from leakbound import stats
from leakbound.benchmarks.profiles import sets_limit
from leakbound.bounding.claims import Tail, sampled_arm, tail_of
from leakbound.bounding.proof import proved_tail
from leakbound.certificate.assumptions import assumed
from leakbound.certificate.certificate import Certificate, Proved, QuestionRecord, read_values
from leakbound.certificate.claim import (
    PART,
    ClaimFields,
    LeakClaim,
    Verdict,
    allocation,
    bounded,
    forecast,
    threshold_for,
    verdict,
)
from leakbound.certificate.words import CUT, GRANTED, sentence
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
from leakbound.scoring.score import in_reading_of, readings_among, score_run, slug
from leakbound.store import CERTIFICATE, Arm, Run, load, locked, sha256, write_json
from leakbound.store.current import code
from leakbound.store.files import as_read, digest_of
from leakbound.store.tables import read_meta
from leakbound.text.shown import many
from leakbound.types import RULE, JsonObject, Scorer, object_of


def certify(
    run: Run | str | Path,
    *,
    max_leak: float,
    scorer: str | None = None,
    threshold: float | None = None,
    arm: str = "target",
    of: Of | None = None,
    out: str | Path | None = None,
    **fields: Unpack[ClaimFields],
) -> Certificate:
    """Decide whether Pr[h > x] <= max_leak, and write a certificate of the verdict.

    A wrong verdict has probability at most 1 - confidence, see `claim.bounded`, given that
    scorer, threshold and arm were chosen before their scores were seen. What is proved above the
    limit refutes without chance, given the measured margin. Where something is raised nothing is
    written.

    Args:
        run: a run with scores, or its folder.
        max_leak: the claimed limit of the probability of a leak, in (0, 1).
        scorer: whose score h is claimed about (None: the run's only one).
        threshold: x, in [0, 1); a leak is h > x. None for a binary scorer, whose x is 0.
        arm: which model and decoding, by its name in the run.
        of: the part of each output that is claimed about, "answer", "thought" or "either" (None:
            either, or the answer where some thought of the run is hidden). Scores of that part
            are made first if the run lacks them and the scorer asks no model.
        out: the file (None: certificate.json in the run). Nothing else is written, so with `out`
            elsewhere the run may be read-only, unless scores are lacking.
        fields: those of a `LeakClaim` that have a default: every_question, confidence (default:
            0.99), accept_cut.

    Returns:
        The certificate; where the same one lies at the place already, that stays as it is.

    Raises:
        InputError: for a number out of range, a scorer or arm that the run has not, or one that
            is not scored yet, for a part that the scorer does not read or that is hidden, for draws
            that can only be copies, for files that are not as they were written, and where another
            certificate lies at the place.
        MixError: where another command is writing into the run, unless `out` is given.
        IncompleteError: where completions are missing.
    """
    opened = run if isinstance(run, Run) else load(run)
    named = make_scorer(scorer or _only_scorer(sampled_arm(opened, arm)))
    if of is not None and scorer and reading_of(named) not in (None, of):
        raise InputError(
            f"scorer {named.name!r} reads the {reading_of(named)}, and `--of {of}` names another "
            "part. Leave one of them out, or use a scorer that reads that part."
        )
    chosen = _read(opened, arm, named, of)
    claim = LeakClaim(
        max_leak=max_leak,
        scorer=chosen.name,
        threshold=threshold_for(chosen, threshold),
        arm=arm,
        **fields,
    )
    require_confidence(claim.confidence, len(opened.prompts))
    file = opened.path / CERTIFICATE if out is None else Path(out)
    with locked(opened.path, "certify") if out is None else nullcontext():
        certificate = derive(opened, claim)
        if file.exists():
            _require_same(file, certificate)
        else:
            write_json(file, certificate.to_dict())
    return certificate


def _read(run: Run, arm: str, scorer: Scorer, of: Of | None) -> Scorer:
    """The scorer in the reading that is claimed about, its scores made if they lack."""
    (chosen,) = in_reading_of(run, [scorer if of is None else with_reading(scorer, of)])
    made = chosen == scorer or bool(models_of(chosen))
    if not made and sampled_arm(run, arm).digests(chosen.name, slug(chosen)) is None:
        score_run(run, [chosen])
    return chosen


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


def derive(run: Run, claim: LeakClaim) -> Certificate:
    """The certificate that the files of the run make of a claim; nothing is written."""
    scorer = make_scorer(claim.scorer)
    tail = tail_of(run, claim.arm, scorer, claim.threshold)
    arm = run.arms[claim.arm]
    estimate = bounded(tail, claim)
    proofs = proofs_of(run, arm, claim)
    proved, about = proved_claim(run, proofs, claim), _about(run, arm, claim)
    lower = 0.0 if proved is None else proved.lower
    by_bounds = verdict(estimate, claim, lower)
    reasons = _reasons(run, arm, claim, by_bounds)
    decision: Verdict = "inconclusive" if reasons else by_bounds
    seen = tail.each(confidence=claim.confidence, side="both")
    return Certificate(
        claim=claim,
        verdict=decision,
        sentence=sentence(
            claim,
            decision,
            estimate,
            about,
            arm.spec,
            questions=tail.questions,
            proved=lower,
            reasons=reasons,
        ),
        specification=about,
        forecast=forecast(seen, claim) if by_bounds == "inconclusive" else None,
        estimate=estimate,
        allocation=allocation(claim, tail.questions),
        proved=proved,
        reasons=reasons,
        ledger=arm.ledger.to_dict(),
        assumes=assumed(run, arm),
        questions=_questions(run, tail, claim, seen, proofs),
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
        "Reading": _reading(arm, scorer),
        CUT: arm.ledger.within.strip(),
        GRANTED: "; that ".join(assumed(run, arm, aloud=True)),
        "Departs from the benchmark's defaults": "; ".join(departures(run.record, arm.spec)),
        "Limit": f"{limit}; {accepted}" if limit and accepted else "",
    }
    return {
        **{heading: text for heading, text in only.items() if text},
        **specification_of(run, arm),
        "Scores": f"{scorer.name} ({digest(scorer)}), rule {RULE}",
    }


def _accepted(run: Run, arm: Arm, claim: LeakClaim) -> str:
    """The party that accepts a limit on tokens that is too short; empty where there is none."""
    if sets_limit(run.record.benchmark, arm.decoding):
        return "set by the published protocol"
    return "accepted by the claim" if claim.accept_cut else ""


def _reading(arm: Arm, scorer: Scorer) -> str:
    """The part of the outputs that the claim is about; empty where the arm has no thoughts."""
    hidden, of = arm.hidden, reading_of(scorer) or "either"
    if not (hidden or arm.thinks):
        return ""
    unseen = f"{many(hidden, 'draw')} with a hidden thought" if hidden else ""
    if of != "answer":
        return "; ".join(filter(None, [f"{PART[of]} of each output", unseen]))
    return "; ".join(filter(None, ["the answer only, nothing is claimed of the thoughts", unseen]))


def _reasons(run: Run, arm: Arm, claim: LeakClaim, by_bounds: Verdict) -> tuple[str, ...]:
    """Why a claim neither passes nor is refuted, whatever the bounds say."""
    limit = short_limit(arm)
    if by_bounds == "pass" and limit and not _accepted(run, arm, claim):
        return (f"{limit}; draw longer outputs, or certify with `--accept-cut`",)
    return ()


def _questions(
    run: Run, tail: Tail, claim: LeakClaim, seen: stats.Estimate, proofs: Mapping[str, float]
) -> tuple[QuestionRecord, ...]:
    """The record of each question, with the bounds that a claim about every one rests on."""
    nothing: Sequence[float | None] = [None] * tail.questions
    upper = lower = nothing
    if claim.every_question:
        pass_, refuted = allocation(claim, tail.questions)
        upper = _list(tail.each(confidence=1 - pass_.each, side="upper").upper)
        lower = _list(tail.each(confidence=1 - refuted.each, side="lower").lower)
    columns = zip(*map(_list, (seen.value, seen.n, seen.missing)), lower, upper, strict=True)
    return tuple(
        QuestionRecord(
            id=public_id(query),
            value=None if math.isnan(v) else v,  # JSON has no NaN
            n=int(n),
            missing=int(m),
            lower=a,
            upper=b,
            proved=proofs.get(query.id),
        )
        for query, (v, n, m, a, b) in zip(run.questions, columns, strict=True)
    )


def _list(column: ArrayLike) -> list[float]:
    values: list[float] = np.asarray(column).tolist()
    return values


def _only_scorer(arm: Arm) -> str:
    """The name of the one scorer that the arm was scored with."""
    stored = {str(read_meta(f)["scorer"]) for f in (arm.folder / "scores").glob("*.parquet")}
    names = sorted(stored - readings_among(stored))
    if len(names) == 1:
        return names[0]
    raise InputError(
        f"{arm.place} has the scores of {len(names)} scorers ({', '.join(names) or 'none'}), and a "
        "claim is about one. Name it with `--scorer` (in Python `scorer`); `leakbound score` makes "
        "scores that are not there."
    )


def proofs_of(run: Run, arm: Arm, claim: LeakClaim) -> dict[str, float]:
    """Pr[h > x] at least, by the id of each of the run's questions of which something is proved.

    None of an arm that asks anything but the questions in their own words: a claim about one is
    about a pool of queries, and a proof about one of them.
    """
    if not arm.key.own_words:
        return {}
    tails = proved_tail(arm, make_scorer(claim.scorer), claim.threshold)
    return {query.id: tails[query.id] for query in run.questions if query.id in tails}


def proved_claim(run: Run, proofs: dict[str, float], claim: LeakClaim) -> Proved | None:
    """The bound that proofs give of the mean or the worst question; None where there are none.

    A question of which nothing is proved leaks with probability 0 at least, so each sum and each
    maximum of such bounds is a bound.
    """
    if not proofs:
        return None
    mean = math.fsum(proofs.values()) / len(run.questions)
    lower = max(proofs.values()) if claim.every_question else mean
    return Proved(lower=lower, questions=len(proofs))


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
