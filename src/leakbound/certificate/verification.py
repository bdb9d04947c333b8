"""`verify`: derive a certificate again from the files of its run, and report every difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from leakbound.bounding.claims import places_of, rows_again
from leakbound.certificate.assumptions import assumed
from leakbound.certificate.certificate import (
    ABSENT,
    Check,
    Difference,
    compared,
    mark,
    read_values,
)
from leakbound.certificate.derivation import (
    derive,
    file_digests,
    is_prior,
    made_from,
    require_binary,
)
from leakbound.certificate.model import Verifier, require_share
from leakbound.certificate.record import check_imported, check_record
from leakbound.drawing.sample import require_same_looks
from leakbound.engines.addresses import UnnamedServerError, servers_of
from leakbound.engines.models import OpenModels
from leakbound.errors import IncompleteError, InputError, LeakboundError
from leakbound.scorers import connect, make_scorer
from leakbound.scoring.score import (
    range_part,
    require_same_model,
    score_part,
    scored_by,
    slug,
)
from leakbound.store import (
    Arm,
    DamagedError,
    Estimates,
    ImportedDraws,
    Run,
    ScorerRecord,
    StoppedDraws,
    load,
    sha256,
)
from leakbound.store.claims import LeakClaim
from leakbound.store.current import code
from leakbound.store.files import as_read, digest_of
from leakbound.store.tables import cells_of
from leakbound.types import (
    Generate,
    JsonObject,
    Progress,
    Scorer,
    counted,
    silent,
)

# The errors that forged files and records can cause.
_UNUSABLE = (LeakboundError, AttributeError, LookupError, TypeError, ValueError)
_NUMBERS = ("estimate", "questions", "proved", "ledger")
_VERDICT = ("rule", "format", "claim", "verdict", "forecast", "reasons")
_WORDS = ("sentence", "specification", "assumes")
_DERIVED = {
    ("estimates", "every number follows from the run"): _NUMBERS,
    ("verdict", "the verdict follows from the numbers"): _VERDICT,
    ("sentence", "sentence, specification and assumptions follow from the run"): _WORDS,
}
"""The checks that derive the certificate again, and the fields that each of them compares."""


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of a certificate.

    Attributes:
        checks: each check with its result.
        sha256: the SHA-256 of the certificate's file.
        sentence: the certificate's sentence, derived from the files of the run; None if it cannot
            be derived.
    """

    checks: tuple[Check, ...]
    sha256: str
    sentence: str | None = None

    @property
    def verified(self) -> bool:
        """Return False if a check found a difference or a requested check compared nothing."""
        return not any(check.status in ("differs", "unchecked") for check in self.checks)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values."""
        return {"verified": self.verified, **asdict(self)}


def verify(
    certificate: str | Path,
    run: str | Path,
    *,
    model: str | Generate | None = None,
    redraw: float | None = None,
    scorer: str | None = None,
    imported: Run | None = None,
    loading: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Verification:
    """Check a certificate against the files of its run.

    Scores, estimates, verdict, sentence and specification are recomputed from the completions, and
    the SHA-256 of every file is compared. This finds every later change of the run or the
    certificate. The questions, queries, plan and recorded stopping decisions are checked for
    consistency. With the model, `verify` also finds invented outputs. A statement that cannot be
    recomputed has a check with the status "assumed"; the certificate lists it in `assumes`.

    Args:
        certificate: the file of the certificate.
        run: the folder of the run that the certificate is about.
        model: the model that drew the outputs (None: not checked). Its fingerprint is compared, and
            the log-probabilities of the completions are recomputed. For a stressed arm, this is the
            model before the stress; the stress is applied again.
        redraw: the fraction of the arm's parts to draw again with `model`, in (0, 1]; at least one
            part is drawn (None: no parts). The parts are chosen at random during the call. Drawing
            again finds invented and omitted outputs. It cannot detect that the seed was selected
            among several seeds.
        scorer: the certificate's scorer, if it is a judge behind a server. Completions are sent to
            a server only if this argument names the judge (None: the scores of a judge are not
            checked).
        imported: a run from a new import of the files of the tool that drew the outputs (None: the
            run is not compared with files).
        loading: the options (such as `device`) for opening a named model or the model of a scorer.
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        All checks with their differences. `verified` is False if a check has the status "differs",
            or if a requested check could compare nothing. Nothing is written.

    Raises:
        InputError: for a scorer that is not the scorer of the certificate, a fraction outside (0,
            1] or without a model, a file that is not a certificate, or a folder without a run.
        ModelError: for a model that cannot be used.
        IncompleteError: if a judge fails repeatedly.
    """
    if redraw is not None:
        require_share(redraw, model)
    file = Path(certificate)
    stated = read_values(file)
    text = "the certificate has not been changed"
    checks = [compared("digest", text, stated.get("digest", ABSENT), digest_of(stated))]
    subject = _subject(stated, Path(run))
    if isinstance(subject, Check):
        return Verification((*checks, subject), sha256(file))
    claim, opened, arm = subject
    servers = frozenset[str]()  # only servers of the scorer that the user names are contacted
    if scorer is not None:
        if (named := make_scorer(scorer).name) != claim.scorer:
            raise InputError(
                f"the certificate is about scorer {claim.scorer!r}, got {named!r}. Pass the scorer "
                "of the certificate if you trust its server with the completions."
            )
        servers = servers_of([scorer])
    models = OpenModels(servers=servers, **(loading or {}))
    derived = _derived(opened, claim)
    checks += _against_run(stated, derived, *subject, models, progress)
    if imported is not None:
        checks.append(check_imported(opened, arm, imported))
    if model is not None:
        under = Verifier(opened, arm, model, loading or {}, progress)
        checks += under.checks(slug(make_scorer(claim.scorer)), redraw)
    drawn_here = not isinstance(arm.spec.draws, ImportedDraws)
    if not drawn_here and imported is None:
        text = "to compare the draws with the tool's files, import the files and add --imported"
        checks.append(Check("log", "open", text))
    if drawn_here and model is None:
        text = "to check the model and the probability of each output, add --with-model"
        checks.append(Check("model", "open", text))
    if drawn_here and redraw is None and not arm.explored:
        text = "to check that this model and seed give these outputs, add --redraw"
        checks.append(Check("draws", "open", text))
    checks += [Check("assumed", "assumed", text) for text in assumed(opened, arm, claim)]
    sentence = None if isinstance(derived, Check) else str(derived["sentence"])
    return Verification(tuple(checks), sha256(file), sentence)


def _subject(stated: JsonObject, path: Path) -> tuple[LeakClaim, Run, Arm] | Check:
    """Return the claim, the run and the arm, or a failed check if they cannot be read."""
    try:
        claim = LeakClaim.from_dict(stated.get("claim", {}))
        require_binary(make_scorer(claim.scorer))
    except InputError as error:
        return Check("claim", "differs", str(error))
    try:
        run = load(path)
        arm = run.arms.get(claim.arm)
    except DamagedError as error:
        return Check("run", "differs", str(error))
    if arm is None:
        return compared("run", "the run has the arm of the claim", claim.arm, ABSENT)
    return claim, run, arm


def _against_run(
    stated: JsonObject,
    derived: JsonObject | Check,
    claim: LeakClaim,
    run: Run,
    arm: Arm,
    models: OpenModels,
    progress: Progress,
) -> Iterator[Check]:
    """Yield the checks that need only the run and the model of the scorer, if it has one."""
    scorer = make_scorer(claim.scorer)
    text = "questions, model, draws and scorer are as in the certificate"
    origin = as_read(made_from(run, arm, scorer))
    yield compared("run", text, stated.get("made_from", ABSENT), origin)
    yield from check_record(run, arm, slug(scorer))
    text = "no file was changed, added or removed"
    yield compared("files", text, stated.get("files", ABSENT), file_digests(run, arm, scorer))
    yield _scores(run, arm, scorer, models, progress)
    yield from _looks(run, arm, scorer, models, progress)
    yield from _stated(run, claim)
    yield from [derived] if isinstance(derived, Check) else _compared(stated, derived)
    text = "the same code made the certificate and checks it"
    check = compared("code", text, stated.get("code", ABSENT), code())
    other = "another version of the code made the certificate"
    # Other code that derives the same numbers confirms them, so this is only a note.
    yield replace(check, status="note", says=other) if check.differences else check


def _stated(run: Run, claim: LeakClaim) -> Iterator[Check]:
    """Yield a check that the claim was recorded before the draws, or uses simultaneous bounds."""
    if not claim.among:
        text = "the claim was recorded before anything was drawn"
        yield compared("stated", text, True, is_prior(run, claim))
        return
    text = "the claim is among the claims that are decided simultaneously"
    yield compared("stated", text, True, (claim.arm, claim.scorer) in claim.among)
    now = places_of(run, map(make_scorer, scored_by(run)))
    if others := [f"{arm} by {scorer}" for arm, scorer in now if (arm, scorer) not in claim.among]:
        text = f"the correction for choosing the claim does not cover: {', '.join(others)}"
        yield Check("stated", "note", text)


def _looks(
    run: Run, arm: Arm, scorer: Scorer, models: OpenModels, progress: Progress
) -> Iterator[Check]:
    """Yield checks of an arm's looks (stopping decisions), which are computed again from scores."""
    rule = arm.spec.draws
    if not isinstance(rule, StoppedDraws):
        return
    try:
        steering = make_scorer(rule.scorer.name)
        if steering.name != scorer.name:
            yield _scores(run, arm, steering, models, progress)
        require_same_looks(arm, steering)
        same = rule.scorer == ScorerRecord.of(steering)
        why = "" if same else f"the settings of {steering.name} are not as recorded"
    except IncompleteError:
        raise  # see `_scores`
    except _UNUSABLE as error:
        why = str(error)
    text = "each question was drawn until the scores decided its claim"
    yield Check("looks", "differs" if why else "ok", why or text)


