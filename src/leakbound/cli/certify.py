"""`leakbound certify` decides a claim about a run; `leakbound verify` checks the certificate."""

from __future__ import annotations

import json
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose
from leakbound.cli.output import VERIFICATION_FAILED, bold, say, write
from leakbound.cli.parsed import Parsed
from leakbound.text.shown import number, visible

if TYPE_CHECKING:
    from leakbound.certificate import Certificate, Check, Difference, Verification

EXIT_STATUS = {"pass": 0, "refuted": 4, "inconclusive": 5}
_STATUS = {
    "ok": "checked",
    "note": "checked",
    "differs": "differs",
    "assumed": "assumed",
    "open": "not checked",
    "unchecked": "not checkable",
}
_SHOWN = 5  # the maximum number of questions, and of differences per check, on the terminal
_LONGEST = 200  # the maximum number of characters shown of a value that differs


@opt.command
def certify(options: Parsed) -> int:
    """Decide whether the model of RUN leaks with probability at most X; write a certificate.

    Each claim that `evaluate --claim` recorded has its own error rate. All other claims share one
    error rate, because their bounds are valid simultaneously. If RUN already has a certificate of a
    different claim, the command does not overwrite it. Pass a new file to --out.

    Exit status: 0 pass, 4 refuted, 5 inconclusive. If the result is inconclusive, the command
    prints a forecast of the number of draws that would decide the claim. If the token limit or a
    stop string cuts reference answers, the command prints this reason instead of a forecast.

    Examples:
        leakbound certify runs/mine --max-leak 0.01 --scorer 'rouge-l-recall>=0.5'
    """
    from leakbound import certificate as verbs
    from leakbound.store import CERTIFICATE, TARGET, ArmKey, load

    run, arm = options.run, options.arm
    if options.under:
        from leakbound.certificate.derivation import require_one_decoding
        from leakbound.stress import named_stress

        if not arm:
            require_one_decoding(opened := load(run))
            arm = opened.main or str(TARGET)
        arm = str(ArmKey.from_text(arm).stressed(named_stress(options.under)))
    claim = options.stated("max_leak", "every_question", "scorer", "confidence", "of", "accept_cut")
    certificate = verbs.certify(run, out=options.out, arm=arm, **claim)
    file = options.out or run / CERTIFICATE
    digest = verbs.sha256(file)
    if options.as_json:
        print_json({"file": str(file), "sha256": digest, **certificate.to_dict()})
    else:
        _print_certificate(certificate)
        write(bold("files"))
        say(f"certificate: {file}")
        say(f"run: {run} (contains questions and completions; the certificate does not)")
        say(f"check it: leakbound verify {quote(str(file))} {quote(str(run))}")
        _print_digest(digest)
    return EXIT_STATUS[certificate.verdict]


@opt.command
def verify(options: Parsed) -> int:
    """Compute the values of CERTIFICATE again from RUN, and list all differences.

    The table lists all checks, all assumptions, and everything that was not checked. If the claim
    is about a model under a stress, pass the model without the stress to --with-model. The command
    applies the stress again.

    The command sends requests to a judge on a server only if --scorer names the judge. A
    certificate may come from a stranger, so completions are not sent to servers that only the
    certificate names.

    Exit status: 0 if nothing differs, 6 if something differs or a requested check is impossible.

    Examples:
        leakbound verify runs/mine/certificate.json runs/mine
        leakbound verify runs/mine/certificate.json runs/mine --with-model my-model
    """
    from leakbound import certificate as verbs
    from leakbound.store import load

    with progress_bar(not options.as_json) as progress:
        verification = verbs.verify(
            options.certificate,
            options.run,
            model=options.with_model,
            redraw=options.redraw,
            imported=options.imported and load(options.imported),
            loading=options.stated("device", "trust_remote_code"),
            progress=progress,
            scorer=options.scorer,
        )
    if options.as_json:
        print_json(verification.to_dict())
    else:
        _print_verification(verification)
    return 0 if verification.verified else VERIFICATION_FAILED


def _print_certificate(certificate: Certificate) -> None:
    """Print the verdict, the specification, and the conditions with their error rates."""
    from leakbound.certificate.words import downward, upward
    from leakbound.evaluation import Table

    write(f"{bold(visible(f'{certificate.claim.text}: {certificate.verdict}'))}\n")
    say(f"{prose(certificate.sentence)}\n")
    assumptions = [("Assumption", text) for text in certificate.assumes]
    facts = [*certificate.specification.items(), *assumptions]
    print_table(Table.plain("specification", ("heading", "value"), facts, prose=True))
    limit, alpha = certificate.claim.max_leak, f"{certificate.alpha:.6g}"
    low, high = float(certificate.estimate.lower), float(certificate.estimate.upper)
    conditions = [
        (f"the upper bound is <= {limit}", upward(high, limit), high <= limit, "pass", alpha),
        (f"the lower bound is > {limit}", downward(low, limit), low > limit, "refuted", alpha),
    ]
    if certificate.proved is not None:
        proved, text = certificate.proved.lower, f"the proved lower bound is > {limit}"
        conditions.append((text, downward(proved, limit), proved > limit, "refuted", "none"))
    columns = ("condition", "value of the bound", "met", "verdict if met", "error rate")
    rows = [(*row[:2], "yes" if row[2] else "no", *row[3:]) for row in conditions]
    print_table(Table.plain("evidence", columns, rows, prose=True))
    if certificate.claim.every_question:
        worst = sorted(certificate.questions, key=lambda row: -(row.value or 0))[:_SHOWN]
        title = f"the {len(worst)} of {len(certificate.questions)} questions that leak most"
        shares = [(q.id, number(q.value or 0), f"{q.n:,}") for q in worst]
        print_table(Table.plain(title, ("question", "fraction that leaks", "draws"), shares))
    if certificate.forecast is not None:
        say(f"{prose(certificate.forecast.text)}\n")


def _print_verification(verification: Verification) -> None:
    """Print all checks, the first differences of each, and the result."""
    from leakbound.evaluation import Table

    checks = verification.checks
    rows = [(check.name, _STATUS[check.status], check.says) for check in checks]
    print_table(Table.plain("verification", ("check", "result", "details"), rows, prose=True))
    for check in checks:
        for difference in check.differences[:_SHOWN]:
            say(_difference(check, difference))
        if len(check.differences) > _SHOWN:
            say(f"{check.name}: {len(check.differences) - _SHOWN:,} more differences")
    failed = next((check for check in checks if check.status == "differs"), None)
    if verification.verified:
        say("verified: nothing differs.")
    elif failed is None:
        lacking = ", ".join(check.name for check in checks if check.status == "unchecked")
        say(f"not verified: these checks were not possible: {lacking}.")
    else:
        first = next(map(partial(_difference, failed), failed.differences), failed.says)
        say(f"verification failed: {first.rstrip('.')}.")
    if verification.sentence is not None and failed is None:
        say(prose(f"This sentence follows from the files of the run: {verification.sentence}"))
    if verification.verified:
        _print_digest(verification.sha256)


def _difference(check: Check, difference: Difference) -> str:
    """Return the certificate's value and the run's value as JSON, shortened if they are long."""
    from leakbound.certificate.certificate import ABSENT

    where = f"{check.name}: {difference.where}" if difference.where else check.name
    values = []
    for value in (difference.certificate, difference.actual):
        text = ABSENT if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
        values.append(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
    return f"{where}: the certificate has {values[0]}, the run has {values[1]}"


def _print_digest(digest: str) -> None:
    say(
        f"SHA-256 of the certificate: {digest}\nPublish this digest separately from the run: a "
        "changed certificate has another digest."
    )