def _scores(run: Run, arm: Arm, scorer: Scorer, models: OpenModels, progress: Progress) -> Check:
    """Return a check that new scores of every stored completion equal the stored scores."""
    text = "scoring the stored completions again gives the stored scores"
    try:
        scorer = connect(scorer, models)
        require_same_model(run.arms.values(), scorer)
        stored, again = _stored(arm, scorer), list(_again(arm, scorer, progress))
    except UnnamedServerError as error:
        return Check("scores", "unchecked", str(error))
    except IncompleteError:
        raise  # an unanswered request refutes nothing
    except _UNUSABLE as error:
        return Check("scores", "differs", f"the scores cannot be read or computed again: {error}")
    differing = tuple(
        Difference(f"row {i}", before, now)
        for i, (before, now) in enumerate(zip_longest(stored, again, fillvalue=ABSENT))
        if before != now
    )
    return Check("scores", mark(differing), text, differing)


def _stored(arm: Arm, scorer: Scorer) -> list[tuple[Any, ...]]:
    """Return the stored scores as tuples.

    They are (question, draws, score) for completions, then (question, mass, low, high) for events
    (explored sets of outputs), then (question, mass, low) for proofs.
    """
    name = slug(scorer)
    tables = [arm.scored.stored.table(name)]
    if arm.explored:
        tables.append(arm.masses.ranges.table(name))
    rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    proofs = arm.proofs.stored.values(name)
    return [*rows, *((proof.query_id, proof.event.mass, proof.low) for proof in proofs)]


def _again(arm: Arm, scorer: Scorer, progress: Progress) -> Iterator[tuple[Any, ...]]:
    """Yield the tuples of `_stored`, computed again from the completions and events."""
    for part in counted(progress, "scoring again", arm.parts, "parts"):
        table = arm.completions(part)
        rows, scores = cells_of(table, "query_id", "count"), score_part(arm, scorer, table)
        yield from ((*row, score) for row, score in zip(rows, scores, strict=True))
    for table in arm.masses.tables():
        rows, ranges = cells_of(table, "query_id", "mass"), range_part(arm, scorer, table)
        yield from ((*row, *ends) for row, ends in zip(rows, ranges, strict=True))
    if (proofs := arm.proofs.stored).file(name := slug(scorer)).exists():
        table = proofs.table(name)
        rows, ranges = cells_of(table, "query_id", "mass"), range_part(arm, scorer, table)
        yield from ((*row, low) for row, (low, _) in zip(rows, ranges, strict=True))


def _derived(run: Run, claim: LeakClaim) -> JsonObject | Check:
    """Return the certificate that follows from the run, or a failed check if there is none."""
    try:
        rows = Estimates(tuple(rows_again(run, claim)))
        return as_read(derive(run, claim, rows).to_dict())
    except _UNUSABLE as error:
        return Check("estimates", "differs", f"the estimates cannot be computed again: {error}")


def _compared(stated: JsonObject, derived: JsonObject) -> Iterator[Check]:
    """Yield checks that the certificate's numbers and words equal the derived certificate."""
    for (name, text), keys in _DERIVED.items():
        parts = ({key: values.get(key, ABSENT) for key in keys} for values in (stated, derived))
        yield compared(name, text, *parts)
    unknown = {key: value for key, value in stated.items() if key not in derived}
    if unknown:
        yield compared("extra", "the certificate has no unknown fields", unknown, {})
